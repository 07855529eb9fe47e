"""Checks one fused block: traces each stage back to an operator of the original and replays the schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import prod

import numpy as np

from tflite_fuse.check.block.constants import Constants
from tflite_fuse.check.block.options import Options
from tflite_fuse.check.block.regions import FLOATS, MATRICES, MOVES, PAIRS, WINDOWED, BlockProgram, block_program
from tflite_fuse.check.block.replay import ScheduleProof, is_memory, replay
from tflite_fuse.check.block.stages import StageView, constant_differences, geometry_differences
from tflite_fuse.check.certificate import BlockProof, Finding
from tflite_fuse.check.original.meaning import Meaning, with_axes_exchanged, with_padding
from tflite_fuse.check.original.meanings import lookups, meaning_of, real_pairs
from tflite_fuse.check.original.values import Original
from tflite_fuse.ir.enums import ElementType, StageKind, Storage
from tflite_fuse.ir.structs import NONE, StageDesc, TensorDesc

_ARITIES = {
    **dict.fromkeys(PAIRS, (2, 2)),
    **dict.fromkeys(MATRICES, (2, 2)),
    StageKind.CONCATENATION: (1, 255),
    StageKind.LSTM: (2, 2),
    StageKind.SOURCE: (0, 0),
}
"""Least and most inputs of a stage; default (1, 1)."""

MOST_PIXELS_ALONE = 1 << 22
"""Most pixels of all tensors of a block whose extents were not compared with the original's."""


