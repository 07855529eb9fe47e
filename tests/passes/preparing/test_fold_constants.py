"""Shape arithmetic becomes constants exactly where its values are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.drawing.raw_models import RawModel, add_convolution, edgy_int8
from tests.told import told
from tflite_fuse import api
from tflite_fuse.check import validate
from tflite_fuse.emit.options import read_options
from tflite_fuse.ir.enums import WeightLayout
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import Editor, prune, replace_tensor
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import DimensionMetadata, Sparsity, Uint8Vector, Uint16Vector
from tflite_fuse.model.types import TensorType
from tflite_fuse.passes.preparing.fold_constants import FoldConstants
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare

SHAPE = (1, 4, 6, 3)


def whole(raw: RawModel, dims: tuple[int, ...]) -> int:
    return raw.tensor(dims, type_=TensorType.INT32, quantization=None)


def numbers(raw: RawModel, *values: int) -> int:
    return raw.constant(np.array(values, np.int32))


def dynamic_reshape(*, also_read: bool = False, first: int = 0) -> Model:
    """A convolution, and what Keras makes of Reshape((-1,)): the batch is taken from the shape."""
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.1)
    y = add_convolution(raw, x, SHAPE)
    shape, batch, expected = whole(raw, (4,)), whole(raw, ()), whole(raw, (2,))
    raw.operator("SHAPE", [y], [shape], make_options("ShapeOptions", out_type=int(TensorType.INT32)))
    options = make_options("StridedSliceOptions", shrink_axis_mask=1)
    raw.operator(
        "STRIDED_SLICE", [shape, numbers(raw, first), numbers(raw, first + 1), numbers(raw, 1)], [batch], options
    )
    rest = raw.constant(np.array(72, np.int32))
    raw.operator("PACK", [batch, rest], [expected], make_options("PackOptions", values_count=2))
    result = raw.tensor((1, 72), 0.3, -7)
    raw.operator("RESHAPE", [y, expected], [result], None)
    return raw.build([x], [result, expected] if also_read else [result])


def names(model: Model) -> list[str]:
    return [operator_name(model, operator) for operator in model.main.operators]


def test_a_reshape_to_a_shape_that_is_computed_reads_a_constant() -> None:
    result = FoldConstants().run(dynamic_reshape())
    assert names(result.model) == ["CONV_2D", "RESHAPE"]
    tensor = result.model.main.tensors[(result.model.main.operators[1].inputs or ())[1]]
    assert np.frombuffer(result.model.buffers[tensor.buffer].data or b"", "<i4").tolist() == [1, 72]
    (note,) = told(result.notes, "changed", "constants")
    assert note.operators[0] == "SHAPE_1" and len(note.operators) == 3


def test_the_shape_of_a_tensor_that_the_file_leaves_open_is_no_constant() -> None:
    model = dynamic_reshape()
    (convolved,) = model.main.operators[0].outputs or ()
    signature = (1, -1, *model.main.tensors[convolved].dims[2:])
    left_open = replace_tensor(model, convolved, replace(model.main.tensors[convolved], shape_signature=signature))
    assert FoldConstants().run(left_open).model is left_open
    folded = FoldConstants().run(model).model
    assert validate(model, folded).proven and not validate(left_open, folded).proven


def test_outputs_of_the_model_are_still_computed() -> None:
    result = FoldConstants().run(dynamic_reshape(also_read=True))
    assert names(result.model) == ["CONV_2D", "PACK", "RESHAPE"]


def test_a_model_without_such_arithmetic_is_the_very_same() -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.1)
    model = raw.build([x], [add_convolution(raw, x, SHAPE)])
    assert FoldConstants().run(model).model is model


@pytest.mark.parametrize("first", [4, -5, 2**31 - 2])
def test_an_index_out_of_range_is_left_to_the_runtime(first: int) -> None:
    assert "STRIDED_SLICE" in names(FoldConstants().run(dynamic_reshape(first=first)).model)


@pytest.mark.parametrize("also_read", [False, True])
@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_the_rewritten_model_is_proven_and_computes_the_same(also_read: bool) -> None:
    data = serialize_model(dynamic_reshape(also_read=also_read))
    rewritten = api.rewrite(data, verify=False, time_limit=3).model
    assert "SHAPE" not in names(load_model(rewritten))
    found = validate(data, rewritten)
    assert found.proven, [str(finding) for finding in found.findings[:3]]
    assert compare(data, rewritten, [[edgy_int8(np.random.default_rng(0), SHAPE)]]).bit_exact


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_arithmetic_of_shapes_gives_the_runtimes_numbers() -> None:
    """The results are outputs in one model, and so computed; in the other they are constants that outputs read."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        raw = RawModel()
        x = raw.tensor(SHAPE, 0.1)
        known, codes = [whole(raw, (4,))], ["ADD", "SUB", "MUL"]
        raw.operator("SHAPE", [x], known, make_options("ShapeOptions", out_type=int(TensorType.INT32)))
        for name in rng.choice(codes, 4).tolist():
            other = numbers(raw, *rng.integers(-9, 9, 4).tolist())
            known.append(whole(raw, (4,)))
            raw.operator(name, [known[-2], other], [known[-1]], make_options(name.title() + "Options"))
        truth = tflm.run(serialize_model(raw.build([x], [known[-1]])), [[np.zeros(SHAPE, np.int8)]]).outputs[0][0]
        result = whole(raw, (2, 2))
        raw.operator("RESHAPE", [known[-1], numbers(raw, 2, 2)], [result], None)
        flat = whole(raw, (4,))
        raw.operator("RESHAPE", [result, numbers(raw, 4)], [flat], None)
        folded = FoldConstants().run(raw.build([x], [flat])).model
        tensor = folded.main.tensors[(folded.main.operators[-1].inputs or ())[0]]
        assert np.frombuffer(folded.buffers[tensor.buffer].data or b"", "<i4").tolist() == truth.ravel().tolist()


