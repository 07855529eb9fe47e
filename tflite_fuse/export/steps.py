"""A model that runs on the C library alone: its blocks in order, with their places in one arena."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tflite_fuse.emit.in_model import block_overlaps, operands_of
from tflite_fuse.emit.insert_blocks import with_lone_blocks
from tflite_fuse.errors import ModelError, UsageError
from tflite_fuse.export.ports import C_TYPES, OUTSIDE_LIMIT, Port, checked_outside, model_ports, require_arithmetic
from tflite_fuse.ir.program import FUSED_OPERATOR, has_blocks, program_of
from tflite_fuse.memory.arena import ArenaOptions, realise
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT, remove_plan
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.memories import slow_bytes, slow_tensors
from tflite_fuse.model.operators import RENAMING, operator_label, operator_name
from tflite_fuse.model.outside import OutsideInput
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import TensorType, tensor_nbytes, type_name
from tflite_fuse.runtime.registration import method
from tflite_fuse.units import round_up

_CONVERSIONS_BEFORE, _CONVERSIONS_BEHIND = ("QUANTIZE",), ("QUANTIZE", "DEQUANTIZE")


@dataclass(frozen=True)
class Place:
    """A tensor in the arena, in bytes; one that lies ``apart`` is in the second memory, a ``constant`` in flash."""

    offset: int
    nbytes: int
    apart: bool = False
    constant: bytes = b""


NOWHERE = Place(0, 0)


@dataclass(frozen=True)
class Step:
    """One operator; without options it copies its input to its output.

    Attributes:
        label: its kind and position in the model.
        options, constants: of a fused block.
        inputs, outputs: without constants and scratch.
        scratch: of a fused block.
        state: of a fused block, kept from run to run.
    """

    label: str
    options: bytes
    constants: bytes
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    scratch: Place
    state: Place = NOWHERE


@dataclass(frozen=True)
class WholeModel:
    """A model for the C library.

    Attributes:
        steps: in order.
        inputs, outputs: ports and their places.
        outside: inputs outside the arena.
        arena_bytes: a multiple of 16.
        notes: on operators that were left out, one sentence each.
        state_offset: byte of the arena where states begin; they take the rest.
        memory_bytes: of the second memory.
    """

    steps: tuple[Step, ...]
    inputs: tuple[tuple[Port, Place], ...]
    outputs: tuple[tuple[Port, Place], ...]
    outside: tuple[OutsideInput, ...]
    arena_bytes: int
    notes: tuple[str, ...]
    state_offset: int
    memory_bytes: int = 0


def whole_model(model: Model, like: WholeModel | None = None) -> WholeModel:
    """Return a model as steps.

    Conversions at its ends are left out where the tensors behind and before them, which take the place of inputs and
    outputs, are int8; so is a SOFTMAX at an output that no block can hold. RESHAPE and other renaming operators are
    copies; other operators in no block become blocks by themselves.

    Args:
        model: the model.
        like: the same model, rewritten; ends that are its own already, because a block converts them, stay. Messages
            have no advice then.

    Raises:
        UsageError: an operator or the type of a tensor is not supported, a block has too many operands, or an input or
            output is a constant.
        ModelError: a block is damaged, or a dynamic shape.
    """
    advice = "export for arduino, platformio or esp-idf"
    if not has_blocks(model):
        advice = f"export its rewrite, or, if `inspect` reports that no block can hold the operator, {advice}"
    model = remove_plan(model)
    if not model.main.operators:
        raise UsageError("the model has no operators, so there is nothing to run")
    require_arithmetic(model)
    model, conversions = _without_ends(model, _CONVERSIONS_BEFORE, _CONVERSIONS_BEHIND, like)
    model, alone = with_lone_blocks(model)
    model, scores = _without_ends(model, (), ("SOFTMAX",), like)
    notes = (
        *conversions,
        *(f"{label} is in no block of the model and runs as one by itself" for label in alone),
        *scores,
    )
    for index in range(len(model.main.operators)):
        _require_runnable(model, index, advice if like is None else "")
    _require_known_types(model)
    _require_ends_in_arena(model)
    inputs, outputs = model_ports(model)
    program = program_of(model)
    arena = realise(program, block_overlaps(model), ArenaOptions(without_tflm=True))
    places = [Place(max(offset, 0), size) for offset, size in zip(arena.offsets or (), program.sizes, strict=False)]
    slow = slow_tensors(model)
    for each, offset in ({} if slow is None else slow.offsets).items():
        places[each] = Place(offset, tensor_nbytes(model.main.tensors[each]), apart=True)
    for index, tensor in enumerate(model.main.tensors):
        if content := model.buffers[tensor.buffer].data:
            places[index] = Place(0, len(content), constant=content)
    begins = end = max(arena.needed, ALIGNMENT)
    for index, tensor in enumerate(model.main.tensors):
        if tensor.is_variable:
            places[index] = Place(end, tensor_nbytes(tensor))
            end += round_up(tensor_nbytes(tensor), ALIGNMENT)
    return WholeModel(
        steps=tuple(_step(model, index, places) for index in range(len(model.main.operators))),
        inputs=tuple((port, places[tensor]) for port, tensor in zip(inputs, model.main.inputs, strict=True)),
        outputs=tuple((port, places[tensor]) for port, tensor in zip(outputs, model.main.outputs, strict=True)),
        outside=checked_outside(model),
        arena_bytes=end,
        notes=notes,
        state_offset=begins,
        memory_bytes=slow_bytes(model),
    )


def arena_without_tflm(model: Model) -> int | None:
    """Return the bytes of a model's arena in plain C, None if it needs TensorFlow Lite Micro or has other ends."""
    try:
        whole = whole_model(model)
    except (UsageError, ModelError):
        return None
    ends = [port.tensor.name for port, _ in (*whole.inputs, *whole.outputs)]
    own = [model.main.tensors[index].name for index in (*model.main.inputs, *model.main.outputs)]
    return whole.arena_bytes if ends == own else None


