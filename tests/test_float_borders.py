"""Float32 inputs and outputs: blocks read and write them directly, and compute in int8."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo.networks import inverted_residual_network
from tests.builders import random_graph
from tests.drawing.random_blocks import random_reals
from tests.drawing.raw_models import RawModel
from tests.drawing.raw_models import add_convolution as conv
from tests.float_models import with_float_borders
from tests.input_mode_models import MODELS
from tests.uint8_models import with_uint8_borders
from tflite_fuse import LimitError
from tflite_fuse.check import validate
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.ir.enums import StageKind
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.model.outside import with_inputs_inside
from tflite_fuse.model.types import TensorType
from tflite_fuse.runtime import tflm

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

MODES = ("resident", "streamed", "external")


@cache
def floating(name: str) -> bytes:
    return serialize_model(with_float_borders(MODELS[name]()))


def operators(data: bytes) -> list[str]:
    model = load_model(data)
    return [operator_name(model, operator) for operator in model.main.operators]


def images(data: bytes, seed: int) -> list[np.ndarray]:
    """What an application may give: numbers of all sizes, halves, infinities, and what is no number."""
    noise = np.random.default_rng(seed)
    graph = with_inputs_inside(load_model(data)).main
    return [random_reals(noise, graph.tensors[index].dims) for index in graph.inputs]


def assert_same_on_any_floats(before: bytes, after: bytes) -> None:
    for seed in range(3):
        given = images(before, seed)
        for a, b in zip(tflite_fuse.run(before, given), tflite_fuse.run(after, given), strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["two images", "skipped over", "reshaped", "inverted residuals"])
def test_blocks_speak_float_in_every_mode(name: str, mode: str) -> None:
    result = tflite_fuse.rewrite(floating(name), input_mode=mode, inputs=6)
    assert result.report.verified is not None and result.report.verified.bit_exact
    assert all(entry.type == TensorType.FLOAT32 for entry in result.report.outside)
    model = load_model(result.model)
    assert bool(model.main.inputs) == (mode == "resident")
    if mode != "resident":
        assert "QUANTIZE" not in operators(result.model)
    assert_same_on_any_floats(floating(name), result.model)


@pytest.mark.parametrize("seed", range(12))
def test_random_models_with_float_ends_are_rewritten_in_every_mode(seed: int) -> None:
    rng = Random(seed)
    source = serialize_model(with_float_borders(random_graph(rng.randint, 9), outputs=rng.random() < 0.7))
    for mode in MODES:
        try:
            result = tflite_fuse.rewrite(source, input_mode=mode, inputs=4)
        except LimitError:
            assert mode != "resident"
            continue
        assert result.report.verified is not None and result.report.verified.bit_exact
        assert_same_on_any_floats(source, result.model)


def test_a_float_image_and_its_int8_one_are_never_both_there() -> None:
    """Four bytes a value for the image as it is given, and nothing beside it that does not fit into what it leaves."""
    plain = inverted_residual_network(32, 8, 3, 8, 4)
    after = tflite_fuse.rewrite(serialize_model(with_float_borders(plain)), inputs=2).report.after
    (tensor,) = plain.main.inputs
    image = 4 * int(np.prod(plain.main.tensors[tensor].dims))
    int8 = tflite_fuse.rewrite(serialize_model(plain), inputs=2).report.after
    assert after.head_bytes <= max(image + 256, int8.head_bytes + 64)
    assert after.arena_bytes < image + image // 4


def test_uint8_in_and_float_out_need_the_ram_of_int8() -> None:
    plain = inverted_residual_network(32, 8, 3, 8, 4)
    mixed = with_float_borders(with_uint8_borders(plain, outputs=False), inputs=False)
    int8 = tflite_fuse.rewrite(serialize_model(plain), inputs=2).report.after
    after = tflite_fuse.rewrite(serialize_model(mixed), inputs=4).report.after
    assert after.arena_bytes <= int8.arena_bytes + 100


@pytest.mark.parametrize("zero_point", [0, 5, -5, -128, 127])
@pytest.mark.parametrize("scale", [1.0, 0.0078431377, 1e-40, 1e4, 0.1])
def test_every_float_is_quantized_as_in_the_runtime(scale: float, zero_point: int) -> None:
    m = RawModel()
    real = m.tensor((1, 5, 40, 6), type_=TensorType.FLOAT32, quantization=None)
    integer, back = m.tensor((1, 5, 40, 6), scale, zero_point), m.tensor((1, 5, 40, 6), type_=TensorType.FLOAT32)
    m.operator("QUANTIZE", [real], [integer], None)
    m.operator("DEQUANTIZE", [conv(m, integer, (1, 5, 40, 6))], [back], None)
    before = serialize_model(m.build([real], [back]))
    after = tflite_fuse.rewrite(before, input_mode="external", inputs=4).model
    assert set(operators(after)) == {"CUSTOM:TFLITE_FUSE"}
    assert_same_on_any_floats(before, after)


def test_a_flat_float_input_is_read_through_its_reshape() -> None:
    m = RawModel()
    flat = m.tensor((1, 192), type_=TensorType.FLOAT32, quantization=None)
    image, integer = m.tensor((1, 8, 8, 3), type_=TensorType.FLOAT32, quantization=None), m.tensor((1, 8, 8, 3), 0.1, 3)
    shape = m.constant(np.array([1, 8, 8, 3], np.int32))
    m.operator("RESHAPE", [flat, shape], [image], make_options("ReshapeOptions", new_shape=(1, 8, 8, 3)))
    m.operator("QUANTIZE", [image], [integer], None)
    before = serialize_model(m.build([flat], [conv(m, integer, (1, 8, 8, 4))]))
    for mode in MODES[1:]:
        after = tflite_fuse.rewrite(before, input_mode=mode, inputs=4).model
        assert operators(after) == ["CUSTOM:TFLITE_FUSE"]
        assert_same_on_any_floats(before, after)


def model_with(scale: float, zero_point: int = 0, like: tuple[int, ...] = (1, 8, 8, 3)) -> bytes:
    m = RawModel()
    real = m.tensor((1, 8, 8, 3), type_=TensorType.FLOAT32, quantization=None)
    integer = m.tensor(like, scale, zero_point)
    m.operator("QUANTIZE", [real], [integer], None)
    return serialize_model(m.build([real], [conv(m, integer, (1, 8, 8, 4))]))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_none_is_passed_through(scale: float) -> None:
    before = model_with(scale)
    after = tflite_fuse.rewrite(before, verify=False).model
    assert operators(after)[0] == "QUANTIZE"
    streamed = tflite_fuse.rewrite(before, input_mode="streamed", verify=False).model
    assert operators(streamed)[:2] == ["CUSTOM:TFLITE_FUSE", "QUANTIZE"]  # the input is copied into the arena


def changed(data: bytes, kind: StageKind, byte: int) -> Model:
    """A rewritten model whose table of a stage of this kind has one byte more or less somewhere; sealed anew."""
    from tflite_fuse.emit.options import read_options, sealed
    from tflite_fuse.model.edit import replace_operators
    from tflite_fuse.model.schema import Buffer

    model = load_model(data)
    for index, operator in enumerate(model.main.operators):
        options = operator.custom_options or b""
        for stage in read_options(options).stages if options else ():
            if stage.kind == kind:
                buffer = model.main.tensors[(operator.inputs or ())[-1]].buffer
                constants = bytearray(model.buffers[buffer].data or b"")
                constants[stage.table_offset + byte] ^= 1
                buffers = list(model.buffers)
                buffers[buffer] = Buffer(bytes(constants))
                ops = list(model.main.operators)
                ops[index] = replace(operator, custom_options=sealed(options, bytes(constants)))
                return replace_operators(replace(model, buffers=tuple(buffers)), ops)
    raise AssertionError(f"no stage is a {kind.name}")


@pytest.mark.parametrize("kind", [StageKind.QUANTIZE, StageKind.DEQUANTIZE])
@pytest.mark.parametrize("byte", [0, 5, 517, 1020])
def test_the_proof_covers_every_byte_of_the_tables(kind: StageKind, byte: int) -> None:
    before = floating("two images")
    after = tflite_fuse.rewrite(before, input_mode="streamed", verify=False).model
    assert validate(before, after).proven
    assert not validate(before, changed(after, kind, byte)).proven


def test_stages_between_types_hold_nothing_but_their_tables() -> None:
    model = load_model(tflite_fuse.rewrite(floating("inverted residuals"), input_mode="streamed", verify=False).model)
    kinds = [stage.kind for plan in blocks_in(model).values() for stage in plan.block.stages]
    assert kinds.count(StageKind.QUANTIZE) == 1 and kinds[0] is StageKind.SOURCE
