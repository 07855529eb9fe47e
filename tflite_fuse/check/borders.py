"""Inputs and outputs of both models: in the arena, outside of it, or int8 in place of float32 or uint8."""

from __future__ import annotations

from collections.abc import Sequence

from tflite_fuse.check.correspondence import Correspondence, same_fields
from tflite_fuse.errors import ModelError
from tflite_fuse.model.outside import InputMode, OutsideInput, outside_inputs, with_inputs_inside
from tflite_fuse.model.schema import Tensor
from tflite_fuse.model.types import TensorType

_OUTER: dict[int, tuple[str, str]] = {
    TensorType.FLOAT32: ("DEQUANTIZE", "floats"),
    TensorType.UINT8: ("QUANTIZE", "uint8"),
}
"""Types that int8 may replace: (operator that writes an output of this type, word for its values in notes).

A QUANTIZE to uint8 must only shift the zero point by 128, so both tensors hold one value.
"""


def match_inputs(matching: Correspondence) -> None:
    """Match inputs by position; take those outside the arena from the metadata."""
    try:
        inside = with_inputs_inside(matching.before).main, with_inputs_inside(matching.after).main
        old = {entry.position: entry for entry in outside_inputs(matching.before)}
        new = {entry.position: entry for entry in outside_inputs(matching.after)}
    except ModelError as error:
        matching.report("inputs", str(error))
        return
    if len(inside[0].inputs) != len(inside[1].inputs):
        matching.report("inputs", "number", len(inside[0].inputs), len(inside[1].inputs))
        return
    if _once_each(inside[0].inputs) != _once_each(inside[1].inputs):
        matching.report("inputs", "which positions are one tensor differs")
    for position, (a, b) in enumerate(zip(inside[0].inputs, inside[1].inputs, strict=True)):
        entry = new.get(position)
        if position in old:
            if entry != old[position]:
                matching.report("inputs", f"input {position}, which was outside the arena before, differs")
            continue
        value = _behind_quantize(matching, a, inside[1].tensors[b])
        if entry is not None:
            _check_outside(matching, entry, value, matching.before.main.tensors[a])
            matching.gone.add(value)
            if entry.mode is InputMode.COLUMNS:
                if value not in matching.exchanged:
                    matching.report("inputs", f"input {position} arrives by columns, which the witness does not name")
                    continue
                value = matching.exchanged[value]
            matching.outside[entry.mode.streams, entry.number] = value
        else:
            matching.values[b] = value
            matching.check_tensors(f"input {position}", [b])
            matching.check_type(f"input {position}", b, value)
            _check_shape(matching, f"input {position}", inside[1].tensors[b], a)


def _check_shape(matching: Correspondence, where: str, tensor: Tensor, theirs: int) -> None:
    """Report an input or output whose shape differs from the original's."""
    original = matching.before.main.tensors[theirs]
    if tensor.dims != original.dims or tensor.shape_signature != original.shape_signature:
        matching.report(where, f"shape of tensor {tensor.name}", original.dims, tensor.dims)


def _once_each(inputs: Sequence[int]) -> list[int]:
    """Return for each input the first position of its tensor."""
    firsts: dict[int, int] = {}
    return [firsts.setdefault(tensor, position) for position, tensor in enumerate(inputs)]


def _behind_quantize(matching: Correspondence, tensor: int, now: Tensor) -> int:
    """Return the int8 tensor that replaces a float32 or uint8 input, else the input itself."""
    was = matching.before.main.tensors[tensor].type
    if was not in _OUTER or now.type != TensorType.INT8:
        return tensor
    for step in matching.original.readers(tensor):
        if step.name != "QUANTIZE" or len(step.outputs) != 1 or step.operand(0) != tensor:
            continue
        if was == TensorType.FLOAT32 or matching.original.value(step.outputs[0]) == matching.original.value(tensor):
            matching.replaced[tensor] = step.outputs[0]
            matching.notes.append(f"input {now.name} takes the int8 values that {step.label} made of {_OUTER[was][1]}")
            return step.outputs[0]
    return tensor


def _check_outside(matching: Correspondence, entry: OutsideInput, value: int, named: Tensor) -> None:
    tensor = matching.original.tensors[value]
    expected = (named.name or "", tensor.dims, tensor.type, matching.original.activation(value))
    point = entry.zero_point - (128 if entry.type == TensorType.UINT8 else 0)
    if tensor.quantization is None or not tensor.quantization.scale:
        expected, point = (*expected[:3], (1.0, 0)), entry.zero_point
    actual = (entry.name, tuple(entry.shape), entry.type, (entry.scale, point))
    if expected != actual:
        matching.report("inputs", f"metadata of input {entry.position}", expected, actual)


def match_outer_outputs(matching: Correspondence) -> None:
    """Find the int8 tensors that replace float32 and uint8 outputs."""
    for a, b in zip(matching.before.main.outputs, matching.after.main.outputs, strict=False):
        types = matching.before.main.tensors[a].type, matching.after.main.tensors[b].type
        writer = matching.original.writer.get(a)
        if types[0] not in _OUTER or types[1] != TensorType.INT8 or writer is None:
            continue
        (name, what), step = _OUTER[types[0]], matching.original.steps[writer]
        if step.name != name or step.operand(0) < 0:
            continue
        if types[0] == TensorType.FLOAT32 or matching.original.value(step.inputs[0]) == matching.original.value(a):
            matching.replaced[a] = step.inputs[0]
            label = matching.after.main.tensors[b].name
            matching.notes.append(f"output {label} gives the int8 values that {step.label} made {what} of")


def check_outputs(matching: Correspondence) -> None:
    """Report every output that does not hold the original's bytes in the original's shape and type."""
    before, after = matching.before.main.outputs, matching.after.main.outputs
    if len(before) != len(after):
        matching.report("outputs", "number", len(before), len(after))
        return
    for position, (a, b) in enumerate(zip(before, after, strict=True)):
        if _is_stored_alike(matching, a, b):
            matching.values[b] = a
        if matching.same(b, matching.replaced.get(a, a)):
            matching.check_tensors(f"output {position}", [b])
            matching.check_type(f"output {position}", b, matching.replaced.get(a, a))
            _check_shape(matching, f"output {position}", matching.after.main.tensors[b], a)
        else:
            name = matching.before.main.tensors[a].name
            matching.report("outputs", f"output {position} ({name}) is not known to hold the bytes of the original")


def _is_stored_alike(matching: Correspondence, a: int, b: int) -> bool:
    """Return whether both models return the same constant."""
    graph, stored = matching.after.main, matching.after.main.tensors[b]
    content = matching.after.buffers[stored.buffer].data
    if not content or stored.is_variable or b in graph.writers or b in graph.inputs:
        return False
    return content == matching.original.content(a) and same_fields(stored, matching.original.tensors[a])
