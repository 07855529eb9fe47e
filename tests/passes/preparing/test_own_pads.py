"""A PAD read by several convolutions: one for each, bytes unchanged, less RAM; kept for other readers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.drawing.raw_models import RawModel, add_convolution
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.notes import note
from tflite_fuse.passes.preparing.straighten import OwnPads
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def names(model: Model) -> list[str]:
    return [operator_name(model, operator) for operator in model.main.operators]


def heads(readers: int, pooled: bool = False, leaves: bool = False) -> Model:
    """A map of 12 x 12 x 16, padded by one pixel on every side, and 3 x 3 convolutions of stride 2 on it."""
    raw, rng = RawModel(), np.random.default_rng(readers)
    x = raw.tensor((1, 12, 12, 4), 0.1, 7)
    image = add_convolution(raw, x, (1, 12, 12, 16))
    wide = raw.tensor((1, 14, 14, 16), *_quantization(raw, image))
    amounts = raw.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    raw.operator("PAD", [image, amounts], [wide], make_options("PadOptions"))
    outputs = [wide] if leaves else []
    for _ in range(readers):
        outputs.append(raw.tensor((1, 6, 6, 2), 0.9, -5))
        weights = raw.constant(rng.integers(-127, 128, (2, 3, 3, 16), np.int8), [0.01, 0.02])
        bias = raw.constant(rng.integers(-99, 99, 2, np.int32), [0.001, 0.002])
        options = make_options("Conv2DOptions", stride_w=2, stride_h=2, padding=1)
        raw.operator("CONV_2D", [wide, weights, bias], [outputs[-1]], options)
    if pooled:
        outputs.append(raw.tensor((1, 7, 7, 16), *_quantization(raw, image)))
        options = make_options("Pool2DOptions", stride_w=2, stride_h=2, filter_width=2, filter_height=2, padding=1)
        raw.operator("MAX_POOL_2D", [wide], [outputs[-1]], options)
    return raw.build([x], outputs)


def _quantization(raw: RawModel, tensor: int) -> tuple[float, int]:
    found = raw.tensors[tensor].quantization
    assert found is not None and found.scale is not None and found.zero_point is not None
    return found.scale[0], found.zero_point[0]


@needs_tflm
@pytest.mark.parametrize("readers", [2, 3])
def test_every_convolution_has_a_pad_of_its_own(readers: int) -> None:
    model = heads(readers)
    result = OwnPads().run(model)
    assert names(result.model) == ["CONV_2D", *("PAD", "CONV_2D") * readers]
    assert result.notes == (note("changed", "own padding", "PAD_1", readers=readers),)
    assert validate(model, result.model).proven
    images = [[np.random.default_rng(seed).integers(-128, 128, (1, 12, 12, 4), np.int8)] for seed in range(3)]
    before, after = (tflm.run(serialize_model(each), images).outputs for each in (model, result.model))
    for ours, theirs in zip(after, before, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


@needs_tflm
def test_a_rewritten_detector_keeps_no_padded_map() -> None:
    data = serialize_model(heads(3))
    result = rewrite(data, inputs=3, verify=True)
    assert "PAD" not in names(load_model(result.model))
    assert all(tensor.dims[1:3] != (14, 14) for tensor in load_model(result.model).main.tensors)


@pytest.mark.parametrize("model", [heads(1), heads(2, pooled=True), heads(2, leaves=True)], ids=["one", "pool", "left"])
def test_other_pads_stay(model: Model) -> None:
    result = OwnPads().run(model)
    assert not result.changed and result.model is model and result.notes == ()