def _step(model: Model, index: int, places: list[Place]) -> Step:
    operator, label = model.main.operators[index], operator_label(model, index)
    if operator_name(model, operator) in RENAMING:
        source, target = (operator.inputs or ())[0], operator.output
        if places[source].apart or places[target].apart:
            raise UsageError(f"{label} copies a tensor of the second memory, which blocks alone read and write")
        return Step(label, b"", b"", (places[source],), (places[target],), Place(0, 0))
    operands = operands_of(model.main, operator)
    return Step(
        label=label,
        options=operator.custom_options or b"",
        constants=model.buffers[model.main.tensors[operands.constants].buffer].data or b"",
        inputs=tuple(places[tensor] for tensor in operands.inputs),
        outputs=tuple(places[tensor] for tensor in operands.outputs),
        scratch=places[operands.scratch],
        state=places[operands.state[0]] if operands.state else NOWHERE,
    )


# ---- Operators that are left out ----


def _without_ends(
    model: Model, before: Sequence[str], behind: Sequence[str], like: WholeModel | None
) -> tuple[Model, tuple[str, ...]]:
    """Return the model without such operators before and behind its int8 tensors, and a note on each."""
    notes: list[str] = []
    while (end := _end_of(model, before, behind, like)) is not None:
        index, port, number, tensor = end
        side = "behind" if port == "input" else "before"
        notes.append(f"{operator_label(model, index)} is left out: {port} {number} is the int8 tensor {side} it")
        model = _drop(model, index, port, number, tensor)
    return model, tuple(notes)


def _end_of(
    model: Model, before: Sequence[str], behind: Sequence[str], like: WholeModel | None
) -> tuple[int, str, int, int] | None:
    """Return (operator, ``input`` or ``output``, its number, the int8 tensor that takes its place)."""
    graph = model.main
    for index, operator in enumerate(graph.operators):
        name, inputs, outputs = operator_name(model, operator), operator.inputs or (), operator.outputs or ()
        if len(outputs) != 1 or not inputs or len(graph.operators) == 1:
            continue
        source, target = inputs[0], outputs[0]
        is_int8 = {tensor: graph.tensors[tensor].type == TensorType.INT8 for tensor in (source, target)}
        if name in before and is_int8[target] and source in graph.inputs and _uses(graph.operators, source) == 1:
            port = Port("input", graph.inputs.index(source), graph.tensors[source])
            if like is None or not _is_one_of(port, like.inputs):
                return index, port.kind, port.number, target
        if name in behind and is_int8[source] and target in graph.outputs and _uses(graph.operators, target) == 0:
            port = Port("output", graph.outputs.index(target), graph.tensors[target])
            if like is None or not _is_one_of(port, like.outputs):
                return index, port.kind, port.number, source
    return None


