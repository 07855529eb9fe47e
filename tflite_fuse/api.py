"""The Python interface: load, inspect, rewrite, verify. The command line is a thin skin over it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tflite_fuse.errors import (
    LimitError,
    ModelError,
    PlanError,
    RuntimeUnavailableError,
    UsageError,
    VerificationError,
)
from tflite_fuse.figures import figures, front_report, measured_head, memory_table
from tflite_fuse.fusion.encoding.in_model import KnownBlocks, block_overlaps, outside_reads
from tflite_fuse.fusion.instructions.targets import Target, prediction_error
from tflite_fuse.fusion.lower.outside import inputs_to_move
from tflite_fuse.fusion.search.fusion_front import fusion_front
from tflite_fuse.fusion.search.schemes import Scheme
from tflite_fuse.memory.arena import ArenaOptions
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.overlap import Overlap
from tflite_fuse.memory.plan_check import plan_fault
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.memory.tflm.tail import loading_bytes
from tflite_fuse.model.file import load_model, read_source, save_model, serialize_model
from tflite_fuse.model.outside import InputMode, outside_inputs
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.base import Pass, PassResult, run_passes
from tflite_fuse.passes.fuse import Fuse, FuseResult
from tflite_fuse.passes.goal import NOTHING_RECOMPUTED, Goal
from tflite_fuse.passes.insert_blocks import InsertedBlock
from tflite_fuse.passes.int8_borders import Int8Borders
from tflite_fuse.passes.plan import Plan, PlanResult
from tflite_fuse.passes.reorder import Reorder
from tflite_fuse.passes.sink_transpose import SinkTranspose
from tflite_fuse.report.front import FrontReport
from tflite_fuse.report.inspection import Inspection
from tflite_fuse.report.outside import outside_notes
from tflite_fuse.report.report import BlockReport, Report, Verified
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.compare import Comparison, compare
from tflite_fuse.runtime.inputs import generate_inputs, load_inputs
from tflite_fuse.runtime.streams import Array, PixelSource, make_feed

Source = str | os.PathLike[str] | bytes
Progress = Callable[[str, int, int], None]

DEFAULT_PASSES = ("reorder", "fuse", "plan")
"""What ``rewrite`` runs. Behind ``fuse`` the operators are put in order once more."""

TARGETS = tuple(target.value for target in Target)

SCHEMES = tuple(scheme.value for scheme in Scheme)

INPUT_MODES = tuple(mode.value for mode in InputMode)


@dataclass(frozen=True)
class Result:
    """A rewritten model: the bytes of its .tflite file, and the report."""

    model: bytes
    report: Report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model; the path holds the old content or the whole new one. Raises UsageError."""
        save_model(self.model, path)


def load(source: Source) -> Model:
    """Read and check a model from a path or from bytes. Raises ModelError, UsageError."""
    return load_model(source)


def inspect(source: Source) -> Inspection:
    """What a model needs: figures, the memory table per operator, the bottleneck. Raises ModelError, UsageError."""
    data, model = _read(source)
    name = "model" if isinstance(source, bytes) else str(Path(source))
    known = KnownBlocks()
    rows, notes = memory_table(model, known)
    return Inspection(name, figures(model, data, known=known), rows, notes, outside_inputs(model))


