"""Uint8 inputs and outputs: blocks read and write them directly, and the image is in the arena once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from scripts.zoo.networks import inverted_residual_network
from tests.builders import random_graph
from tests.conftest import SHARED
from tests.drawing.raw_models import RawModel
from tests.drawing.raw_models import add_convolution as conv
from tests.input_mode_models import MODELS, skipped_over
from tests.told import told
from tests.uint8_models import with_uint8_borders
from tflite_fuse import Goal, LimitError
from tflite_fuse.check import validate
from tflite_fuse.emit.options import read_options, write_options
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.edit import add_buffer, replace_main, replace_operators
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.types import TensorType
from tflite_fuse.runtime import tflm

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

MODES = ("resident", "streamed", "external")


@cache
def unsigned(name: str, coarser: float = 1.0) -> bytes:
    return serialize_model(with_uint8_borders(MODELS[name](), coarser=coarser))


def operators(data: bytes) -> list[str]:
    model = load_model(data)
    return [operator_name(model, operator) for operator in model.main.operators]


@pytest.mark.parametrize("coarser", [1.0, 1.3])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["two images", "skipped over", "reshaped", "inverted residuals"])
def test_blocks_speak_uint8_in_every_mode(name: str, mode: str, coarser: float) -> None:
    result = tflite_fuse.rewrite(unsigned(name, coarser), input_mode=mode, inputs=8)
    report = result.report
    assert report.verified is not None and report.verified.bit_exact
    model = load_model(result.model)
    assert all(model.main.tensors[tensor].type == TensorType.UINT8 for tensor in model.main.inputs)
    assert bool(model.main.inputs) == (mode == "resident")
    assert all(entry.type == TensorType.UINT8 for entry in report.outside)
    readers = [op for op in model.main.operators if set(op.inputs or ()) & set(model.main.inputs)]
    if coarser == 1.0:
        assert not any(operator_name(model, op) == "QUANTIZE" for op in readers)


def test_a_block_may_end_in_a_conversion_to_uint8() -> None:
    """Behind a FULLY_CONNECTED over one pixel and a LOGISTIC, as voice activity detectors end."""
    b = ModelBuilder(0, calibration=2)
    x = b.conv(b.input((1, 4, 1, 3)), 4, (4, 1), padding="VALID")
    model = with_uint8_borders(b.build([b.logistic(b.fully_connected(b.reshape(x, (1, 4)), 1))]), inputs=False)
    data = serialize_model(model)
    result = tflite_fuse.rewrite(data, goal=Goal(least_ram=True), inputs=5)
    assert operators(result.model) == ["CUSTOM:TFLITE_FUSE"] and result.report.verified is not None
    assert result.report.verified.bit_exact


def test_the_picture_is_there_once() -> None:
    model = inverted_residual_network(size=48, blocks=2)
    signed = tflite_fuse.rewrite(serialize_model(model), inputs=2).report.after.arena_bytes
    data = serialize_model(with_uint8_borders(model, outputs=False))
    assert tflite_fuse.rewrite(data, inputs=2).report.after.arena_bytes <= signed + 100


@pytest.mark.parametrize("seed", range(12))
def test_random_models_keep_their_bytes(seed: int) -> None:
    random = Random(seed)
    model = with_uint8_borders(random_graph(random.randint, 8), coarser=random.choice([1.0, 1.0, 0.7]))
    for mode in MODES:
        try:
            goal = Goal(least_ram=True) if random.random() < 0.5 else None
            report = tflite_fuse.rewrite(serialize_model(model), input_mode=mode, goal=goal, inputs=6).report
        except LimitError:  # no block can read an input of this graph, or one in a stream would need more
            assert mode != "resident"
            continue
        assert report.verified is not None and report.verified.bit_exact


def test_an_input_with_other_readers_is_not_converted_in_place() -> None:
    """The second QUANTIZE has another scale, so that it stays an operator, and may read the picture after the block."""
    raw = RawModel()
    x = raw.tensor((1, 8, 8, 4), 0.5, 128, TensorType.UINT8)
    same, other = raw.tensor((1, 8, 8, 4), 0.5, 0), raw.tensor((1, 8, 8, 4), 0.9, 3)
    for target in (same, other):
        raw.operator("QUANTIZE", [x], [target], None)
    y = conv(raw, conv(raw, same, (1, 8, 8, 8), kernel=3), (1, 8, 8, 4), kernel=3)
    report = tflite_fuse.rewrite(serialize_model(raw.build([x], [y, other]))).report
    assert report.verified is not None and report.verified.bit_exact
    assert any(
        "uint8 and read by others" in str(each.details["why"]) for each in told(report.records, "not fused", "operator")
    )


def test_a_source_of_the_wrong_type_is_refused() -> None:
    result = tflite_fuse.rewrite(unsigned("skipped over"), input_mode="streamed", inputs=2)
    image = np.full((1, 16, 16, 4), 200, np.uint8)
    (streamed,) = tflite_fuse.run(result.model, [lambda y, x, count: image[0, y, x : x + count]])
    (plain,) = tflite_fuse.run(unsigned("skipped over"), [image])
    assert streamed.dtype == np.uint8 and (streamed == plain).all()
    with pytest.raises(tflite_fuse.UsageError, match="int8 pixels; the model reads uint8"):
        tflite_fuse.run(result.model, [lambda y, x, count: image.view(np.int8)[0, y, x : x + count]])


def test_a_block_that_forgets_to_convert_is_not_proven() -> None:
    """As int8 the same options would compute something else: the proof tells, without running it."""
    data = serialize_model(with_uint8_borders(skipped_over()))
    model = load_model(tflite_fuse.rewrite(data, inputs=2).model)
    assert validate(load_model(data), model).proven
    index = next(i for i, op in enumerate(model.main.operators) if op.custom_options)
    operator = model.main.operators[index]
    found = read_options(operator.custom_options or b"")
    constants = model.buffers[model.main.tensors[(operator.inputs or ())[-1]].buffer].data or b""
    tensors = tuple(tensor._replace(element_type=0) for tensor in found.tensors)
    assert tensors != found.tensors
    changed = replace(operator, custom_options=write_options(found._replace(tensors=tensors), constants))
    broken = replace_operators(model, [*model.main.operators[:index], changed, *model.main.operators[index + 1 :]])
    certificate = validate(load_model(data), broken)
    assert not certificate.proven and any("type of tensor" in str(finding) for finding in certificate.findings)


@pytest.mark.parametrize(("mode", "most"), [("resident", 8_400), ("streamed", 4_300)])
def test_a_public_model_of_uint8_borders(mode: str, most: int) -> None:
    path = SHARED / "real" / "wakevision_k8c5_uint8_io.tflite"
    if not Path(path).exists():
        pytest.skip(f"no {path.name} beside the project")
    report = tflite_fuse.rewrite(path, input_mode=mode, goal=Goal(max_compute=1.0), inputs=4).report
    assert report.verified is not None and report.verified.bit_exact and report.after.arena_bytes <= most


def test_a_constant_is_not_converted_where_it_lies() -> None:
    """A file may give a block a constant as input; in flash nothing can be written."""
    data = serialize_model(with_uint8_borders(skipped_over()))
    model = load_model(tflite_fuse.rewrite(data, inputs=2).model)
    (image,) = model.main.inputs
    tensor = model.main.tensors[image]
    model, buffer = add_buffer(model, bytes(16 * 16 * 4))
    tensors = list(model.main.tensors)
    tensors[image] = replace(tensor, buffer=buffer)
    hostile = replace_main(model, replace(model.main, tensors=tuple(tensors), inputs=()))
    with pytest.raises(tflite_fuse.ModelError, match="converted where it lies is a constant"):
        tflm.measure(serialize_model(hostile))