def _is_one_of(port: Port, ports: Sequence[tuple[Port, Place]]) -> bool:
    """Return whether the port of the same number has the same form."""
    return any(other.number == port.number and other.form == port.form for other, _ in ports)


def _uses(operators: Iterable[Operator], tensor: int) -> int:
    return sum((operator.inputs or ()).count(tensor) for operator in operators)


def _drop(model: Model, index: int, port: str, number: int, tensor: int) -> Model:
    graph = model.main
    operators = (*graph.operators[:index], *graph.operators[index + 1 :])
    ends = {"input": graph.inputs, "output": graph.outputs}
    ends[port] = (*ends[port][:number], tensor, *ends[port][number + 1 :])
    return replace_main(model, replace(graph, operators=operators, inputs=ends["input"], outputs=ends["output"]))


# ---- Refusals ----


def _require_runnable(model: Model, index: int, advice: str) -> None:
    """Raise UsageError, with advice if there is some, unless an operator is a block or a copy within the arena."""
    operator, label = model.main.operators[index], operator_label(model, index)
    name, inputs, outputs = operator_name(model, operator), operator.inputs or (), operator.outputs or ()
    if name not in RENAMING and name != FUSED_OPERATOR:
        way = f", so the model does not run without TensorFlow Lite Micro: {advice}" if advice else ""
        way = ", and no project of an export registers it" if method(name) is None else way
        raise UsageError(f"{label} is no fused block and becomes none by itself{way}")
    most = OUTSIDE_LIMIT + 1
    if name == FUSED_OPERATOR and inputs and outputs:
        own = operands_of(model.main, operator)
        inputs = (*own.inputs, own.constants)
    if name == FUSED_OPERATOR and not (1 <= len(inputs) <= most and 2 <= len(outputs) <= most):
        raise UsageError(
            f"{label} has {len(inputs)} inputs and {len(outputs)} outputs; the C library takes {most} of each at most, "
            "constants and scratch memory included"
        )
    if name in RENAMING and (not inputs or len(outputs) != 1):
        raise UsageError(f"{label} has no input, or not one output")
    data = inputs[: 1 if name in RENAMING else -1]
    for tensor in (*data, *outputs):
        may_be_constant = name == FUSED_OPERATOR and tensor in data
        is_constant = tensor >= 0 and model.buffers[model.main.tensors[tensor].buffer].data
        if tensor < 0 or model.main.tensors[tensor].is_variable or (is_constant and not may_be_constant):
            raise UsageError(f"{label} reads or writes something that is no tensor of the arena")


def _require_ends_in_arena(model: Model) -> None:
    """Raise UsageError for an input or output that is a constant: its macro would lead to bytes of another tensor."""
    for kind, ends in (("input", model.main.inputs), ("output", model.main.outputs)):
        for tensor in ends:
            if model.buffers[model.main.tensors[tensor].buffer].data:
                raise UsageError(
                    f"{kind} {model.main.tensors[tensor].name} is a constant, which has no place in the arena of a "
                    f"model in C: take it off the model's {kind}s, or export for arduino, platformio or esp-idf"
                )


def _require_known_types(model: Model) -> None:
    graph = model.main
    touched = {
        tensor for operator in graph.operators for tensor in (*(operator.inputs or ())[:1], *(operator.outputs or ()))
    }
    for tensor in sorted({*touched, *graph.inputs, *graph.outputs}):
        entry = graph.tensors[tensor]
        if not entry.is_variable and entry.type not in C_TYPES:
            raise UsageError(
                f"tensor {entry.name} is {type_name(entry.type)}, and the C library reads and writes int8, uint8, "
                "int32 and float32: the model has to be converted anew"
            )
        tensor_nbytes(entry)