def rewrite(
    source: Source,
    *,
    passes: Sequence[str] = DEFAULT_PASSES,
    goal: Goal | None = None,
    scheme: str = Scheme.AUTO.value,
    tiles: tuple[int, int] | None = None,
    tile_size: tuple[int, int] | None = None,
    input_mode: str = InputMode.RESIDENT.value,
    verify: bool | None = None,
    inputs: int = 16,
    time_limit: float = 30.0,
    in_place: str | None = None,
    overlap: bool = True,
    strips: bool = True,
    int8_io: bool = False,
    target: str | None = None,
    progress: Progress | None = None,
) -> Result:
    """Make a model need less RAM and compute the same bytes.

    Args:
        source: path or bytes of a .tflite file.
        passes: names of the passes to run, in order.
        goal: what to reach; None for next to the least RAM that recomputes nothing (see ``Goal``).
        scheme: which fused blocks are allowed, a published scheme's name or ``auto``.
        tiles: number of tiles along height and width of the scheme ``inverted-residual``, 8 x 8 by default.
        tile_size: height and width of such a tile in pixels, instead of their number.
        input_mode: where the model's inputs are on the device: ``resident`` in the arena; ``streamed``, handed out row
            by row by a function, like a camera; ``external``, in memory of the user's. Inputs that are not resident
            leave the model; the report's ``outside`` tells of them.
        verify: compare both models in TFLM; None does so where it is installed.
        inputs: number of inputs to verify on.
        time_limit: seconds each search may take before it answers with its best so far.
        in_place: kernel set whose operators may overwrite their input; None for no such sharing.
        overlap: let fused blocks write their output over input they need no more.
        strips: let fused blocks run in strips that compute some columns twice, for the scheme ``auto``.
        int8_io: make float32 inputs and outputs int8 where only a QUANTIZE or DEQUANTIZE is between; verification
            then gives the int8 model what QUANTIZE makes of the floats, and compares after DEQUANTIZE.
        target: the core, one of ``TARGETS``, whose predicted instructions the goal's compute counts, longer runs of
            pixels being cheaper; None counts MACs. Without a goal it may take as much more than the unfused model as
            such predictions are off on average.
        progress: called with (step, done, total).

    Raises:
        ModelError: the model is damaged.
        UsageError: unknown pass, scheme or target, unreadable path.
        LimitError: the goal cannot be reached, or no input can leave the arena.
        VerificationError: the rewritten model does not compute the same bytes (a defect of this package).
        RuntimeUnavailableError: verification was asked for and no runtime is installed.
    """
    data, model = _read(source)
    goal = _goal(goal, scheme, tiles or tile_size, passes, target)
    overlap = overlap and "plan" in passes
    budget, known = Budget(seconds=time_limit), KnownBlocks()
    arena = ArenaOptions(in_place, planned="plan" in passes)
    order = Reorder(time_limit=time_limit, in_place=in_place)
    fuse = Fuse(
        goal,
        _scheme(scheme),
        tiles,
        tile_size,
        _input_mode(input_mode, passes),
        overlap=overlap,
        strips=strips,
        order=order if "reorder" in passes else None,
        arena=arena,
        budget=budget,
        known=known,
        target=_target(target),
    )
    steps = _make_passes(passes, order, fuse)
    if int8_io:
        steps.insert(0, Int8Borders())
    rewritten, results = run_passes(model, steps)
    output = serialize_model(rewritten)
    sound = plan_fault(model, block_overlaps(model, known)) is None
    files = data if sound else serialize_model(remove_plan(model)), output
    verified, why_not = _verify_rewrite((model, rewritten), files, known, verify, inputs, progress)
    planned = next((result.arena for result in results if isinstance(result, PlanResult)), None)
    before, after = figures(model, data, known=known), figures(rewritten, output, planned, known)
    if goal.max_ram is not None and after.arena_bytes > goal.max_ram:
        raise LimitError(
            f"an arena of {goal.max_ram:,} bytes cannot be reached with the passes {', '.join(passes)}: "
            f"the rewritten model needs {after.arena_bytes:,} bytes"
        )
    outside = outside_inputs(rewritten)
    report = Report(
        before=before,
        after=after,
        estimate_bytes=_estimate(results),
        compute_factor=round(after.macs / before.macs, 6) if before.macs else 1.0,
        optimal=_optimal(results),
        verified=verified,
        notes=(
            *(note for result in results for note in result.notes),
            *outside_notes(outside, outside_reads(rewritten, known)),
            *_loading_note(rewritten, after.arena_bytes),
            *why_not,
        ),
        blocks=tuple(_block_report(block) for r in results if isinstance(r, FuseResult) for block in r.blocks),
        outside=outside,
        prediction=next((r.prediction for r in reversed(results) if isinstance(r, FuseResult)), None),
    )
    return Result(output, report)


