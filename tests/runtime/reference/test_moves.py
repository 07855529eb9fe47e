"""Operators that move channels: the numpy reference and the runtime byte for byte, and rewrites of such models."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawing import raw_models as raw
from tests.drawing import raw_moves as moves
from tests.runtime.reference.test_against_tflm import assert_same_bytes
from tflite_fuse.api import rewrite
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import make_options, operator_name
from tflite_fuse.ops.lowering.extract import fusability
from tflite_fuse.passes.preparing.straighten import Straighten
from tflite_fuse.runtime import tflm

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

thorough = settings(max_examples=60, suppress_health_check=list(HealthCheck))
some = settings(max_examples=12, suppress_health_check=list(HealthCheck))


@thorough
@given(moves.channel_moves(), raw.seeds)
def test_one_operator(model: Model, seed: int) -> None:
    before, after = (model.main.tensors[tensors[0]].dims for tensors in (model.main.inputs, model.main.outputs))
    if before != after:  # one that keeps all channels where they are is no stage
        assert_same_bytes(model, seed)


@thorough
@given(st.sampled_from(moves.SHUFFLES), st.integers(1, 4), st.integers(2, 3), st.data())
def test_a_shuffle_is_one_gather_of_channels_in_any_spelling(
    spelling: str, each: int, groups: int, data: st.DataObject
) -> None:
    model = raw.RawModel()
    source = model.tensor((1, 3, 4, each * groups), 0.25, -3)
    shuffled = moves.add_shuffle(model, data.draw, spelling, source, groups)
    built = model.build([source], [moves.add_shuffle(model, data.draw, "last dimensions", shuffled, groups)])
    straight = Straighten().run(built).model
    values = [[np.random.default_rng(each).integers(-128, 128, (1, 3, 4, each * groups)).astype(np.int8)]]
    before, after = (tflm.run(serialize_model(m), values).outputs[0][0] for m in (built, straight))
    np.testing.assert_array_equal(before.ravel(), after.ravel())
    names = {operator_name(straight, operator) for operator in straight.main.operators}
    assert names <= {"GATHER", "STRIDED_SLICE", "CONCATENATION", "RESHAPE"}
    assert fusability(straight) == (None,) * len(straight.main.operators)


@some
@given(moves.moves_everywhere(), st.sampled_from(["resident", "streamed"]))
def test_rewrites_are_proven_and_compute_the_same_bytes(model: Model, mode: str) -> None:
    result = rewrite(serialize_model(model), input_mode=mode, inputs=3, verify=True)
    assert result.report.proven.notes == ()
    assert result.report.verified is not None


@pytest.mark.parametrize(("axis", "taken"), [(1, [2, 3, 4]), (2, [0, 1]), (-3, [5]), (1, [0, 2, 4]), (2, [1, 4])])
def test_rows_and_columns_may_be_gathered(axis: int, taken: list[int]) -> None:
    """Neighbouring ones are a PAD that cuts."""
    model = raw.RawModel()
    source, dims = model.tensor((1, 6, 5, 4), 0.25, -3), [1, 6, 5, 4]
    dims[axis] = len(taken)
    gathered = model.tensor(dims, 0.25, -3)
    listed = model.constant(np.array(taken, np.int32))
    model.operator("GATHER", [source, listed], [gathered], make_options("GatherOptions", axis=axis))
    built = model.build([source], [raw.add_convolution(model, gathered, (*dims[:3], 3))])
    result = rewrite(serialize_model(built), inputs=3, verify=True).report
    assert result.proven.blocks == 1 and result.after.operators == 1


@some
@given(st.sampled_from([1, 2]), st.sampled_from([[4, 4], [3, 5], [2, 2, 4]]), st.sampled_from(["resident", "streamed"]))
def test_a_split_of_rows_or_columns_is_cut_within_blocks(axis: int, sizes: list[int], mode: str) -> None:
    model = raw.RawModel()
    source = model.tensor((1, 8, 8, 3), 0.05, -5)
    newest = raw.add_convolution(model, source, (1, 8, 8, 6))
    shapes = [(1, size, 8, 6) if axis == 1 else (1, 8, size, 6) for size in sizes]
    quantization = model.tensors[newest].quantization
    assert quantization is not None and quantization.scale and quantization.zero_point
    parts = [model.tensor(shape, quantization.scale[0], quantization.zero_point[0]) for shape in shapes]
    place = model.constant(np.array(axis - 4, np.int32))
    if len(set(sizes)) == 1:
        model.operator("SPLIT", [place, newest], parts, make_options("SplitOptions", num_splits=len(parts)))
    else:
        listed = model.constant(np.array(sizes, np.int32))
        model.operator("SPLIT_V", [newest, listed, place], parts, make_options("SplitVOptions", num_splits=len(parts)))
    outputs = [raw.add_convolution(model, part, (*model.tensors[part].dims[:3], 4)) for part in parts]
    result = rewrite(serialize_model(model.build([source], outputs)), input_mode=mode, inputs=3, verify=True)
    assert result.report.proven.blocks and result.report.verified is not None
    made = load_model(result.model)
    names = {operator_name(made, operator) for operator in made.main.operators}
    assert not names & {"SPLIT", "SPLIT_V"}


@some
@given(
    st.integers(-4, 3), st.sampled_from([(1, 16, 6), (1, 1, 96), (1, 96, 1)]), st.sampled_from(["resident", "streamed"])
)
def test_a_pack_and_an_unpack_of_one_tensor_are_renamed(axis: int, dims: tuple[int, ...], mode: str) -> None:
    model = raw.RawModel()
    source = model.tensor((1, 4, 4, 3), 0.05, -5)
    newest = raw.add_convolution(model, source, (1, 4, 4, 6))
    quantization = model.tensors[newest].quantization
    assert quantization is not None and quantization.scale and quantization.zero_point
    packed = list(dims)
    packed.insert(axis % 4, 1)
    for name, shape, options in (
        ("RESHAPE", dims, make_options("ReshapeOptions", new_shape=dims)),
        ("PACK", packed, make_options("PackOptions", axis=axis, values_count=1)),
        ("UNPACK", dims, make_options("UnpackOptions", axis=axis, num=1)),
        ("RESHAPE", (1, 4, 4, 6), make_options("ReshapeOptions", new_shape=(1, 4, 4, 6))),
    ):
        before, newest = newest, model.tensor(shape, quantization.scale[0], quantization.zero_point[0])
        operands = [before, model.constant(np.array(shape, np.int32))] if name == "RESHAPE" else [before]
        model.operator(name, operands, [newest], options)
    built = model.build([source], [raw.add_convolution(model, newest, (1, 4, 4, 4))])
    result = rewrite(serialize_model(built), input_mode=mode, inputs=3, verify=True).report
    assert result.proven.blocks == 1 and result.after.operators == 1 and result.verified is not None


@pytest.mark.parametrize("times", [(2, 2), (3, 1), (1, 5), (7, 3)])
def test_an_image_that_tiles_make_larger_is_resized(times: tuple[int, int]) -> None:
    """The runtime has no TILE: what is made of such a model is compared with the numbers repeated."""
    model = raw.RawModel()
    source = newest = model.tensor((1, 5, 6, 3), 0.05, -5)
    height, width, channels = 5, 6, 3
    for axis, count in zip((2, 3), times, strict=True):
        dims = (1, height, 1, width, channels) if axis == 2 else (1, height, width, 1, channels)
        height, width = (height * count, width) if axis == 2 else (height, width * count)
        tiled = tuple(dim * (count if place == axis else 1) for place, dim in enumerate(dims))
        for name, shape, operand in (
            ("RESHAPE", dims, dims),
            ("TILE", tiled, [count if place == axis else 1 for place in range(5)]),
            ("RESHAPE", (1, height, width, channels), (1, height, width, channels)),
        ):
            output = model.tensor(shape, 0.05, -5)
            model.operator(name, [newest, model.constant(np.array(operand, np.int32))], [output], None)
            newest = output
    values = np.random.default_rng(0).integers(-128, 128, (1, 5, 6, 3)).astype(np.int8)
    straight = Straighten().run(model.build([source], [newest])).model
    names = [operator_name(straight, operator) for operator in straight.main.operators]
    assert names[0] == "RESIZE_NEAREST_NEIGHBOR" and set(names[1:]) <= {"RESHAPE"}
    (found,) = tflm.run(serialize_model(straight), [[values]]).outputs[0]
    np.testing.assert_array_equal(found, values.repeat(times[0], 1).repeat(times[1], 2))
    convolved = model.build([source], [raw.add_convolution(model, newest, (1, height, width, 4))])
    result = rewrite(serialize_model(convolved), inputs=1)
    assert result.report.proven.blocks and "TILE" in (result.report.unverified or "")
    tflm.run(result.model, [[values]])
