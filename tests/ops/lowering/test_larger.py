"""RESIZE and TRANSPOSE_CONV as stages: their windows, and reasons for refusals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.drawing.raw_models import SAME, VALID, RawModel
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.axes import stage_windows
from tflite_fuse.ir.block import Stage
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model
from tflite_fuse.ops.lowering.extract import extract

NEAREST, BILINEAR = "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"
OPTIONS = {NEAREST: "ResizeNearestNeighborOptions", BILINEAR: "ResizeBilinearOptions"}


def resize(
    name: str, source: Sequence[int], size: Sequence[int], output: Sequence[int] | None = None, **options: bool
) -> Model:
    raw = RawModel()
    x = raw.tensor(source)
    y = raw.tensor((1, *size, source[-1]) if output is None else output)
    operands = [x, raw.constant(np.array(size, np.int32))]
    raw.operator(name, operands, [y], make_options(OPTIONS[name], **options))
    return raw.build([x], [y])


def transposed(
    source: Sequence[int], filters: Sequence[int], output: Sequence[int], stride: int = 2, padding: int = SAME
) -> Model:
    raw = RawModel()
    x, y = raw.tensor(source), raw.tensor(output)
    weights = raw.constant(np.ones(filters, np.int8), [0.5])
    options = make_options("TransposeConvOptions", padding=padding, stride_h=stride, stride_w=stride)
    raw.operator("TRANSPOSE_CONV", [raw.constant(np.array(output, np.int32)), weights, x], [y], options)
    return raw.build([x], [y])


def stage_of(model: Model) -> Stage:
    (stage,) = extract(model, [0]).block.stages
    return stage


def test_twice_the_size_looks_at_one_pixel_or_at_two() -> None:
    rows, _ = stage_windows(stage_of(resize(NEAREST, (1, 4, 4, 1), (8, 8))))
    assert [(rows.first(at), rows.end(at + 1)) for at in range(8)] == [(at // 2, at // 2 + 1) for at in range(8)]
    rows, _ = stage_windows(stage_of(resize(BILINEAR, (1, 4, 4, 1), (8, 8))))
    assert [(rows.first(at), rows.end(at + 1)) for at in range(4)] == [(0, 1), (0, 2), (1, 2), (1, 3)]


def test_a_transposed_convolution_meets_those_pixels_its_filter_reaches() -> None:
    rows, _ = stage_windows(stage_of(transposed((1, 3, 3, 1), (1, 3, 3, 1), (1, 7, 7, 1), padding=VALID)))
    # Input row i is added into output rows 2 i ... 2 i + 2.
    reached = [[i for i in range(3) if 2 * i <= at <= 2 * i + 2] for at in range(7)]
    seen = [[i for i in range(rows.first(at), rows.end(at + 1)) if 0 <= i < 3] for at in range(7)]
    assert seen == reached


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (resize(NEAREST, (1, 4, 4, 1), (8, 8), (1, 8, 9, 1)), r"resizes \[1, 4, 4, 1\] to \[8, 8\]"),
        (resize(NEAREST, (1, 4, 4, 1), (0, 8), (1, 8, 8, 1)), r"to \[0, 8\]"),
        (resize(NEAREST, (1, 4, 4, 1), (-1, 8), (1, 8, 8, 1)), r"to \[-1, 8\]"),
        (resize(NEAREST, (1, 4, 4, 1), (8,), (1, 8, 8, 1)), r"to \[8\]"),
        (resize(NEAREST, (1, 4, 4, 1), (8, 8), (1, 8, 8, 2)), "which is not the shape of"),
        (resize(BILINEAR, (1, 4, 4, 1), (8, 8), align_corners=True, half_pixel_centers=True), "which TFLM refuses"),
        (resize(BILINEAR, (1, 3, 4, 1), (130, 4)), "the runtime reads outside its input"),
        (resize(BILINEAR, (1, 100, 1, 1), (3, 1)), "needs larger windows than blocks have"),
        (transposed((1, 3, 3, 1), (1, 3, 3, 1), (1, 6, 6, 1), stride=0), "stride_h is 0"),
        (transposed((1, 3, 3, 1), (1, 3, 3, 1), (1, 7, 6, 1)), "of 7 rows or columns does not come from 3"),
        (transposed((1, 3, 3, 2), (1, 3, 3, 1), (1, 6, 6, 1)), "map 1 to 1 channels"),
        (transposed((1, 3, 3, 1), (2, 3, 3, 1), (1, 6, 6, 1)), "map 1 to 2 channels"),
        (transposed((3, 3, 1), (1, 3, 3, 1), (1, 6, 6, 1)), "has 3 dimensions, not 4"),
    ],
)
def test_operators_no_stage_computes_are_refused_with_the_reason(model: Model, reason: str) -> None:
    with pytest.raises(BlockError, match=reason):
        extract(model, [0])
