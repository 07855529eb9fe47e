"""Real numbers as 8-bit integers: what QUANTIZE and DEQUANTIZE compute in TFLM, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.model.schema import Tensor
from tflite_fuse.model.types import TensorType

Array = npt.NDArray[Any]

_LOW, _HIGH = -128, 127


def affine_parameters(tensor: Tensor) -> tuple[float, int] | None:
    """Scale and zero point of an int8 tensor quantized as a whole, None for any other tensor."""
    quantization = tensor.quantization
    if tensor.type != TensorType.INT8 or quantization is None:
        return None
    scales, zero_points = quantization.scale or (), quantization.zero_point or ()
    return (scales[0], zero_points[0]) if len(scales) == len(zero_points) == 1 else None


def is_other_sign(signed: Tensor, unsigned: Tensor) -> bool:
    """Whether an int8 tensor and a uint8 one stand for the same numbers: values are 128 apart, and nothing else."""
    parameters, other = affine_parameters(signed), unsigned.quantization
    if parameters is None or unsigned.type != TensorType.UINT8 or other is None:
        return False
    moved = (parameters[0],), (parameters[1] + 128,)
    return (tuple(other.scale or ()), tuple(other.zero_point or ())) == moved and parameters[0] > 0


def with_other_sign(values: Array) -> Array:
    """uint8 values as the int8 ones of 128 less, and back."""
    flipped: Array = np.ascontiguousarray(values).view(np.uint8) ^ np.uint8(128)
    return flipped.view(np.uint8 if values.dtype == np.int8 else np.int8)


def quantize(values: Array, scale: float, zero_point: int) -> Array:
    """float32 values as int8: divided in single precision, halves rounded away from zero, clamped."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = (np.asarray(values, np.float32) / np.float32(scale)).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio)
    clamped: Array = np.clip(np.nan_to_num(rounded) + zero_point, _LOW, _HIGH)
    return clamped.astype(np.int8)


def dequantize(values: Array, scale: float, zero_point: int) -> Array:
    """int8 values as float32: multiplied in double precision, rounded once."""
    steps = np.asarray(values, np.int64) - zero_point
    with np.errstate(over="ignore", invalid="ignore"):
        real: Array = (np.float64(np.float32(scale)) * steps).astype(np.float32)
    return real


def is_reversible(scale: float, zero_point: int) -> bool:
    """Whether each of the 256 values is a float of its own that is quantized to the same value again."""
    every = np.arange(_LOW, _HIGH + 1, dtype=np.int8)
    real = dequantize(every, scale, zero_point)
    if not np.isfinite(real).all() or not (np.diff(real) > 0).all():
        return False
    return bool((quantize(real, scale, zero_point) == every).all())
