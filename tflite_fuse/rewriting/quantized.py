"""Whether a model is of int8 inside: fused blocks are, and a microcontroller has little room for anything else."""

from __future__ import annotations

from tflite_fuse.emit.in_model import executed_macs
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import Note, note

_DATA = {"TRANSPOSE_CONV": 2}
"""Position of the operand that holds the data; the first one elsewhere."""

_WEIGHTS = 1


def quantization_offer(model: Model) -> tuple[Note, ...]:
    """Return a note where most multiply-accumulates are not of int8, with the kind the model is of; else none.

    ``hybrid`` computes on float32 with weights in fewer bits, ``uint8`` in the older quantization.

    Raises:
        ModelError: a fused block is damaged.
    """
    macs, found = executed_macs(model), dict[str, int]()
    for operator, count in zip(model.main.operators, macs, strict=True):
        kind = _kind(model, operator)
        found[kind] = found.get(kind, 0) + count
    kind = max(found, key=lambda each: found[each], default="")
    if not kind or 2 * found[kind] <= sum(macs):
        return ()
    return (note("offered", "full int8", kind=kind),)


def _kind(model: Model, operator: Operator) -> str:
    """What an operator computes in; empty for int8 and for what has no weights."""
    name, graph = operator_name(model, operator), model.main
    data, weights = graph.read_by(operator, _DATA.get(name, 0)), graph.read_by(operator, _WEIGHTS)
    if data is None or weights is None:
        return ""
    if data.type == TensorType.UINT8:
        return "uint8"
    if data.type != TensorType.FLOAT32:
        return ""
    return "float32" if weights.type == TensorType.FLOAT32 else "hybrid"
