"""Detects models that were better converted anew: not quantized to int8, or with layers that TFLM cannot run."""

from __future__ import annotations

from tflite_fuse.emit.in_model import executed_macs
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import BUILTIN_CODES, TensorType
from tflite_fuse.notes import Note, note
from tflite_fuse.runtime.registration import method, used_operators

_DATA = {"TRANSPOSE_CONV": 2}
"""Position of the data operand; default 0."""

_WEIGHTS = 1


_REFUSED = ("hybrid", "uint8")
"""Kinds of arithmetic that TFLM's kernels refuse, on loading or on running a model."""

_LOOP = "CUSTOM:FlexTensorList"
"""Beginning of the names of TensorFlow's own operators in the loop of a recurrent layer of any batch."""


_PRUNING = "prune_low_magnitude_"
"""In the names of tensors of TensorFlow's wrappers that prune layers during training."""


def conversion_offer(model: Model, rewritten: Model | None = None) -> tuple[Note, ...]:
    """Return a note on the conversion, or none: recurrent loops, wrappers of pruning, arithmetic other than int8.

    ``hybrid`` computes in float32 with weights of fewer bits, ``uint8`` in the older quantization. One operator of
    these that stays outside of blocks suffices for a note, because TFLM refuses the model; of float32, most MACs.

    Args:
        model: the model as it was converted.
        rewritten: with blocks; default: ``model``.

    Raises:
        ModelError: a fused block is damaged.
    """
    if any(operator_name(model, operator).startswith(_LOOP) for operator in model.main.operators):
        return (note("offered", "fixed batch"),)
    if _is_being_pruned(model):
        return (note("offered", "pruning stripped"),)
    _, refused = refused_operator(model if rewritten is None else rewritten) or ("", "")
    if refused in _REFUSED:
        return (note("offered", "full int8", kind=refused),)
    counts = tuple(zip(model.main.operators, executed_macs(model), strict=True))
    in_floats = sum(count for operator, count in counts if _kind(model, operator))
    if 2 * in_floats <= sum(count for _, count in counts):
        return ()
    return (note("offered", "full int8", kind="float32"),)


def _is_being_pruned(model: Model) -> bool:
    """Return whether the wrappers of pruning multiply weights by masks in every inference: both are variables then."""
    has_variables = any(operator_name(model, operator) == "VAR_HANDLE" for operator in model.main.operators)
    return has_variables and any(_PRUNING in (tensor.name or "") for tensor in model.main.tensors)


def missing_operators(model: Model) -> tuple[Note, ...]:
    """Return notes with the operators of a rewritten model that TFLM lacks, and custom ones that no export registers.

    Applications bring their own custom operators.
    """
    lacking = [name for name in used_operators(model) if method(name) is None and name != FUSED_OPERATOR]
    names = [name.removeprefix("CUSTOM:") for name in lacking]
    lost = [name for name in names if name in BUILTIN_CODES or name.startswith("Flex")]
    listed = {"other operators": lost, "own operators": [name for name in names if name not in lost]}
    return tuple(note("offered", reason, names=", ".join(each)) for reason, each in listed.items() if each)


def refused_operator(model: Model) -> tuple[str, str] | None:
    """Return label and kind of the first operator outside of blocks whose arithmetic TFLM refuses; None without one.

    Raises:
        ModelError: a fused block is damaged.
    """
    for index, (operator, count) in enumerate(zip(model.main.operators, executed_macs(model), strict=True)):
        data = model.main.read_by(operator, 0)
        if operator_name(model, operator) == "DEQUANTIZE" and data is not None and data.type == TensorType.FLOAT16:
            return operator_label(model, index), "float16"
        if count and (kind := _kind(model, operator)) in _REFUSED:
            return operator_label(model, index), kind
        if operator_name(model, operator) == "QUANTIZE" and data is not None and data.type == TensorType.FLOAT32:
            written = model.main.tensors[operator.output]
            if written.type == TensorType.UINT8:
                return operator_label(model, index), "uint8"
    return None


def _kind(model: Model, operator: Operator) -> str:
    """Return the arithmetic of an operator; empty for int8, for operators without weights and for blocks."""
    name, graph = operator_name(model, operator), model.main
    data, weights = graph.read_by(operator, _DATA.get(name, 0)), graph.read_by(operator, _WEIGHTS)
    if data is None or weights is None or name == FUSED_OPERATOR:
        return ""
    if data.type == TensorType.UINT8:
        return "uint8"
    if data.type != TensorType.FLOAT32:
        return ""
    return "float32" if weights.type == TensorType.FLOAT32 else "hybrid"
