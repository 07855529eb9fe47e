"""Operators that move values: which are stages, which only rename, and reasons for refusals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.drawing.raw_models import RawModel, add_convolution
from tflite_fuse.check import validate
from tflite_fuse.errors import BlockError
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model
from tflite_fuse.ops.kinds.moves import ChannelParameters
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.passes.preparing.straighten import Straighten


def moving(name: str, operands: Sequence[object], shape: Sequence[int], options: str = "", **values: int) -> Model:
    """An operator on a tensor of 2 x 3 pixels of 4 channels."""
    raw = RawModel()
    source, output = raw.tensor((1, 2, 3, 4)), raw.tensor(shape)
    constants = [raw.constant(np.array(each, np.int32)) for each in operands]
    raw.operator(name, [source, *constants], [output], make_options(options, **values) if options else None)
    return raw.build([source], [output])


def test_channels_are_padded_with_the_zero_point_of_the_output() -> None:
    raw = RawModel()
    source, output = raw.tensor((1, 2, 3, 2), zero_point=7), raw.tensor((1, 2, 3, 5), zero_point=7)
    raw.operator("PAD", [source, raw.constant(np.array([[0, 0]] * 3 + [[1, 2]], np.int32))], [output], None)
    (stage,) = extract(raw.build([source], [output]), [0]).block.stages
    assert stage.parameters == ChannelParameters((-1, 0, 1, -1, -1), 7)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (moving("PAD", [[[0, 0], [1, 0], [0, 0], [1, 0]]], (1, 3, 3, 5)), "pads channels, and rows or columns"),
        (moving("PAD", [[[1, 0], [0, 0], [0, 0], [0, 0]]], (2, 2, 3, 4)), "batch of 2|pads the batch"),
        (moving("SLICE", [[0, 1, 0, 1], [1, 1, 3, 2]], (1, 1, 3, 2)), "moves no whole channels"),
        (moving("SLICE", [[0, 0, 0, 3], [1, 2, 3, 2]], (1, 2, 3, 2)), "not within 4 values"),
        (moving("SLICE", [[0, 0, 0], [1, 2, 3]], (1, 2, 3, 4)), "slices 3 of 4 dimensions"),
        (moving("SLICE", [[0, 0, 0, 0], [1, 2, 3, 2]], (1, 2, 3, 3)), r"has the shape"),
        (moving("GATHER", [[0, 4]], (1, 2, 3, 2), "GatherOptions", axis=3), "not all within the 4 values of axis 3"),
        (moving("GATHER", [[0, -1]], (1, 2, 3, 2), "GatherOptions", axis=3), "not all within the 4 values of axis 3"),
        (moving("GATHER", [[0, 1]], (1, 2, 3, 2), "GatherOptions", axis=4), "axis 4 is outside the 4 dimensions"),
        (moving("GATHER", [[0]], (1, 2, 3, 1), "GatherOptions", axis=3, batch_dims=1), "gathers by batches"),
        (
            moving("STRIDED_SLICE", [[0, 0, 0, 9], [1, 2, 3, 4], [1, 1, 1, 1]], (1, 2, 3, 1), "StridedSliceOptions"),
            "9:4:1 is not within 4 values",
        ),
        (
            moving("STRIDED_SLICE", [[0, 0, 0, 3], [1, 2, 3, 0], [1, 1, 1, -1]], (1, 2, 3, 3), "StridedSliceOptions"),
            "3:0:-1 is not within 4 values, ascending",
        ),
        (
            moving(
                "STRIDED_SLICE", [[0] * 4, [1, 2, 3, 4], [1] * 4], (1, 2, 3, 4), "StridedSliceOptions", new_axis_mask=1
            ),
            "a new axis",
        ),
    ],
)
def test_other_moves_are_refused_with_the_reason(model: Model, reason: str) -> None:
    with pytest.raises(BlockError, match=reason):
        extract(model, [0])


def test_a_split_and_a_chain_through_a_batch_of_two_become_gathers() -> None:
    raw = RawModel()
    source = raw.tensor((1, 2, 3, 4))
    parts = [raw.tensor((1, 2, 3, 2)) for _ in range(2)]
    raw.operator(
        "SPLIT", [raw.constant(np.array(3, np.int32)), source], parts, make_options("SplitOptions", num_splits=2)
    )
    result = Straighten().run(raw.build([source], parts))
    assert result.changed
    assert [len(operator.outputs or ()) for operator in result.model.main.operators] == [1, 1]


def test_a_gather_makes_the_dimensions_the_runtime_gives_it() -> None:
    """Those of what it reads, not those that a RESHAPE has given before: operators that are not fused look at them."""
    raw = RawModel()
    source, between, cut, output = (raw.tensor(dims) for dims in ((1, 12), (1, 2, 6), (1, 1, 6), (1, 2, 6)))
    raw.operator("RESHAPE", [source, raw.constant(np.array([1, 2, 6], np.int32))], [between], None)
    raw.operator(
        "GATHER", [between, raw.constant(np.array([1], np.int32))], [cut], make_options("GatherOptions", axis=1)
    )
    raw.operator("CONCATENATION", [cut, cut], [output], make_options("ConcatenationOptions", axis=1))
    model = raw.build([source], [output])
    assert Straighten().run(model).model is model
    wrong = RawModel()
    source, cut, output = (wrong.tensor(dims) for dims in ((1, 12), (1, 1, 6), (1, 2, 6)))
    listed = wrong.constant(np.arange(6, 12, dtype=np.int32))
    wrong.operator("GATHER", [source, listed], [cut], make_options("GatherOptions", axis=1))
    wrong.operator("CONCATENATION", [cut, cut], [output], make_options("ConcatenationOptions", axis=1))
    assert not validate(model, wrong.build([source], [output])).proven


@pytest.mark.parametrize("order", [[0, 1, 1, 2], [0, 1, 2], [0, 1, 2, 4]])
def test_a_transpose_without_a_permutation_is_left_alone(order: list[int]) -> None:
    raw = RawModel()
    source, between = raw.tensor((1, 4, 4, 4)), raw.tensor((1, 4, 4, 4))
    raw.operator("TRANSPOSE", [source, raw.constant(np.array(order, np.int32))], [between], None)
    back = raw.tensor((1, 4, 4, 4))
    raw.operator("TRANSPOSE", [between, raw.constant(np.array([0, 2, 3, 1], np.int32))], [back], None)
    model = raw.build([source], [add_convolution(raw, back, (1, 4, 4, 2))])
    assert Straighten().run(model).model is model


@pytest.mark.parametrize("dims", [(8, 2), (1, 8, 2), (2, 3, 4)])
def test_moves_that_lead_back_are_a_reshape(dims: tuple[int, ...]) -> None:
    raw = RawModel()
    newest = source = raw.tensor(dims)
    for _ in range(2):
        order = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
        turned = raw.tensor([raw.tensors[newest].dims[axis] for axis in order])
        raw.operator("TRANSPOSE", [newest, raw.constant(np.array(order, np.int32))], [turned], None)
        newest = turned
    model = raw.build([source], [newest])
    result = Straighten().run(model)
    assert [operator_name(result.model, each) for each in result.model.main.operators] == ["RESHAPE"]
    assert validate(model, result.model).proven


def test_a_slice_of_everything_is_its_input() -> None:
    raw = RawModel()
    source, sliced, output = (raw.tensor((8, 2)) for _ in range(3))
    begin, size = (raw.constant(np.array(each, np.int32)) for each in ([0, 0], [8, -1]))
    raw.operator("SLICE", [source, begin, size], [sliced], None)
    raw.operator("TRANSPOSE", [sliced, raw.constant(np.array([0, 1], np.int32))], [output], None)
    model = raw.build([source], [output])
    result = Straighten().run(model)
    assert result.changed and validate(model, result.model).proven
