"""Names and options of operators, in one import."""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.model.options import CHANGED, Value, get_options, make_options
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import operator_label, operator_name

__all__ = ["get_options", "make_options", "operator_label", "operator_name", "with_options"]


def with_options(model: Model, operator: Operator, **changes: Value) -> Operator:
    """Return an operator of a model, one of ``CHANGED``, with some options changed."""
    options = {**get_options(operator), **changes}
    return replace(operator, builtin_options=make_options(CHANGED[operator_name(model, operator)], **options))
