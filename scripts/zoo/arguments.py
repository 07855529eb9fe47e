"""Arguments of the builder's operators, checked and converted to the file's options."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scripts.zoo.numerics import FloatArray, Pads, Pair, Window
from scripts.zoo.recording import Constant
from tflite_fuse.errors import ModelError, UsageError
from tflite_fuse.model.types import TensorType

Size = int | Pair
Padding = str | Pads

SAME, VALID = 0, 1
"""Padding modes as the file numbers them."""

MOST_ELEMENTS = 1 << 22
"""Limit of one tensor."""
MOST_TAPS = 1 << 26
"""Limit of output pixels times what lies under the window at each."""

_ACTIVATIONS = {"NONE": (0, None), "RELU": (1, None), "RELU6": (3, 6.0)}


def pair_of(value: Size, what: str) -> Pair:
    """Return one number or (rows, columns) as a pair of positive numbers."""
    pair = (value, value) if isinstance(value, int) else value
    if len(pair) != 2 or min(pair) < 1:
        raise UsageError(f"{what} must be one or two positive numbers, not {value!r}")
    return pair


def pads_of(pads: Sequence[int]) -> Pads:
    """Return four non-negative numbers of pixels."""
    if len(pads) != 4 or min(pads) < 0:
        raise UsageError(f"padding must be four numbers that are not negative, not {pads!r}")
    return pads[0], pads[1], pads[2], pads[3]


def need_affordable(elements: int, limit: int = MOST_ELEMENTS) -> None:
    """Reject networks that are too large for a microcontroller and for this machine.

    Raises:
        ModelError: naming the limit.
    """
    if elements > limit:
        raise ModelError(f"a step over {elements} elements is too large to build; the limit is {limit}")


def activation_code(activation: str) -> int:
    """Return the file's number of a fused activation: NONE, RELU or RELU6."""
    if activation not in _ACTIVATIONS:
        raise UsageError(f"activation {activation!r} is none of {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[activation][0]


def activate(values: FloatArray, activation: str) -> FloatArray:
    """Return values after a fused activation."""
    if activation_code(activation) == 0:
        return values
    return np.clip(values, 0.0, _ACTIVATIONS[activation][1])


def int32_constant(name: str, values: int | Sequence[int] | Sequence[Sequence[int]]) -> Constant:
    """Add an unquantized int32 operand, such as axes or a shape; a number becomes a scalar."""
    array = np.array(values, "<i4")
    return Constant(name, array.shape, TensorType.INT32, array.tobytes())


def window_options(window: Window, activation: str) -> dict[str, int]:
    """Return the options that both convolutions share."""
    return {
        "stride_h": window.stride[0],
        "stride_w": window.stride[1],
        "dilation_h_factor": window.dilation[0],
        "dilation_w_factor": window.dilation[1],
        "fused_activation_function": activation_code(activation),
    }