def of_halves(*, widened: bool) -> Model:
    """A convolution on float32 with constants of float16: behind a DEQUANTIZE each, or as the float32 they are."""
    rng, raw = np.random.default_rng(5), RawModel()
    source, output = (raw.tensor((1, 6, 6, 3), type_=TensorType.FLOAT32, quantization=None) for _ in range(2))
    operands = [source]
    odd = [2.0**-24, -0.0, 65504.0]  # the least above zero, a zero below, the largest
    for shape in ((3, 3, 3, 3), (3,)):
        values = rng.normal(0, 1, shape).astype(np.float16)
        values.flat[:3] = odd
        if widened:
            operands.append(raw.constant(values.astype(np.float32)))
            continue
        operands.append(raw.tensor(shape, type_=TensorType.FLOAT32, quantization=None))
        raw.operator("DEQUANTIZE", [raw.constant(values)], [operands[-1]], None)
    options = make_options("Conv2DOptions", stride_h=1, stride_w=1, dilation_h_factor=1, dilation_w_factor=1)
    raw.operator("CONV_2D", operands, [output], options)
    return raw.build([source], [output])


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_weights_of_float16_become_the_float32_they_are() -> None:
    """The runtime loads no such model; what is made of it computes what float32 weights of the same values do."""
    result = api.rewrite(serialize_model(of_halves(widened=False)), inputs=1)
    assert result.report.proven is not None and result.report.proven.blocks == 1
    assert result.report.verified is None and "DEQUANTIZE" in (result.report.unverified or "")
    images = [[np.random.default_rng(6).normal(0, 1, (1, 6, 6, 3)).astype(np.float32)]]
    before, after = (tflm.run(m, images) for m in (serialize_model(of_halves(widened=True)), result.model))
    assert before.outputs[0][0].tobytes() == after.outputs[0][0].tobytes()


def test_float16_that_a_model_gives_out_is_still_widened_by_the_runtime() -> None:
    raw = RawModel()
    output = raw.tensor((4,), type_=TensorType.FLOAT32, quantization=None)
    raw.operator("DEQUANTIZE", [raw.constant(np.ones(4, np.float16))], [output], None)
    assert names(FoldConstants().run(raw.build([], [output])).model) == ["DEQUANTIZE"]


