"""Memory and compute figures of a model, and its memory table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from tflite_fuse.cost.instructions import LONGEST, Target, block_instructions, in_instructions
from tflite_fuse.emit.in_model import block_overlaps, blocks_in, executed_macs, outside_reads
from tflite_fuse.emit.slow import Traffic, traffic_of
from tflite_fuse.errors import ModelError, PlanError, RuntimeUnavailableError, TfliteFuseError
from tflite_fuse.ir.liveness import bytes_before_start, covered_bytes, working_sets
from tflite_fuse.ir.program import FUSED_OPERATOR, program_of
from tflite_fuse.memory.arena import Arena, ArenaOptions, with_given_offsets
from tflite_fuse.memory.checker import plan_fault
from tflite_fuse.memory.tflm.apart import arenas_apart
from tflite_fuse.memory.tflm.offline_plan import read_plan, remove_plan
from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME, runtime_named
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.memories import Memories, slow_bytes, slow_tensors
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.outside import InputMode, outside_inputs
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType, type_name
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.lowering.extract import fusability
from tflite_fuse.passes.pipeline import prepared
from tflite_fuse.report.inspection import Inspection, OperatorRow
from tflite_fuse.report.report import Figures, MemoryReport
from tflite_fuse.runtime import tflm
from tflite_fuse.search.from_model import graph_from_model


def measured_head(data: bytes) -> int | None:
    """Return the head bytes that TFLM uses for a model; None if it is not installed or cannot load the model."""
    if not tflm.available():
        return None
    try:
        return tflm.measure(data).head_bytes
    except (ModelError, RuntimeUnavailableError):
        return None


def memory_report(rewritten: Model, arena_bytes: int, memories: Memories) -> MemoryReport:
    """Return the bytes of a rewritten model in a fast memory, which has its arena, and in a slow one."""
    slow_memory = slow_tensors(rewritten)
    offsets = {} if slow_memory is None else slow_memory.offsets
    traffic = sum(map(traffic_of, blocks_in(rewritten).values()), Traffic())
    return MemoryReport(
        fast=memories.fast.name,
        slow=memories.slow.name,
        fast_bytes=arena_bytes,
        slow_bytes=slow_bytes(rewritten),
        fast_room=memories.fast.nbytes,
        slow_room=memories.slow.nbytes,
        tensors=tuple(rewritten.main.tensors[each].name or "" for each in offsets),
        read_bytes=traffic.read,
        written_bytes=traffic.written,
        cycles=round(traffic.read * memories.slow.read_cycles + traffic.written * memories.slow.write_cycles),
    )


def refusal(data: bytes) -> str | None:
    """Return TFLM's reason for refusing a model; None if it loads it, or is not installed."""
    if not tflm.available():
        return None
    try:
        tflm.measure(data)
    except ModelError as error:
        return str(error)
    except RuntimeUnavailableError:
        return None
    return None


def arena_in_file(model: Model, data: bytes, runtime: str = DEFAULT_RUNTIME) -> Arena:
    """Return the arena of a model with the offsets in its file, measured if that runtime is installed here.

    Args:
        model: a model as loaded.
        data: its file.
        runtime: name of the runtime on the device.

    Raises:
        UsageError: there is no runtime of that name.
    """
    measure = None if runtime != DEFAULT_RUNTIME else lambda _: measured_head(data)
    options = ArenaOptions(measure=measure, build=runtime_named(runtime).build)
    return with_given_offsets(program_of(model), block_overlaps(model), options, read_plan(model))


def figures(model: Model, data: bytes, arena: Arena, runtime: str = DEFAULT_RUNTIME) -> Figures:
    """Return the figures of a model.

    Args:
        model: a model as loaded.
        data: its file.
        arena: of the model.
        runtime: name of the runtime on the device.

    Raises:
        ModelError: an arena tensor has a dynamic shape or elements without a size.
        UsageError: there is no runtime of that name.
    """
    apart = arenas_apart(program_of(model), arena.head, runtime_named(runtime).build, read_plan(model))
    return Figures(
        peak_bytes=max(bytes_before_start(program_of(model)), *_live_bytes(model), 0),
        lower_bound_bytes=arena.proof.bound_bytes,
        head_bytes=arena.head,
        head_source=tflm.RUNTIME_NAME if arena.measured else "computed",
        tail_bytes=arena.tail,
        arena_bytes=arena.needed,
        arena_used_bytes=arena.total,
        loading_bytes=arena.while_loading,
        persistent_bytes=apart.persistent,
        activations_bytes=apart.activations,
        macs=sum(executed_macs(model)),
        operators=len(model.main.operators),
        file_bytes=len(data),
    )


def _live_bytes(model: Model) -> list[int]:
    """Return the bytes live while each operator runs; bytes that a plan shares between tensors count once."""
    graph = program_of(model)
    with suppress(PlanError):
        offsets = read_plan(model)
        return working_sets(graph) if offsets is None else covered_bytes(graph, offsets)
    return working_sets(graph)


