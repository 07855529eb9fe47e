"""Constants that differ from pixel to pixel are operands of blocks, read from flash."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo.float_twin import float_twin
from tests.constant_map_models import JOINS, with_constant_map
from tflite_fuse.check import validate
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Buffer, Tensor
from tflite_fuse.runtime import tflm


def rewritten(join: str, mode: str, *, floats: bool = False) -> tuple[Model, Model]:
    model = with_constant_map(join)
    model = load_model(serialize_model(float_twin(model) if floats else model))
    result = tflite_fuse.rewrite(serialize_model(model), input_mode=mode, inputs=4)
    verified = result.report.verified
    assert not tflm.available() or (verified is not None and verified.bit_exact)
    return model, load_model(result.model)


@pytest.mark.parametrize("floats", [False, True], ids=["int8", "float32"])
@pytest.mark.parametrize("mode", ["resident", "streamed", "columns", "external"])
@pytest.mark.parametrize("join", JOINS)
def test_blocks_hold_the_network(join: str, mode: str, floats: bool) -> None:
    model, smaller = rewritten(join, mode, floats=floats)
    outside = [operator_name(smaller, operator) for operator in smaller.main.operators]
    if mode == "columns":  # a map is turned where a convolution cannot read columns
        assert set(outside) <= {FUSED_OPERATOR, "TRANSPOSE"}
    else:
        assert outside == [FUSED_OPERATOR]
    assert validate(model, smaller).proven


def changed(model: Model) -> Model:
    """The model with another byte in the constant that its only block reads as an operand."""
    operands = model.main.operators[0].inputs or ()
    numbers = {model.main.tensors[tensor].buffer for tensor in operands[:-1]}
    (number,) = (number for number in numbers if model.buffers[number].data)
    content = bytearray(model.buffers[number].data or b"")
    content[3] ^= 1
    buffers = [Buffer(bytes(content)) if index == number else each for index, each in enumerate(model.buffers)]
    return replace(model, buffers=tuple(buffers))


@pytest.mark.parametrize("join", JOINS)
def test_another_constant_is_not_proven(join: str) -> None:
    model, smaller = rewritten(join, "resident")
    assert validate(model, smaller).proven
    assert not validate(model, changed(smaller)).proven


def test_an_equal_constant_of_another_scale_is_not_proven() -> None:
    model, smaller = rewritten("position", "resident")
    tensors = list(model.main.tensors)
    operands = [tensor for operator in model.main.operators for tensor in (operator.inputs or ())]
    (number,) = (t for t in operands if tensors[t].dims == (12, 10, 8))
    quantization = tensors[number].quantization
    assert quantization is not None
    tensors[number] = replace(tensors[number], quantization=replace(quantization, scale=(0.03,)))
    other = replace(model, subgraphs=(replace(model.main, tensors=tuple(tensors)),))
    assert not validate(other, smaller).proven


def test_a_stored_tensor_of_an_unknown_type_does_not_matter() -> None:
    model = with_constant_map("coordinates")
    buffers = (*model.buffers, Buffer(b"abcd"))
    tensors = (*model.main.tensors, Tensor((4,), 77, len(buffers) - 1, "from a later schema"))
    model = replace_main(replace(model, buffers=buffers), replace(model.main, tensors=tensors))
    smaller = tflite_fuse.rewrite(serialize_model(model), verify=False).model
    assert [operator_name(load_model(smaller), each) for each in load_model(smaller).main.operators] == [FUSED_OPERATOR]


def test_the_constant_takes_no_arena() -> None:
    model, smaller = rewritten("position", "resident")
    constant = 12 * 10 * 8
    report = tflite_fuse.inspect(serialize_model(smaller))
    assert report.figures.arena_bytes < constant + 12 * 10 * 3 + 1500
    assert np.prod(model.main.tensors[model.main.inputs[0]].dims) == 12 * 10 * 3