def test_a_file_rewritten_from_other_float16_weights_is_not_proven() -> None:
    data = serialize_model(of_halves(widened=False))
    rewritten = api.rewrite(data, verify=False).model
    assert validate(data, rewritten).proven
    mine, others = (np.array([least, -0.0, 65504], "<f2").tobytes() for least in (2.0**-24, 0))
    other = data.replace(mine, others)
    assert other != data
    assert not validate(other, rewritten).proven


def of_layers(type_: type[np.generic]) -> Model:
    """Two fully connected layers on float32 with weights of float16, or with the float32 that they equal."""
    rng, raw = np.random.default_rng(9), RawModel()
    source, between, output = (raw.tensor((1, n), type_=TensorType.FLOAT32, quantization=None) for n in (12, 7, 5))
    for reads, writes, shape in ((source, between, (7, 12)), (between, output, (5, 7))):
        values = rng.normal(0, 1, shape).astype(np.float16)
        values.flat[:3] = [2.0**-24, -0.0, 65504.0]
        weights = raw.constant(values.astype(type_))
        if type_ is np.float16:
            halves, weights = weights, raw.tensor(shape, type_=TensorType.FLOAT32, quantization=None)
            raw.operator("DEQUANTIZE", [halves], [weights], None)
        raw.operator("FULLY_CONNECTED", [reads, weights, -1], [writes], make_options("FullyConnectedOptions"))
    return raw.build([source], [output])


def block_of(model: Model) -> tuple[bytes, set[int]]:
    """The constants of the one block, and the layouts of its stages' weights."""
    operator = next(op for op in model.main.operators if op.custom_options)
    stored = model.buffers[model.main.tensors[(operator.inputs or ())[-1]].buffer].data or b""
    return stored, {stage.weight_layout for stage in read_options(operator.custom_options or b"").stages}


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("type_", [np.float32, np.float16])
def test_fully_connected_layers_keep_float16_where_it_holds_all_weights(type_: type[np.generic]) -> None:
    wide = serialize_model(of_layers(np.float32))
    result = api.rewrite(serialize_model(of_layers(type_)), inputs=1)
    assert result.report.proven is not None
    stored, layouts = block_of(load_model(result.model))
    assert layouts == {WeightLayout.FLOAT16} and len(stored) < 4 * (7 * 12 + 5 * 7)
    images = [[np.random.default_rng(6).normal(0, 1, (1, 12)).astype(np.float32)]]
    before, after = (tflm.run(model, images) for model in (wide, result.model))
    assert before.outputs[0][0].tobytes() == after.outputs[0][0].tobytes()


def sparse(values: NDArray[np.generic]) -> Sparsity:
    """The form that TensorFlow's converter writes: all rows, and of each the columns of its values."""
    rows, columns = np.nonzero(values)
    ends = np.searchsorted(rows, range(len(values) + 1))
    whole = DimensionMetadata(dense_size=len(values))
    chosen = DimensionMetadata(1, 0, Uint16Vector(tuple(ends.tolist())), Uint8Vector(bytes(columns.tolist())))
    return Sparsity((0, 1), (), (whole, chosen))


def of_sparse_weights(type_: type[np.generic], *, dense: bool = False, **changes: Any) -> Model:
    """A fully connected layer on float32 whose weights have zeros: stored, or omitted in front of a DENSIFY."""
    rng, raw = np.random.default_rng(7), RawModel()
    source, output = (raw.tensor((1, size), type_=TensorType.FLOAT32, quantization=None) for size in (12, 5))
    values = np.where(rng.random((5, 12)) < 0.3, rng.normal(0, 1, (5, 12)), 0).astype(type_)
    values[2] = 0
    weights = raw.constant(values if dense else values[values != 0])
    if not dense:
        sparsity = replace(sparse(values), **changes)
        raw.tensors[weights] = replace(raw.tensors[weights], shape=(5, 12), sparsity=sparsity)
        stored, weights = weights, raw.tensor((5, 12), type_=raw.tensors[weights].type, quantization=None)
        raw.operator("DENSIFY", [stored], [weights], None)
    if type_ is np.float16:
        halves, weights = weights, raw.tensor((5, 12), type_=TensorType.FLOAT32, quantization=None)
        raw.operator("DEQUANTIZE", [halves], [weights], None)
    raw.operator("FULLY_CONNECTED", [source, weights, -1], [output], make_options("FullyConnectedOptions"))
    return raw.build([source], [output])


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("type_", [np.float32, np.float16])
def test_sparse_weights_become_weights_with_their_zeros(type_: type[np.generic]) -> None:
    """The runtime has no DENSIFY; what is made of it computes what stored zeros do."""
    result = api.rewrite(serialize_model(of_sparse_weights(type_)), inputs=1)
    assert result.report.proven is not None and "DENSIFY" in (result.report.unverified or "")
    images = [[np.random.default_rng(8).normal(0, 1, (1, 12)).astype(np.float32)]]
    dense = api.rewrite(serialize_model(of_sparse_weights(type_, dense=True)), verify=False).model
    before, after = (tflm.run(model, images) for model in (dense, result.model))
    assert before.outputs[0][0].tobytes() == after.outputs[0][0].tobytes()