def pareto(
    source: Source,
    *,
    scheme: str = Scheme.AUTO.value,
    tiles: tuple[int, int] | None = None,
    tile_size: tuple[int, int] | None = None,
    input_mode: str = InputMode.RESIDENT.value,
    overlap: bool = True,
    strips: bool = True,
    int8_io: bool = False,
    target: str | None = None,
) -> FrontReport:
    """All (RAM, MACs) points of a model that nothing beats, with the blocks that reach them.

    RAM is the arena the search expects, head and tail on a 32-bit target. ``rewrite`` may do a little better: it also
    tries strips in bands, whose arena only planning can tell. Arguments are those of ``rewrite``.

    Raises:
        ModelError, UsageError: the model or the scheme cannot be used.
        LimitError: no input can leave the arena.
    """
    model, mode = remove_plan(load_model(source)), _input_mode(input_mode)
    model = Int8Borders().run(model).model if int8_io else model
    moved, _ = inputs_to_move(model, mode)
    core = _target(target)
    fuse = Fuse(
        scheme=_scheme(scheme),
        tiles=tiles,
        tile_size=tile_size,
        input_mode=mode,
        overlap=overlap,
        strips=strips,
        target=core,
    )
    name = "model" if isinstance(source, bytes) else str(source)
    front = fusion_front(model, fuse.search_options(moved))
    return front_report(model, name, front, core)


def run(source: Source, inputs: Sequence[Array | PixelSource]) -> list[Array]:
    """Run a model once in TFLM, fused ones with the C library compiled for this machine.

    Args:
        source: path or bytes of a .tflite file.
        inputs: one array per input the original model had, of its shape and type, wherever the input is now. For a
            streamed input also a function ``(y, x, count)`` that returns ``count`` pixels of row ``y`` from column
            ``x`` on, as int8 array or bytes; it is asked from top to bottom, and for no pixel twice.

    Returns:
        The model's outputs.

    Raises:
        ModelError: the model is damaged, or the runtime refuses it.
        UsageError: an input does not fit, or a function gives too few pixels.
        RuntimeUnavailableError: no runtime is installed.
        Exception: whatever a function raises.
    """
    data, model = _read(source)
    feed = make_feed(model, inputs)
    return tflm.run(data, [feed.inputs], [feed.outside]).outputs[0]


