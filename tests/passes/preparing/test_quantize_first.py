"""QUANTIZE moved before moves of float32 values: the runtime's bytes, proven, and blocks in place of float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawing.raw_models import RawModel, activation_scales, add_convolution, edgy_int8, seeds, zero_points
from tests.drawing.table_models import real
from tests.drawing.table_rows import REAL_PAIR_ROWS
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.errors import LimitError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Quantization
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import note
from tflite_fuse.passes.preparing.quantize_first import QuantizeFirst
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

OF_ONE = ("ABS", "ELU", "EXP", "LEAKY_RELU", "LOGISTIC", "RELU6", "TANH")


def names(model: Model) -> list[str]:
    return [operator_name(model, operator) for operator in model.main.operators]


def float_like(raw: RawModel, dims: tuple[int, ...]) -> int:
    return raw.tensor(dims, type_=TensorType.FLOAT32, quantization=None)


def add_function(raw: RawModel, draw: st.DrawFn, source: int) -> int:
    """A function of one float32 value."""
    result = real(raw, source)
    if draw(st.booleans()):
        name = draw(st.sampled_from(OF_ONE))
        options = make_options("LeakyReluOptions", alpha=0.25) if name == "LEAKY_RELU" else None
        raw.operator(name, [source], [result], options)
    else:
        name = draw(st.sampled_from(sorted(REAL_PAIR_ROWS)))
        constant = raw.constant(np.full(draw(st.sampled_from([(), (1,)])), 0.3, np.float32))
        table = REAL_PAIR_ROWS[name].table
        options = make_options(table) if table else None
        raw.operator(name, [source, constant], [result], options)
    return result


def add_max_pool(raw: RawModel, source: int, size: int, stride: int, padding: int) -> int:
    _, height, width, channels = raw.tensors[source].dims
    reach = 1 if padding == 0 else size
    rows, columns = (-(-(length - reach + 1) // stride) for length in (height, width))
    result = float_like(raw, (1, rows, columns, channels))
    window = {"filter_height": size, "filter_width": size, "stride_h": stride, "stride_w": stride}
    raw.operator("MAX_POOL_2D", [source], [result], make_options("Pool2DOptions", padding=padding, **window))
    return result


def add_mover(raw: RawModel, draw: st.DrawFn, source: int, name: str) -> int:
    """What puts float32 values somewhere else, or takes the largest of a window."""
    dims = raw.tensors[source].dims
    if name == "MAX_POOL_2D":
        padding = draw(st.sampled_from([0, 1]))
        size = draw(st.integers(1, min(dims[1:3])))
        return add_max_pool(raw, source, size, draw(st.integers(1, 2)), padding)
    if name == "PAD":
        amounts = np.array([[0, 0], *[[draw(st.integers(0, 2)) for _ in range(2)] for _ in range(2)], [0, 0]], np.int32)
        padded = tuple(int(size + sum(around)) for size, around in zip(dims, amounts, strict=True))
        result = float_like(raw, padded)
        raw.operator("PAD", [source, raw.constant(amounts)], [result], None)
    elif name == "RESIZE_NEAREST_NEIGHBOR":
        expected = [2 * dims[1], 2 * dims[2]]
        result = float_like(raw, (1, *expected, dims[3]))
        raw.operator(name, [source, raw.constant(np.array(expected, np.int32))], [result], None)
    elif name == "TRANSPOSE":
        result = float_like(raw, (1, dims[2], dims[1], dims[3]))
        raw.operator(name, [source, raw.constant(np.array([0, 2, 1, 3], np.int32))], [result], None)
    else:
        shape = (1, dims[1] * dims[2], 1, dims[3])
        result = float_like(raw, shape)
        raw.operator("RESHAPE", [source, raw.constant(np.array(shape, np.int32))], [result], None)
    return result


MOVERS = ("MAX_POOL_2D", "PAD", "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "TRANSPOSE")


@st.composite
def moved_floats(draw: st.DrawFn) -> Model:
    """Convolutions, float32 values joined and moved between DEQUANTIZE and QUANTIZE, and a convolution."""
    raw = RawModel()
    shape = (1, draw(st.integers(2, 7)), draw(st.integers(2, 7)), draw(st.integers(1, 4)))
    image = raw.tensor(shape, 0.05, draw(zero_points))
    parts: list[int] = []
    for _ in range(draw(st.integers(1, 3))):
        source = draw(st.sampled_from([image, add_convolution(raw, image, shape, kernel=3)]))
        part = real(raw, source)
        raw.operator("DEQUANTIZE", [source], [part], None)
        for _ in range(draw(st.integers(0, 2))):
            part = add_function(raw, draw, part)
        parts.append(part)
    newest = parts[0]
    if len(parts) > 1:
        axis = draw(st.integers(1, 3)) if len({raw.tensors[part].dims for part in parts}) == 1 else 3
        dims = [raw.tensors[part].dims for part in parts]
        whole = tuple(sum(each[axis] for each in dims) if at == axis else size for at, size in enumerate(dims[0]))
        newest = float_like(raw, whole)
        raw.operator("CONCATENATION", parts, [newest], make_options("ConcatenationOptions", axis=axis))
    for name in draw(st.lists(st.sampled_from(MOVERS), max_size=2)):
        newest = add_mover(raw, draw, newest, name)
    for _ in range(draw(st.integers(0, 2))):
        newest = add_function(raw, draw, newest)
    output = raw.tensor(raw.tensors[newest].dims, draw(activation_scales), draw(zero_points))
    raw.operator("QUANTIZE", [newest], [output], None)
    last = add_convolution(raw, output, raw.tensors[output].dims, kernel=1)
    outputs = draw(st.sampled_from([[last], [output, last], [parts[0], last], [newest, last]]))
    return raw.build([image], outputs, has_rank=draw(st.booleans()))


def same_bytes(model: Model, other: Model, seed: int) -> None:
    rng = np.random.default_rng(seed)
    images = [[edgy_int8(rng, model.main.tensors[index].dims) for index in model.main.inputs] for _ in range(3)]
    before, after = (tflm.run(serialize_model(each), images).outputs for each in (model, other))
    for ours, theirs in zip(after, before, strict=True):
        for mine, original in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine, original)


@needs_tflm
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(moved_floats(), seeds)
def test_moved_int8_equals_moved_and_quantized_float32(model: Model, seed: int) -> None:
    result = QuantizeFirst().run(model)
    assert validate(model, result.model).proven
    same_bytes(model, result.model, seed)


@needs_tflm
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(moved_floats(), st.sampled_from(["resident", "streamed"]))
def test_rewritten_models_compute_the_same_bytes(model: Model, mode: str) -> None:
    try:
        report = rewrite(serialize_model(model), input_mode=mode, inputs=3, verify=True).report
    except LimitError:
        assert mode != "resident"  # what a model reads may not be able to leave the arena; its RAM can stay
        return
    assert report.unchanged if report.verified is None else report.verified.bit_exact
    assert report.after.arena_bytes <= report.before.arena_bytes or mode != "resident"


def joined_heads() -> Model:
    """Two maps of a detector, joined and pooled as float32, and a convolution behind that."""
    raw = RawModel()
    image = raw.tensor((1, 24, 24, 8), 0.3, -7)
    parts: list[int] = []
    for _ in range(2):
        x = add_convolution(raw, image, (1, 24, 24, 8), kernel=3)
        parts.append(real(raw, x))
        raw.operator("DEQUANTIZE", [x], [parts[-1]], None)
    joined = float_like(raw, (1, 24, 24, 16))
    raw.operator("CONCATENATION", parts, [joined], make_options("ConcatenationOptions", axis=3))
    curved = real(raw, joined)
    raw.operator("ELU", [joined], [curved], None)
    return behind(raw, image, curved, 0.1)


def behind(raw: RawModel, image: int, newest: int, scale: float) -> Model:
    """QUANTIZE and a convolution to few values."""
    output = raw.tensor(raw.tensors[newest].dims, scale, 3)
    raw.operator("QUANTIZE", [newest], [output], None)
    _, height, width, _ = raw.tensors[output].dims
    last = add_convolution(raw, output, (1, height // 4, width // 4, 4), kernel=4, stride=4)
    return raw.build([image], [last])


def test_float_maps_that_are_joined_are_no_longer_held() -> None:
    result = rewrite(serialize_model(joined_heads()))
    assert set(names(load_model(result.model))) == {"CUSTOM:TFLITE_FUSE"}
    assert result.report.after.arena_bytes * 8 < result.report.before.arena_bytes
    assert note("changed", "quantized first", "QUANTIZE_6", before="CONCATENATION_4") in result.report.records


def test_moves_that_undo_each_other_are_proven() -> None:
    raw = RawModel()
    image = raw.tensor((1, 8, 12, 4), 0.3, -7)
    newest = real(raw, image)
    raw.operator("DEQUANTIZE", [image], [newest], None)
    for shape in ((1, 12, 8, 4), (1, 8, 12, 4)):
        turned = float_like(raw, shape)
        raw.operator("TRANSPOSE", [newest, raw.constant(np.array([0, 2, 1, 3], np.int32))], [turned], None)
        newest = turned
    result = rewrite(serialize_model(behind(raw, image, newest, 0.1)))
    assert set(names(load_model(result.model))) == {"CUSTOM:TFLITE_FUSE"}


def test_a_function_behind_a_reshape_without_effect_is_proven() -> None:
    raw = RawModel()
    image = raw.tensor((1, 8, 12, 4), 0.3, -7)
    newest = real(raw, image)
    raw.operator("DEQUANTIZE", [image], [newest], None)
    for name, operands in (("RESHAPE", [raw.constant(np.array([1, 8, 12, 4], np.int32))]), ("ABS", [])):
        result = real(raw, newest)
        raw.operator(name, [newest, *operands], [result], None)
        newest = result
    model = behind(raw, image, newest, 0.1)
    moved = QuantizeFirst().run(model)
    assert moved.changed and validate(model, moved.model).proven


@pytest.mark.parametrize(("scale", "moved"), [(0.1, True), (1e-12, False)])
def test_a_maximum_is_passed_where_the_conversion_cannot_overflow(scale: float, moved: bool) -> None:
    raw = RawModel()
    image = raw.tensor((1, 8, 8, 4), 0.3, -7)
    part = real(raw, image)
    raw.operator("DEQUANTIZE", [image], [part], None)
    model = behind(raw, image, add_max_pool(raw, part, 2, 2, 1), scale)
    assert QuantizeFirst().run(model).changed is moved


def test_other_functions_stay_behind_a_maximum() -> None:
    raw = RawModel()
    image = raw.tensor((1, 8, 8, 4), 0.3, -7)
    part = real(raw, image)
    raw.operator("DEQUANTIZE", [image], [part], None)
    pooled = add_max_pool(raw, part, 2, 2, 1)
    curved = real(raw, pooled)
    raw.operator("NEG", [pooled], [curved], None)
    assert not QuantizeFirst().run(behind(raw, image, curved, 0.1)).changed


@pytest.mark.parametrize("field", ["joined", "part", "point", "scale", "type"])
def test_a_join_with_an_unsound_field_stays(field: str) -> None:
    model = joined_heads()
    tensors = list(model.main.tensors)
    join = next(op for op in model.main.operators if operator_name(model, op) == "CONCATENATION")
    quantize = next(op for op in model.main.operators if operator_name(model, op) == "QUANTIZE")
    (part, *_), (joined,), (output,) = join.inputs or (), join.outputs or (), quantize.outputs or ()
    odd: dict[str, tuple[int, dict[str, object]]] = {
        "joined": (joined, {"shape": (1, 24, 24, 17)}),
        "part": (part, {"shape": (1, 12, 24, 8)}),
        "point": (output, {"quantization": Quantization(scale=(0.1,), zero_point=(128,))}),
        "scale": (output, {"quantization": Quantization(scale=(float("nan"),), zero_point=(3,))}),
        "type": (joined, {"type": TensorType.INT32}),
    }
    index, fields = odd[field]
    tensors[index] = replace(tensors[index], **fields)  # type: ignore[arg-type]
    assert not QuantizeFirst().run(replace_main(model, replace(model.main, tensors=tuple(tensors)))).changed


@pytest.mark.parametrize("wrong", ["scale", "shape", "order"])
def test_the_proof_refuses_another_quantize(wrong: str) -> None:
    model = joined_heads()
    moved = QuantizeFirst().run(model).model
    operators, tensors = list(moved.main.operators), list(moved.main.tensors)
    (join,) = [i for i, op in enumerate(operators) if operator_name(moved, op) == "CONCATENATION"]
    first, second = operators[join].inputs or ()
    if wrong == "scale":
        quantization = Quantization(scale=(0.2,), zero_point=(3,))
        tensors[first] = replace(tensors[first], quantization=quantization)
    elif wrong == "shape":
        operators[join] = replace(operators[join], builtin_options=make_options("ConcatenationOptions", axis=2))
    else:
        operators[join] = replace(operators[join], inputs=(second, first))
    graph = replace(moved.main, operators=tuple(operators), tensors=tuple(tensors))
    assert validate(model, moved).proven and not validate(model, replace_main(moved, graph)).proven
