"""ARG_MAX along channels: the last map of a segmentation, never whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo.float_twin import float_twin
from tests.drawing.raw_models import RawModel, add_convolution
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.schema import Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.extract import fusability
from tflite_fuse.runtime import tflm


def segmentation(type_: TensorType = TensorType.INT32, axis: int = 3, dims: Sequence[int] = (1, 16, 16)) -> Model:
    """A convolution of 21 channels, and the number of each pixel's largest."""
    m = RawModel()
    x = m.tensor((1, 16, 16, 3), 0.05, 3)
    y = add_convolution(m, x, (1, 16, 16, 21), 3)
    m.tensors.append(Tensor(tuple(dims), type_, 0, "numbers"))
    numbers = len(m.tensors) - 1
    m.operator("ARG_MAX", [y, m.constant(np.array([axis], np.int32))], [numbers], None)
    return m.build([x], [numbers])


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("mode", ["resident", "streamed"])
@pytest.mark.parametrize("is_float", [False, True])
def test_the_channels_of_a_segmentation_are_never_whole(is_float: bool, mode: str) -> None:
    model = float_twin(segmentation()) if is_float else segmentation()
    report = tflite_fuse.rewrite(serialize_model(model), input_mode=mode, inputs=4, verify=True).report
    assert report.blocks[-1].operators == ("CONV_2D_0", "ARG_MAX_1")
    maps = 16 * 16 * 21 * (4 if is_float else 1)
    assert report.before.arena_bytes > maps > report.after.arena_bytes


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (segmentation(TensorType.INT64), "its output is int64, which TFLM refuses"),
        (segmentation(axis=1, dims=(1, 16, 21)), "it searches along axes [1], not along channels"),
        (segmentation(dims=(1, 256)), "its output numbers has the shape [1, 256]"),
    ],
)
def test_others_run_outside_of_blocks(model: Model, reason: str) -> None:
    assert fusability(model) == (None, reason)
