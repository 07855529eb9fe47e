"""One row per operator that is a table: how to draw one that TFLM runs. Tests of every room use these rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import OptionsTable

Options = Callable[[st.DrawFn], OptionsTable | None]


def leaky_relu_options(draw: st.DrawFn) -> OptionsTable:
    alpha = draw(st.sampled_from([0.0, 0.01, 0.1, 0.3, 1.5, -0.2]))
    return make_options("LeakyReluOptions", alpha=float(np.float32(alpha)))


@dataclass(frozen=True)
class ByteRow:
    """An operator of one int8 value.

    Attributes:
        options: of the operator.
        zero_point: the only one TFLM takes for the output; None for any.
        source_zero_point: the only one for the input.
        near: whether the scale of the output must be near that of the input.
    """

    options: Options = lambda draw: None
    zero_point: int | None = None
    source_zero_point: int | None = None
    near: bool = False


BYTE_ROWS = {
    "ABS": ByteRow(),
    "ELU": ByteRow(),
    "HARD_SWISH": ByteRow(near=True),
    "LEAKY_RELU": ByteRow(leaky_relu_options),
    "LOGISTIC": ByteRow(zero_point=-128),
    "QUANTIZE": ByteRow(),
    "RELU": ByteRow(),
    "RELU6": ByteRow(),
    "RSQRT": ByteRow(source_zero_point=-128),
    "TANH": ByteRow(),
}


LITERT_ROWS = {
    "GELU": ByteRow(lambda draw: make_options("GeluOptions", approximate=draw(st.booleans()))),
}
"""Operators that LiteRT has and TFLM lacks."""


@dataclass(frozen=True)
class RealRow:
    """An operator of one float32 value.

    Attributes:
        before: operators that bring any value where this one is defined and finite.
        options: of the operator.
    """

    before: tuple[str, ...] = ()
    options: Options = lambda draw: None


REAL_ROWS = {
    "ABS": RealRow(),
    "CEIL": RealRow(),
    "COS": RealRow(),
    "ELU": RealRow(),
    "EXP": RealRow(before=("TANH",)),
    "FLOOR": RealRow(),
    "HARD_SWISH": RealRow(),
    "LEAKY_RELU": RealRow(options=leaky_relu_options),
    "LOG": RealRow(before=("TANH", "EXP")),
    "LOGISTIC": RealRow(),
    "NEG": RealRow(),
    "RELU": RealRow(),
    "RELU6": RealRow(),
    "ROUND": RealRow(),
    "RSQRT": RealRow(before=("TANH", "EXP")),
    "SIN": RealRow(),
    "SQRT": RealRow(before=("ABS",)),
    "SQUARE": RealRow(),
    "TANH": RealRow(),
}


@dataclass(frozen=True)
class RealPairRow:
    """An operator of two float32 values.

    Attributes:
        table: of its options, which hold a fused activation; empty for none.
        divides: whether its second operand must not be 0.
    """

    table: str = ""
    divides: bool = False


REAL_PAIR_ROWS = {
    "ADD": RealPairRow("AddOptions"),
    "DIV": RealPairRow("DivOptions", divides=True),
    "FLOOR_DIV": RealPairRow(divides=True),
    "FLOOR_MOD": RealPairRow(divides=True),
    "MAXIMUM": RealPairRow(),
    "MINIMUM": RealPairRow(),
    "MUL": RealPairRow("MulOptions"),
    "SQUARED_DIFFERENCE": RealPairRow(),
    "SUB": RealPairRow("SubOptions"),
}
