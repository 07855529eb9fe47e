"""Signatures that a converter left at tensors inside the QUANTIZE at each end: blocks may hold these tensors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scripts.zoo.builder import ModelBuilder
from tests.uint8_models import with_uint8_borders
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.schema import SignatureDef, TensorMap
from tflite_fuse.passes.pipeline import prepared
from tflite_fuse.runtime import tflm


def named_inside() -> Model:
    """QUANTIZE, two convolutions, QUANTIZE, and a signature of the tensors between the first and the last."""
    builder = ModelBuilder(seed=1)
    source = builder.input((1, 12, 12, 2))
    inner = builder.build([builder.conv(builder.conv(source, 8, kernel=3, padding="SAME"), 4, kernel=3)])
    model = load_model(serialize_model(with_uint8_borders(inner)))
    first, last = model.main.operators[0], model.main.operators[-1]
    inputs = (TensorMap("image", (first.outputs or ())[0]),)
    outputs = (TensorMap("map", (last.inputs or ())[0]),)
    return replace(model, signature_defs=(SignatureDef(inputs, outputs, "serving_default"),))


def named(model: Model) -> tuple[list[int], list[int]]:
    """Return the tensors that the signature names as inputs and as outputs."""
    (signature,) = model.signature_defs or ()
    return [e.tensor_index for e in signature.inputs or ()], [e.tensor_index for e in signature.outputs or ()]


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("mode", ["resident", "streamed", "external"])
@pytest.mark.parametrize("int8_io", [False, True])
def test_the_model_has_blocks_and_its_signature_names_the_ends(mode: str, int8_io: bool) -> None:
    result = rewrite(serialize_model(named_inside()), verify=True, inputs=2, input_mode=mode, int8_io=int8_io)
    assert result.report.proven is not None and result.report.proven.blocks == 1
    after = load_model(result.model)
    assert named(after) == (list(after.main.inputs), list(after.main.outputs))


def test_a_signature_of_another_tensor_is_not_proven() -> None:
    model = named_inside()
    after = load_model(rewrite(serialize_model(model), verify=False).model)
    assert validate(model, after).proven
    (signature,) = after.signature_defs or ()
    wrong = replace(signature, inputs=signature.outputs, outputs=signature.inputs)
    entries = [replace(e, name=n.name) for e, n in zip(signature.outputs or (), signature.inputs or (), strict=True)]
    for other in (wrong, replace(signature, inputs=tuple(entries))):
        assert not validate(model, replace(after, signature_defs=(other,))).proven


def test_prepared_models_name_the_ends_as_well() -> None:
    after = prepared(named_inside())
    assert named(after) == (list(after.main.inputs), list(after.main.outputs))