def memory_table(model: Model) -> tuple[tuple[OperatorRow, ...], tuple[Note, ...]]:
    """Return one row per operator of the main subgraph, and notes about the table's limits.

    Args:
        model: a model as loaded.

    Raises:
        ModelError: a block, or the metadata of inputs outside the arena, is damaged.
    """
    graph, reasons = program_of(model), fusability(model)
    sets, macs = _live_bytes(model), executed_macs(model)
    highest = max(bytes_before_start(graph), *sets, 0)
    rows = []
    for index, operator in enumerate(model.main.operators):
        output = model.main.written_by(operator)
        rows.append(
            OperatorRow(
                index=index,
                name=graph.steps[index].name,
                output=(output.name or "") if output else "",
                shape=output.dims if output else (),
                working_set_bytes=sets[index],
                macs=macs[index],
                bottleneck=sets[index] == highest,
                blocked=None if operator_name(model, operator) == FUSED_OPERATOR else reasons[index],
            )
        )
    notes = list(outside_notes(model))
    fault = plan_fault(model, block_overlaps(model))
    if fault is not None:
        notes.append(note("warned", "unsound plan", why=fault))
    if len(model.subgraphs) > 1:
        notes.append(note("limited", "first subgraph", count=len(model.subgraphs)))
    return tuple(rows), tuple(notes)


_ORDERS = {InputMode.STREAMED: "row by row", InputMode.COLUMNS: "column by column", InputMode.EXTERNAL: "in any order"}


def outside_notes(model: Model) -> Iterator[Note]:
    """Yield a note per input outside the arena, and one per number where the file's metadata and its blocks disagree.

    Raises:
        ModelError: the metadata or a block is damaged.
    """
    entries, read = outside_inputs(model), outside_reads(model)
    for entry in entries:
        how = f"source {entry.number}" if entry.mode.streams else f"external tensor {entry.number}"
        order = _ORDERS[entry.mode]
        real = entry.type == TensorType.FLOAT32
        yield note(
            "changed",
            "input outside the arena",
            tensor=entry.name,
            type=type_name(entry.type),
            shape=str(list(entry.shape)),
            quantization="" if real else f", scale {entry.scale:g}, zero point {entry.zero_point}",
            mode=entry.mode.value,
            rows=entry.rows,
            columns=entry.columns,
            channels=entry.channels,
            elements="floats" if real else "bytes",
            order=order,
            source=how,
        )
    streamed = InputMode.STREAMED
    listed = {each.number: (streamed if each.mode.streams else each.mode, each.nbytes) for each in entries}
    for number in sorted(listed.keys() | read.keys()):
        if listed.get(number) != read.get(number):
            says, does = (_described(each.get(number)) for each in (listed, read))
            yield note("warned", "metadata", number=number, says=says, does=does)


def _described(read: tuple[InputMode, int] | None) -> str:
    return "nothing" if read is None else f"{read[1]:,} {read[0].value} bytes"


def without_replaced(model: Model, inspection: Inspection) -> Inspection:
    """Return an inspection without the blocked mark on operators that a rewrite replaces before it makes blocks.

    A shuffle of channels over five dimensions becomes a GATHER, variables of a stream become rings. Operators of the
    prepared model that stay outside blocks are matched by their outputs, which are named by their numbers; operators
    without an output stay blocked as long as one of the prepared model's is.
    """
    if not any(row.blocked for row in inspection.operators):
        return inspection
    try:
        numbered = tuple(replace(tensor, name=str(number)) for number, tensor in enumerate(model.main.tensors))
        remaining = prepared(replace_main(model, replace(model.main, tensors=numbered)), states=True)
    except TfliteFuseError:  # out of budget: nothing is replaced
        return inspection
    outside = zip(remaining.main.operators, fusability(remaining), strict=True)
    written = [remaining.main.written_by(operator) for operator, reason in outside if reason is not None]
    blocked = {"-1" if tensor is None else tensor.name for tensor in written}
    rows = zip(inspection.operators, model.main.operators, strict=True)
    marked = (row if str(operator.output) in blocked else replace(row, blocked=None) for row, operator in rows)
    return replace(inspection, operators=tuple(marked))


def expected_instructions(model: Model, target: Target) -> int:
    """Return the predicted instructions of one inference: blocks as they are, other operators in the device library.

    Raises:
        ModelError: an arena tensor has a dynamic shape, or a block is damaged.
    """
    bare = remove_plan(model)
    blocks = blocks_in(bare)
    layers = in_instructions(graph_from_model(bare, macs=executed_macs(bare)), target, LONGEST).steps
    alone = sum(layer.work for index, layer in enumerate(layers) if index not in blocks)
    return alone + block_instructions([(plan.block, plan.schedule) for plan in blocks.values()], target)
