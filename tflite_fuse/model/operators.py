"""Names and options of operators, in one import."""

from __future__ import annotations

from tflite_fuse.model.options import get_options, make_options
from tflite_fuse.model.types import operator_label, operator_name

__all__ = ["get_options", "make_options", "operator_label", "operator_name"]