def verify(
    a: Source,
    b: Source,
    *,
    inputs: int = 16,
    data: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Run two models in TFLM and compare their outputs byte by byte.

    Inputs of either that lie outside the arena are given there: a streamed one by a source that hands out each pixel
    once.

    Args:
        a, b: paths or bytes of .tflite files.
        inputs: number of generated inputs: edge values first, then random ones.
        data: an .npz file with the user's own inputs, instead of generated ones.
        progress: called with (step, done, total).

    Raises:
        ModelError, UsageError: a model or the data cannot be used.
        VerificationError: the models have different inputs or outputs.
        PlanError: the offline plan of one lets its tensors overwrite each other, so that what it computes is chance.
        RuntimeUnavailableError: no runtime is installed.
    """
    (first_bytes, first), (second_bytes, second) = _read(a), _read(b)
    names = tuple(f"model {letter}" if isinstance(s, bytes) else str(s) for letter, s in (("A", a), ("B", b)))
    for name, each in zip(names, (first, second), strict=True):
        if (fault := plan_fault(each, block_overlaps(each))) is not None:
            raise PlanError(f"{name}: the offline memory plan is unsound: {fault}")
    return compare(
        first_bytes,
        second_bytes,
        load_inputs(Path(data), first) if data is not None else generate_inputs(first, inputs),
        names=(names[0], names[1]),
        models=(first, second),
        progress=_counted(progress),
    )


def _read(source: Source) -> tuple[bytes, Model]:
    """The file, read once, and the model in it."""
    data = read_source(source)
    return data, load_model(data, "the model" if isinstance(source, bytes) else str(source))


def _counted(progress: Progress | None) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress("input", done, total)


def _scheme(name: str) -> Scheme:
    try:
        return Scheme(name)
    except ValueError as error:
        names = ", ".join(scheme.value for scheme in Scheme)
        raise UsageError(f"there is no scheme {name!r}; the schemes are {names}") from error


def _input_mode(name: str, passes: Sequence[str] = DEFAULT_PASSES) -> InputMode:
    if name not in INPUT_MODES:
        raise UsageError(f"inputs cannot be {name!r}; they can be {', '.join(INPUT_MODES)}")
    if name != InputMode.RESIDENT.value and "fuse" not in passes:
        raise UsageError(f"inputs that are {name} are read by fused blocks: the fuse pass must run")
    return InputMode(name)


def _target(name: str | None) -> Target | None:
    if name is not None and name not in TARGETS:
        raise UsageError(f"{name!r} is no target; choose from {', '.join(TARGETS)}")
    return None if name is None else Target(name)


def _goal(
    goal: Goal | None, scheme: str, tiles: tuple[int, int] | None, passes: Sequence[str], target: str | None
) -> Goal:
    goal = goal or Goal()
    if "fuse" not in passes:
        if tiles is not None:
            raise UsageError("tiles are those of fused blocks: the fuse pass must run")
        if target is not None:
            raise UsageError("instructions are predicted for fused blocks: the fuse pass must run")
        if goal.least_ram or goal.max_compute is not None:
            raise UsageError("a trade of RAM for compute is what fused blocks offer: the fuse pass must run")
        if scheme != Scheme.AUTO.value:
            raise UsageError(f"{scheme} is a scheme of fused blocks: the fuse pass must run")
    core = _target(target)
    if core is not None and goal == NOTHING_RECOMPUTED:
        return Goal(max_compute=1 + prediction_error(core).mean)
    return goal


def _make_passes(names: Sequence[str], reorder: Reorder, fuse: Fuse) -> list[Pass]:
    measured = replace(fuse.arena, measure=lambda model: measured_head(serialize_model(model)))

    def overlaps(model: Model) -> tuple[Overlap, ...]:
        return block_overlaps(model, fuse.known)

    made: dict[str, list[Pass]] = {
        "reorder": [reorder],
        "fuse": [SinkTranspose(), fuse],
        "plan": [Plan(measured, overlaps if fuse.overlap else None, fuse.budget)],
    }
    unknown = [name for name in names if name not in made]
    if unknown:
        raise UsageError(f"there is no pass {unknown[0]!r}; the passes are {', '.join(made)}")
    if "plan" in names and names[-1] != "plan":
        raise UsageError("the plan pass must be the last one: its offsets belong to the order of operators and tensors")
    if len(set(names)) != len(names):
        raise UsageError("a pass is named twice")
    return [step for name in names for step in made[name]]


def _optimal(results: Sequence[PassResult]) -> dict[str, bool]:
    """Of several runs of a pass the last one counts."""
    ordered = [result.ordered for result in results if isinstance(result, FuseResult) and result.ordered is not None]
    return {
        result.proves: result.optimal for result in [*results, *ordered] if result.proves and result.optimal is not None
    }


def _estimate(results: Sequence[PassResult]) -> int | None:
    points = [result.point for result in results if isinstance(result, FuseResult) and result.point is not None]
    return points[-1].ram_bytes if points else None


def _loading_note(model: Model, arena: int) -> tuple[str, ...]:
    """What small models need beyond head and tail."""
    loading = loading_bytes(model)
    if loading <= arena:
        return ()
    return (f"while it loads, the runtime needs {loading:,} bytes for a moment: allocate so many, not {arena:,}",)


def _block_report(inserted: InsertedBlock) -> BlockReport:
    choice = inserted.choice
    return BlockReport(
        operators=inserted.labels,
        input=inserted.input,
        output=inserted.output,
        scheme=choice.scheme,
        strip_width=choice.config.tile_width,
        band_height=choice.config.tile_height,
        scratch_bytes=inserted.plan.schedule.scratch_bytes,
        macs=inserted.plan.schedule.macs,
        extra_macs=inserted.extra_macs,
    )


def _verify_rewrite(
    models: tuple[Model, Model],
    files: tuple[bytes, bytes],
    known: KnownBlocks,
    wanted: bool | None,
    inputs: int,
    progress: Progress | None,
) -> tuple[Verified | None, list[str]]:
    if wanted is False:
        return None, []
    if wanted is None and not tflm.available():
        return None, ["not verified: TensorFlow Lite Micro is not installed (pip install 'tflite-fuse[verify]')"]
    try:
        comparison = compare(
            *files,
            generate_inputs(models[0], inputs),
            names=("model A", "model B"),
            models=models,
            known=known,
            progress=_counted(progress),
        )
    except ModelError as error:
        raise ModelError(f"it cannot be verified: {error}; with --no-verify it is rewritten all the same") from error
    except RuntimeUnavailableError as error:
        if wanted:
            raise
        return None, [f"not run on this machine: {error}"]
    if comparison.first_difference is not None:
        raise VerificationError(
            f"the rewritten model does not compute the same bytes: {comparison.first_difference}; nothing was written"
        )
    rights = tflm.unconfined()
    notes = [f"the runtime ran with rights it does not need: {rights}"] if rights else []
    return Verified(comparison.runtime, comparison.version, comparison.inputs, comparison.bit_exact), notes
