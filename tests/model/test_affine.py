"""QUANTIZE and DEQUANTIZE in numpy against the runtime's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.drawing.raw_models import RawModel
from tflite_fuse.model import serialize_model
from tflite_fuse.model.schema import Quantization, Tensor
from tflite_fuse.model.types import TensorType, affine_parameters, dequantize, is_reversible, quantize
from tflite_fuse.runtime import tflm

EVERY = np.arange(-128, 128, dtype=np.int8)

SCALES = [(0.00783930719, 0), (0.1, -128), (1.0, 127), (3.0517578e-05, 5), (0.146878466, 1), (1e-30, -3), (7e5, 64)]


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize(("scale", "zero_point"), SCALES)
def test_the_runtime_computes_the_same_bits(scale: float, zero_point: int) -> None:
    """All int8 values, and floats at, near and between all of them and beyond both ends."""
    real_values = dequantize(EVERY, scale, zero_point)
    halves = dequantize(EVERY, scale, zero_point) + np.float32(scale) / 2
    near = np.concatenate([np.nextafter(halves, np.float32(side)) for side in (-np.inf, np.inf)])
    floats = np.concatenate([real_values, halves, near, real_values * 3]).astype(np.float32).reshape(1, -1)
    raw = RawModel()
    x = raw.tensor(floats.shape, type_=TensorType.FLOAT32, quantization=None)
    q = raw.tensor(floats.shape, scale, zero_point)
    raw.operator("QUANTIZE", [x], [q], None)
    (quantized,) = tflm.run(serialize_model(raw.build([x], [q])), [[floats]]).outputs[0]
    np.testing.assert_array_equal(quantized, quantize(floats, scale, zero_point))
    raw = RawModel()
    q = raw.tensor((1, 256), scale, zero_point)
    x = raw.tensor((1, 256), type_=TensorType.FLOAT32, quantization=None)
    raw.operator("DEQUANTIZE", [q], [x], None)
    (floats,) = tflm.run(serialize_model(raw.build([q], [x])), [[EVERY.reshape(1, 256)]]).outputs[0]
    assert floats.tobytes() == real_values.tobytes()


@pytest.mark.parametrize(("scale", "zero_point"), SCALES)
def test_usual_scales_are_reversible(scale: float, zero_point: int) -> None:
    assert is_reversible(scale, zero_point)
    np.testing.assert_array_equal(quantize(dequantize(EVERY, scale, zero_point), scale, zero_point), EVERY)


@pytest.mark.parametrize("scale", [0.0, -0.5, float("nan"), float("inf"), 1e38, 1e-46])
def test_scales_that_merge_values_are_not(scale: float) -> None:
    assert not is_reversible(scale, 0)


def test_only_int8_of_one_scale_has_parameters() -> None:
    def tensor(kind: int, scales: tuple[float, ...], zero_points: tuple[int, ...]) -> Tensor:
        return Tensor((2,), kind, 0, "t", Quantization(scale=scales, zero_point=zero_points))

    assert affine_parameters(tensor(TensorType.INT8, (0.5,), (3,))) == (0.5, 3)
    assert affine_parameters(tensor(TensorType.INT8, (0.5, 0.25), (3, 4))) is None
    assert affine_parameters(tensor(TensorType.INT8, (0.5,), ())) is None
    assert affine_parameters(tensor(TensorType.UINT8, (0.5,), (3,))) is None
    assert affine_parameters(Tensor((2,), TensorType.FLOAT32, 0, "real")) is None