def test_a_file_rewritten_from_other_sparse_weights_is_not_proven() -> None:
    model = of_sparse_weights(np.float32)
    rewritten = api.rewrite(serialize_model(model), verify=False).model
    assert validate(model, rewritten).proven
    levels = (model.main.tensors[2].sparsity or Sparsity()).dim_metadata or ()
    moved = bytes((column + 1) % 12 for column in levels[1].array_indices.values)
    other = of_sparse_weights(
        np.float32, dim_metadata=(levels[0], replace(levels[1], array_indices=Uint8Vector(moved)))
    )
    assert not validate(other, rewritten).proven


@pytest.mark.parametrize(
    "changes",
    [
        {"traversal_order": (1, 0)},
        {"block_map": (1,)},
        {"dim_metadata": (DimensionMetadata(dense_size=5), DimensionMetadata(dense_size=12))},
        {"dim_metadata": (DimensionMetadata(dense_size=5), DimensionMetadata(1, 0, Uint8Vector(b"\0"), Uint8Vector()))},
        {"dim_metadata": None},
    ],
)
def test_another_form_of_sparse_weights_is_left_to_the_runtime(changes: dict[str, Any]) -> None:
    model = of_sparse_weights(np.float32, **changes)
    assert names(FoldConstants().run(model).model) == ["DENSIFY", "FULLY_CONNECTED"]
    assert not validate(model, of_sparse_weights(np.float32, dense=True)).proven


@pytest.mark.parametrize("times", [1, 2])
def test_a_constant_that_is_tiled_once_is_itself(times: int) -> None:
    """Detectors of MediaPipe write their anchors once for each image of a batch of one; TFLM lacks TILE."""
    raw = RawModel()
    x, y = raw.tensor((times, 3), 0.1), raw.tensor((times, 3), 0.2)
    anchors = raw.constant(np.array([[1, -2, 3]], np.int8), (0.1,))
    tiled = raw.tensor((times, 3), 0.1)
    raw.operator("TILE", [anchors, numbers(raw, times, 1)], [tiled], None)
    raw.operator("ADD", [x, tiled], [y], make_options("AddOptions"))
    model = raw.build([x], [y])
    folded = FoldConstants().run(model).model
    assert names(folded) == (["ADD"] if times == 1 else ["TILE", "ADD"])
    assert validate(model, folded).proven


@pytest.mark.parametrize(("axis", "constant"), [(0, True), (-1, True), (1, False)])
@pytest.mark.parametrize("keep", [True, False])
def test_the_product_of_a_shape_is_a_constant(axis: int, constant: bool, keep: bool) -> None:
    """Keras multiplies the dimensions that a Dense layer over a sequence makes its rows; TFLM lacks REDUCE_PROD."""
    raw = RawModel()
    x, result = raw.tensor(SHAPE, 0.1), raw.tensor((1, 72), 0.3, -7)
    y = add_convolution(raw, x, SHAPE)
    shape, count, expected = whole(raw, (4,)), whole(raw, (1,) if keep else ()), whole(raw, (2,))
    raw.operator("SHAPE", [y], [shape], make_options("ShapeOptions", out_type=int(TensorType.INT32)))
    raw.operator("REDUCE_PROD", [shape, numbers(raw, axis)], [count], make_options("ReducerOptions", keep_dims=keep))
    one = raw.constant(np.array([1] if keep else 1, np.int32))
    join, options = ("CONCATENATION", {}) if keep else ("PACK", {"values_count": 2})
    raw.operator(join, [one, count], [expected], make_options(f"{join.title()}Options", **options))
    raw.operator("RESHAPE", [y, expected], [result], None)
    model = raw.build([x], [result])
    folded = FoldConstants().run(model).model
    assert names(folded) == ["CONV_2D", *(() if constant else ("REDUCE_PROD", join)), "RESHAPE"]
    assert validate(model, folded).proven


