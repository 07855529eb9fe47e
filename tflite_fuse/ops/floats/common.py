"""Common parts of kinds on float32: bounds, operands, weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.entry import Kind, Layout
from tflite_fuse.ops.lowering.operands import read_bias, read_constant
from tflite_fuse.ops.lowering.view import OperatorView

Floats = npt.NDArray[np.float32]

FLOAT_BYTES = 4

ANY = (-np.inf, np.inf)
"""Bounds that change no number."""


float_kind = partial(Kind, reads_real=True, writes_real=True)
"""A kind that reads and writes float32."""


@dataclass(frozen=True)
class FloatBounds:
    """Least and largest output; NaN stays NaN."""

    low: float
    high: float


@dataclass(frozen=True)
class FloatWeights:
    """Constants of a layer.

    Attributes:
        low, high: least and largest output.
        bias: float32 of each output channel, little-endian.
        weights: float32, little-endian, in the layout of the same kind on int8.
        in_float16: whether a block stores the weights as float16, which holds each of them exactly.
    """

    low: float
    high: float
    bias: bytes
    weights: bytes = b""
    in_float16: bool = False


BOUNDS = Layout.of(FloatBounds)


def fits_float16(weights: Floats) -> bool:
    """Return whether all weights are finite and float16 holds each of them exactly."""
    with np.errstate(over="ignore"):
        narrow = weights.astype(np.float16)
    return bool(np.isfinite(narrow).all() and np.array_equal(narrow.astype(np.float32), weights))


def bounded(values: Floats, low: float, high: float) -> Floats:
    """Return values within bounds, with TFLM's comparisons: zeros keep their sign, NaN stays NaN."""
    raised = np.where(values < np.float32(low), np.float32(low), values)
    return np.where(np.float32(high) < raised, np.float32(high), raised)


def float_weights(view: OperatorView, rank: int) -> Floats:
    """Return constant float32 weights in the model's layout.

    Raises:
        BlockError: they are not constant or not float32, or have other dimensions.
    """
    weights = read_constant(view.model, view.operand(1), TensorType.FLOAT32, "weights")
    if weights.ndim != rank:
        raise BlockError(f"its weights have {weights.ndim} dimensions, not {rank}")
    return weights


def float_bias(view: OperatorView, channels: int, position: int = 2) -> Floats:
    """Return the bias, or zeros without one, which TFLM also adds.

    Raises:
        BlockError: it is not a constant of ``channels`` float32 values.
    """
    bias = read_bias(view.model, view.operand(position), channels, TensorType.FLOAT32)
    return np.zeros(channels, np.float32) if bias is None else bias
