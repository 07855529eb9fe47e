"""Int8 inputs and outputs in place of float32 or uint8 ones: QUANTIZE and DEQUANTIZE move to the application.

A float32 image takes four times the memory of the int8 image that all later operators read, and uint8 must be
converted. An application with pixels as bytes loses nothing: it exchanges integers, whose scale and zero point are in
the model's tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import prune, renumber_signatures, replace_main, used_tensors
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.schema import Model, Tensor
from tflite_fuse.model.types import TensorType, affine_parameters, is_other_sign, is_reversible, type_name
from tflite_fuse.notes import Note, note
from tflite_fuse.passes.base import PassResult

_OUTER: dict[int, str] = {TensorType.FLOAT32: "DEQUANTIZE", TensorType.UINT8: "QUANTIZE"}
"""Types that become int8, with the operator that writes outputs of each type."""


@dataclass(frozen=True)
class _Border:
    """A float32 or uint8 input or output, and the operator behind or before it.

    Attributes:
        operator: index of the QUANTIZE or DEQUANTIZE.
        outer: that tensor.
        integer: the int8 tensor.
    """

    operator: int
    outer: int
    integer: int


@dataclass(frozen=True)
class Int8Borders:
    """Make float32 and uint8 inputs and outputs int8 if only a QUANTIZE or DEQUANTIZE is between them and int8.

    The int8 tensors take the names of the others, and their places in signatures.
    """

    name: ClassVar[str] = "int8-io"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. If it changes, an offline memory plan is dropped, because tensor indices change."""
        notes: list[Note] = []
        borders: list[_Border] = []
        for side, tensors, find in (("input", model.main.inputs, _behind), ("output", model.main.outputs, _before)):
            for tensor in dict.fromkeys(tensors):
                if model.main.tensors[tensor].type not in _OUTER:
                    continue
                border = find(model, tensor)
                name = model.main.tensors[tensor].name or f"tensor {tensor}"
                if isinstance(border, str):
                    kind = type_name(model.main.tensors[tensor].type)
                    notes.append(note("kept", "border", side=side, tensor=name, type=kind, why=border))
                    continue
                borders.append(border)
                scale, zero_point = affine_parameters(model.main.tensors[border.integer]) or (0.0, 0)
                label = _label(model, border)
                notes.append(
                    note("changed", "border", label, side=side, tensor=name, scale=scale, zero_point=zero_point)
                )
        if not notes:
            notes.append(note("kept", "all borders"))
        if not borders:
            return PassResult(model, False, tuple(notes))
        rewritten = _without(remove_plan(model), borders)
        return PassResult(prune(rewritten), True, tuple(notes), origins=used_tensors(rewritten))


def _behind(model: Model, tensor: int) -> _Border | str:
    """Return the QUANTIZE that is the only reader of an input, or the reason why none can be removed."""
    graph = model.main
    readers = graph.readers.get(tensor, ())
    if graph.inputs.count(tensor) != 1 or tensor in graph.outputs:
        return "the model lists it more than once"
    if len(readers) != 1 or operator_name(model, graph.operators[readers[0]]) != "QUANTIZE":
        return f"{_list(model, readers)} reads it, not one QUANTIZE alone"
    return _checked(model, _Border(readers[0], tensor, graph.operators[readers[0]].output))


def _before(model: Model, tensor: int) -> _Border | str:
    """Return the DEQUANTIZE that writes an output without other readers, or the reason why none can be removed."""
    graph = model.main
    writer = graph.writers.get(tensor)
    if graph.outputs.count(tensor) != 1:
        return "the model lists it more than once"
    if tensor in graph.readers:
        return "the model reads it itself"
    expected = _OUTER[graph.tensors[tensor].type]
    if writer is None or operator_name(model, graph.operators[writer]) != expected:
        return f"{_list(model, [] if writer is None else [writer])} writes it, not a {expected}"
    return _checked(model, _Border(writer, tensor, (graph.operators[writer].inputs or (-1,))[0]))


def _checked(model: Model, border: _Border) -> _Border | str:
    tensor = model.main.tensors[border.integer]
    parameters = affine_parameters(tensor)
    if parameters is None:
        return f"{_label(model, border)} does not lead to an int8 tensor of one scale and zero point"
    outer = model.main.tensors[border.outer]
    if outer.type == TensorType.UINT8:
        if not is_other_sign(tensor, outer):
            return f"{_label(model, border)} changes its scale or zero point, too"
    elif not is_reversible(*parameters):
        return f"its int8 values, of scale {parameters[0]:g}, are no 256 different floats"
    if border.integer in (*model.main.inputs, *model.main.outputs):
        return "its int8 values are an input or output of the model already"
    if tensor.is_variable or model.buffers[tensor.buffer].data or tensor.dims != model.main.tensors[border.outer].dims:
        return "its int8 values are no activation of the same shape"
    return border


def _label(model: Model, border: _Border) -> str:
    return operator_label(model, border.operator)


def _list(model: Model, operators: Sequence[int]) -> str:
    return ", ".join(operator_label(model, index) for index in operators) or "no operator"


def _without(model: Model, borders: Sequence[_Border]) -> Model:
    graph = model.main
    moved = {border.outer: border.integer for border in borders}
    removed = {border.operator for border in borders}
    names = {border.integer: graph.tensors[border.outer].name for border in borders}
    graph = replace(
        graph,
        tensors=tuple(_renamed(names, index, tensor) for index, tensor in enumerate(graph.tensors)),
        operators=tuple(op for index, op in enumerate(graph.operators) if index not in removed),
        inputs=tuple(moved.get(index, index) for index in graph.inputs),
        outputs=tuple(moved.get(index, index) for index in graph.outputs),
    )
    return replace_main(renumber_signatures(model, moved), graph)


def _renamed(names: dict[int, str | None], index: int, tensor: Tensor) -> Tensor:
    return replace(tensor, name=names[index]) if names.get(index) else tensor
