"""Detects models that are not quantized to int8, which save little by fused blocks."""

from __future__ import annotations

from tflite_fuse.emit.in_model import executed_macs
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import Note, note

_DATA = {"TRANSPOSE_CONV": 2}
"""Position of the data operand; default 0."""

_WEIGHTS = 1


def quantization_offer(model: Model) -> tuple[Note, ...]:
    """Return a note with the model's kind if most multiply-accumulates are not of int8; else none.

    ``hybrid`` computes in float32 with weights of fewer bits, ``uint8`` in the older quantization.

    Raises:
        ModelError: a fused block is damaged.
    """
    macs, by_kind = executed_macs(model), dict[str, int]()
    for operator, count in zip(model.main.operators, macs, strict=True):
        kind = _kind(model, operator)
        by_kind[kind] = by_kind.get(kind, 0) + count
    kind = max(by_kind, key=lambda each: by_kind[each], default="")
    if not kind or 2 * by_kind[kind] <= sum(macs):
        return ()
    return (note("offered", "full int8", kind=kind),)


def _kind(model: Model, operator: Operator) -> str:
    """Return the arithmetic of an operator; empty for int8 and for operators without weights."""
    name, graph = operator_name(model, operator), model.main
    data, weights = graph.read_by(operator, _DATA.get(name, 0)), graph.read_by(operator, _WEIGHTS)
    if data is None or weights is None:
        return ""
    if data.type == TensorType.UINT8:
        return "uint8"
    if data.type != TensorType.FLOAT32:
        return ""
    return "float32" if weights.type == TensorType.FLOAT32 else "hybrid"