@dataclass
class BlockTrace:
    """State and results of tracing a block.

    Attributes:
        label: of its operator in the rewritten model.
        values: tensor of the block → a tensor of the original that holds the same bytes.
        findings, notes: differences, and limits of the claim.
        replaces: labels of the original's operators, in the order of the stages.
        counts: number of compared values, by name.
        traced: number of stages whose geometry matched and whose constants were compared.
        schedule: result of the replay.
    """

    label: str
    values: dict[int, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    replaces: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    traced: int = 0
    schedule: ScheduleProof = field(default_factory=ScheduleProof)

    def report(self, what: str, stage: int | None = None) -> None:
        self.findings.append(Finding(self.label, what, stage=stage))

    def proof(self, options: Options) -> BlockProof:
        header = options.header
        numbers = sum(map(len, (header, *options.tensors, *options.stages, options.stage_inputs)))
        counts = {"options": numbers, **self.counts, "runs of pixels": self.schedule.runs}
        names = tuple(dict.fromkeys(self.replaces))
        tile, runs = (header.tile_height, header.tile_width), tuple(stage.longest_run for stage in options.stages)
        ahead = tuple(number for number, stage in enumerate(options.stages) if stage.runs_ahead)
        values = tuple(self.values.items())
        return BlockProof(self.label, names, options.version, *tile, header.chunk, runs, ahead, counts, values)


def trace_block(
    original: Original, label: str, options: Options, constants: bytes, entering: Mapping[int, int]
) -> BlockTrace:
    """Compare a block with the original.

    Args:
        original: tensors that are found to hold the same bytes are united in it.
        label: of the block's operator.
        options: as stored.
        constants: bytes of the constant tensor.
        entering: tensor of the block that is an input, external or a SOURCE stage's output → a tensor of the original
            that holds its bytes.
    """
    trace = BlockTrace(label, dict(entering))
    for problem in _form_problems(options):
        trace.report(problem)
    if trace.findings:
        return trace
    program = block_program(options)
    for kind_problem in _unused_problems(program):
        trace.report(kind_problem)
    pool = Constants(constants)
    for s in range(len(program.stages)):
        _trace_stage(original, trace, program, s, pool)
    if trace.traced == sum(stage.kind != StageKind.SOURCE for stage in program.stages):
        # Extents equal those of the original's tensors, so the cost of the replay is bounded by the model's size.
        for problem in pool.problems():
            trace.report(problem)
        trace.schedule = replay(program)
        for problem in trace.schedule.problems:
            trace.report(problem)
    elif not trace.findings:
        trace.report("it reads tensors that match none of the original")
    return trace


def schedule_alone(options: Options) -> ScheduleProof:
    """Replay a block's schedule without comparing its stages with the original.

    A block of more than ``MOST_PIXELS_ALONE`` pixels is a problem: a hostile file could name any extents.
    """
    problems = list(_form_problems(options))
    if not problems and sum(tensor.height * tensor.width for tensor in options.tensors) > MOST_PIXELS_ALONE:
        problems.append(f"it has more than {MOST_PIXELS_ALONE:,} pixels to follow")
    return ScheduleProof(problems) if problems else replay(block_program(options))


# ---- Form: conditions for tracing ----


def _form_problems(options: Options) -> Iterator[str]:
    """Yield clauses about stages, tensors and header that contradict each other; none if the block can be traced."""
    tensors, stages = options.tensors, options.stages
    writers = {stage.output: s for s, stage in enumerate(stages)}
    if len(writers) != len(stages):
        yield "two stages write one tensor"
    first = 0
    for s, stage in enumerate(stages):
        inputs = options.stage_inputs[max(0, stage.first_input) :][: max(0, stage.input_count)]
        if stage.first_input != first or len(inputs) != stage.input_count:
            yield f"stage {s} reads inputs {stage.first_input} and following instead of {first}"
            return
        first += stage.input_count
        if not all(0 <= t < len(tensors) for t in (stage.output, *inputs)):
            yield f"stage {s} names a tensor that does not exist"
            return
        if not 0 <= stage.waits_for <= len(tensors):
            yield f"stage {s} waits for a tensor that does not exist"
            return
        if any(writers.get(t, -1) >= s for t in inputs):
            yield f"stage {s} reads what is computed later"
        kind = StageKind(stage.kind) if stage.kind in tuple(StageKind) else None
        mixed = stage.kind in MOVES and any(_is_float(options, t) != _is_float(options, stage.output) for t in inputs)
        if mixed:
            yield f"stage {s} moves values of two types"
        low, high = _ARITIES.get(kind or StageKind.CONV, (1, 1))
        if kind is None or not low <= stage.input_count <= high:
            yield f"stage {s} is of kind {stage.kind} with {stage.input_count} inputs"
            return
    if first != len(options.stage_inputs):
        yield f"{len(options.stage_inputs)} inputs of stages are listed, {first} are read"
    if not 0 <= options.header.driven < len(tensors) or not 0 <= options.header.spatial_stages <= len(stages):
        yield "the header names a tensor or stage that does not exist"
    for t, tensor in enumerate(tensors):
        yield from _tensor_problems(t, tensor, writers.get(t, NONE), is_memory(options, t))
        sourced = t in writers and stages[writers[t]].kind == StageKind.SOURCE
        ring = tensor.storage in (Storage.SCRATCH, Storage.PERSISTENT)
        real, inside = _is_real(options, t, sourced), ring and not sourced
        types = (
            (ElementType.FLOAT32,) if real else (ElementType.INT8,) if inside else (ElementType.INT8, ElementType.UINT8)
        )
        if tensor.element_type not in types:
            yield f"tensor {t} has elements of type {tensor.element_type}"


def _is_real(options: Options, t: int, sourced: bool) -> bool:
    """Return whether a tensor is float32 by its writer, else by all its readers; outputs of a SOURCE by their readers.

    A stage that moves values has the type that the options give its tensors; it is compared with the model's elsewhere.
    """
    readers = [s for s in options.stages if t in _inputs(options, s)]
    writers = [] if sourced else [stage for stage in options.stages if stage.output == t]
    if writers:
        return all(
            _is_float(options, _inputs(options, stage)[0])
            if stage.kind in MOVES
            else stage.kind in (StageKind.DEQUANTIZE, *FLOATS) and stage.kind != StageKind.FLOAT_ARG_MAX
            for stage in writers
        )
    of_floats = [
        _is_float(options, stage.output) if stage.kind in MOVES else stage.kind in (StageKind.QUANTIZE, *FLOATS)
        for stage in readers
    ]
    return bool(of_floats) and all(of_floats)


def _inputs(options: Options, stage: StageDesc) -> tuple[int, ...]:
    return options.stage_inputs[stage.first_input :][: stage.input_count]


def _is_float(options: Options, t: int) -> bool:
    return options.tensors[t].element_type == ElementType.FLOAT32


def _tensor_problems(t: int, tensor: TensorDesc, writer: int, memory: bool) -> Iterator[str]:
    if tensor.storage not in tuple(Storage):
        yield f"tensor {t} has storage {tensor.storage}"
    extents = tensor.height, tensor.width, tensor.channels
    if min(extents) < 1 or max(extents[:2]) > 65535 or prod(extents) >= 1 << 31:
        yield f"tensor {t} is {tensor.height} x {tensor.width} x {tensor.channels}"
    whole = tensor.storage in (Storage.INPUT, Storage.OUTPUT) and tensor.element_type != ElementType.UINT8
    if tensor.region not in (0, 1) or (tensor.region and not whole):
        yield f"tensor {t} lies in memory {tensor.region}"
    if tensor.producer != writer:
        yield f"tensor {t} names stage {tensor.producer} as its writer instead of {writer}"
    written = tensor.storage in (Storage.SCRATCH, Storage.OUTPUT, Storage.PERSISTENT)
    if written != (writer != NONE) and not memory:
        yield f"tensor {t} has storage {tensor.storage} and is {'not ' if writer == NONE else ''}written"


def _unused_problems(program: BlockProgram) -> Iterator[str]:
    """Check that fields without a meaning for a stage's kind hold their default."""
    for s, stage in enumerate(program.stages):
        kind = StageKind(stage.kind)
        plain: dict[str, int] = {}
        if kind not in WINDOWED:
            plain |= dict.fromkeys(("kernel_height", "kernel_width", "stride_height", "stride_width"), 1)
            plain |= dict.fromkeys(("dilation_height", "dilation_width"), 1)
        if kind not in WINDOWED and kind not in (StageKind.PAD, StageKind.STATE):
            plain |= {"pad_top": 0, "pad_left": 0}
        if kind is StageKind.SOURCE:
            plain |= {"depth_multiplier": 1, "activation_min": -128, "activation_max": 127, "weight_layout": 0}
            plain |= dict.fromkeys(("weights_offset", "table_offset", "pad_offset", "accumulator_offset"), NONE)
        for name, value in plain.items():
            if getattr(stage, name) != value:
                yield f"{name} of stage {s}, which its kind does not use, is {getattr(stage, name)} instead of {value}"


# ---- Stages ----


def _trace_stage(original: Original, trace: BlockTrace, program: BlockProgram, s: int, pool: Constants) -> None:
    """Find the original's operator that a stage computes; the stage's output then has the operator's value."""
    desc = program.stages[s]
    kind = StageKind(desc.kind)
    if kind is StageKind.SOURCE:
        return
    inputs = program.inputs[s][:1] if kind is StageKind.LSTM else program.inputs[s]  # not its memory
    if any(t not in trace.values for t in inputs):
        return
    outside = [program.tensors[t] for t in inputs if program.tensors[t].storage == Storage.EXTERNAL]
    tables = StageKind.LOOKUP, StageKind.DEQUANTIZE
    if kind not in tables and any(tensor.element_type == ElementType.UINT8 for tensor in outside):
        trace.report(f"stage {s}, a {kind.name}, reads an external tensor of uint8", s)
    view = StageView(kind, desc, tuple(program.tensors[t] for t in inputs), program.tensors[desc.output], pool)
    if kind is StageKind.PAD and _copies(view):
        trace.values[desc.output] = trace.values[inputs[0]]
        trace.traced += 1
        return
    best: _Compared | None = None
    values = [trace.values[t] for t in inputs]
    if kind is StageKind.LOOKUP:
        meanings = lookups(original, values[0])
    elif kind is StageKind.REAL_PAIR:
        meanings = (each for each in real_pairs(original) if _reads(original, each, values))
    else:
        meanings = _candidates(original, values)
    for meaning in chain.from_iterable(map(partial(_as_read, view), meanings)):
        compared = _compared(view, meaning, original)
        if best is None or compared.severity < best.severity:
            best = compared
        elif not compared.differences:
            original.unite(best.meaning.result, meaning.result)
    if best is None:
        trace.report(f"stage {s}, a {kind.name}, matches no operator of the original with these inputs", s)
        return
    meaning, view = best.meaning, best.view
    pool.adopt(view.constants)
    trace.traced += best.has_geometry
    trace.values[desc.output] = meaning.result
    trace.replaces.append(meaning.step.label)
    trace.notes += [each for each in view.notes if each not in trace.notes]
    for what, number in view.counts.items():
        trace.counts[what] = trace.counts.get(what, 0) + number
    trace.findings += [replace(d, where=trace.label, operator=meaning.step.label, stage=s) for d in best.differences]


def _copies(view: StageView) -> bool:
    """Return whether a PAD adds nothing: the copy of a tensor that outlives the run is written this way."""
    desc, source = view.desc, view.inputs[0]
    bare = (desc.pad_top, desc.pad_left, desc.activation_min, desc.activation_max, desc.depth_multiplier)
    offsets = {desc.weights_offset, desc.table_offset, desc.pad_offset}
    same = source[:4] == view.output[:4]
    return same and bare == (0, 0, -128, 127, 1) and offsets == {NONE} and desc.weight_layout == 0


def _as_read(view: StageView, meaning: Meaning) -> tuple[Meaning, ...]:
    """Return the forms of a meaning that a block may have: upright, and lying where all its tensors are one row.

    A table is indexed by the bytes of an external uint8 tensor, which are off by 128.
    """
    if any(t.storage == Storage.EXTERNAL and t.element_type == ElementType.UINT8 for t in view.inputs):
        half = len(meaning.table) // 2 if meaning.kind is StageKind.DEQUANTIZE else 0
        answers = None if meaning.answers is None else np.roll(meaning.answers, 128)
        meaning = replace(meaning, answers=answers, table=meaning.table[half:] + meaning.table[:half])
    row = with_axes_exchanged(meaning) if all(tensor.height == 1 for tensor in (*view.inputs, view.output)) else meaning
    return (meaning,) if row is meaning else (meaning, row)


@dataclass(frozen=True)
class _Compared:
    """A stage compared with an operator of the original.

    Attributes:
        meaning: the operator.
        view: the stage, with the constants that were read for this operator.
        has_geometry: whether everything but constants is equal.
        differences: all that were found.
    """

    meaning: Meaning
    view: StageView
    has_geometry: bool
    differences: tuple[Finding, ...]

    @property
    def severity(self) -> tuple[bool, int]:
        """Return the sort key of candidates: another kind is worst, then the number of differences."""
        return any(d.what == "stage kind" for d in self.differences), len(self.differences)


def _compared(stage: StageView, meaning: Meaning, original: Original) -> _Compared:
    view = replace(stage, constants=stage.constants.copy(), counts={}, notes=[])
    geometry = tuple(geometry_differences(view, meaning, original))
    # Positions of constants follow from the geometry: with another one they cannot be located.
    constants = () if geometry else constant_differences(view, meaning)
    return _Compared(meaning, view, not geometry, (*geometry, *constants))


def _reads(original: Original, meaning: Meaning, values: Sequence[int]) -> bool:
    return [original.value(t) for t in meaning.sources] == [original.value(t) for t in values]


def _candidates(original: Original, values: list[int]) -> Iterator[Meaning]:
    """Yield the original's operators that read these values, and convolutions with the padding of a PAD in front of
    them."""
    for step in original.readers(values[0]):
        meaning = meaning_of(original, step)
        if meaning is None:
            continue
        if _reads(original, meaning, values):
            yield meaning
        if meaning.kind is StageKind.PAD:
            for reader in original.readers(meaning.result):
                folded = meaning_of(original, reader)
                folded = None if folded is None else with_padding(original, folded, meaning)
                if folded is not None:
                    yield folded