def flattened(rest: int, *, gathers: bool = False) -> Model:
    """A convolution, flattened as PyTorch's exporters write it: the batch of its shape joined with the rest.

    The batch is a slice of the shape, or gathered from it by an index of 64 bits.
    """
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.1)
    y = add_convolution(raw, x, SHAPE)
    shape, batch, joined = (raw.tensor((n,), type_=TensorType.INT64, quantization=None) for n in (4, 1, 2))
    raw.operator("SHAPE", [y], [shape], make_options("ShapeOptions", out_type=int(TensorType.INT64)))
    if gathers:
        raw.operator("GATHER", [shape, raw.constant(np.array([0], np.int64))], [batch], make_options("GatherOptions"))
    else:
        raw.operator("SLICE", [shape, numbers(raw, 0), numbers(raw, 1)], [batch], None)
    raw.operator(
        "CONCATENATION", [batch, raw.constant(np.array([rest]))], [joined], make_options("ConcatenationOptions")
    )
    narrow, result, image = whole(raw, (2,)), raw.tensor((1, 1), 0.3, -7), raw.tensor((1, 8, 3, 3), 0.3, -7)
    raw.operator("CAST", [joined], [narrow], make_options("CastOptions"))
    raw.operator("RESHAPE", [y, narrow], [result], None)
    raw.operator("RESHAPE", [result, numbers(raw, 1, 8, 3, 3)], [image], None)
    model = raw.build([x], [add_convolution(raw, image, (1, 8, 3, 3))])
    return replace_tensor(model, result, replace(model.main.tensors[result], shape_signature=(-1, -1)))


def with_its_shape(model: Model) -> Model:
    """The same model with the flattened shape in the file, as the runtime can load it."""
    first, *_, flatten, image, last = model.main.operators
    (result,) = flatten.outputs or ()
    editor = Editor(model)
    editor.tensors[result] = replace(editor.tensors[result], shape=(1, 72), shape_signature=None)
    flatten = replace(flatten, inputs=((flatten.inputs or ())[0], editor.int32("dims", (1, 72))))
    editor.operators += first, flatten, image, last
    return prune(editor.finish())


@pytest.mark.parametrize("rest", [-1, 72])
@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_a_shape_that_the_file_leaves_open_is_that_of_the_constant(rest: int) -> None:
    """The runtime cannot load the file; the rewritten one computes the bytes of the model with the shape in it."""
    data = serialize_model(flattened(rest))
    for input_mode in ("resident", "streamed"):
        result = api.rewrite(data, verify=False, input_mode=input_mode)
        assert result.report.proven is not None and result.report.proven.blocks == 1
        assert names(load_model(result.model)) == ["CUSTOM:TFLITE_FUSE"]
        image = [[edgy_int8(np.random.default_rng(0), SHAPE)]]
        assert compare(serialize_model(with_its_shape(flattened(rest))), result.model, image).bit_exact


def test_a_shape_of_another_size_stays_open() -> None:
    for rest in (70, 0, -2):
        found = FoldConstants().run(flattened(rest)).model
        assert any(tensor.shape_signature == (-1, -1) for tensor in found.main.tensors)


@pytest.mark.parametrize("gathers", [False, True])
def test_a_file_with_another_shape_is_not_proven(gathers: bool) -> None:
    model = flattened(-1, gathers=gathers)
    found = FoldConstants().run(model).model
    assert validate(model, found).proven
    (result,) = (number for number, tensor in enumerate(found.main.tensors) if tensor.dims == (1, 72))
    wrong = replace_tensor(found, result, replace(found.main.tensors[result], shape=(72, 1)))
    assert not validate(model, wrong).proven
