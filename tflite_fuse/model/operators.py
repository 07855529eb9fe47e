"""Names and options of operators, in one import."""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.model.options import CHANGED, Value, get_options, make_options
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import labelled, operator_label, operator_name, place_label

__all__ = [
    "RENAMING",
    "SAME",
    "VALID",
    "get_options",
    "labelled",
    "make_options",
    "operator_label",
    "operator_name",
    "place_label",
    "same_padding",
    "with_options",
]


RENAMING = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")
"""Operators that only give the same bytes another shape."""

SAME, VALID = 0, 1
"""Numbers of the schema's ``Padding``."""


def same_padding(size: int, extent: int, stride: int) -> tuple[int, tuple[int, int]]:
    """Return the output size along an axis that is padded SAME in TFLM, and the padding before and behind it.

    Args:
        size: rows or columns of the input.
        extent: rows or columns from the first tap to the last, both included.
        stride: rows or columns between two windows; positive.
    """
    out = -(-size // stride)
    missing = max(0, (out - 1) * stride + extent - size)
    return out, (missing // 2, missing - missing // 2)


def with_options(model: Model, operator: Operator, **changes: Value) -> Operator:
    """Return an operator of a model, one of ``CHANGED``, with some options changed."""
    options = {**get_options(operator), **changes}
    return replace(operator, builtin_options=make_options(CHANGED[operator_name(model, operator)], **options))
