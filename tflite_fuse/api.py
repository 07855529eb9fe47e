"""The Python interface: load, inspect, rewrite, verify. The command line is a thin skin over it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tflite_fuse.cost.instructions import Target
from tflite_fuse.emit.in_model import with_plans
from tflite_fuse.errors import UsageError
from tflite_fuse.memory.budget import heard_by
from tflite_fuse.model.file import Source, load_model, read_source, save_model
from tflite_fuse.model.outside import InputMode, outside_inputs
from tflite_fuse.model.schema import Model
from tflite_fuse.notes import note
from tflite_fuse.passes.goal import Goal, checked
from tflite_fuse.passes.options import DEFAULT_PASSES, hop_of, read_options
from tflite_fuse.report.front import FrontReport
from tflite_fuse.report.inspection import Inspection
from tflite_fuse.report.report import Report
from tflite_fuse.rewriting.figures import arena_in_file, figures, memory_table, refusal, without_replaced
from tflite_fuse.rewriting.rewrite import rewrite_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.comparison import Comparison
from tflite_fuse.runtime.streams import Array, PixelSource, make_feed
from tflite_fuse.search.schemes import Scheme

Progress = Callable[[str, int, int], None]

TARGETS = tuple(target.value for target in Target)

SCHEMES = tuple(scheme.value for scheme in Scheme)

INPUT_MODES = tuple(mode.value for mode in InputMode)


@dataclass(frozen=True)
class Result:
    """A rewritten model: the bytes of its .tflite file, and the report."""

    model: bytes
    report: Report

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model; the path holds the old content or the whole new one. Raises UsageError."""
        save_model(self.model, path)


@checked
def load(source: Source) -> Model:
    """Read and check a model from a path or from bytes. Raises ModelError, UsageError."""
    return load_model(source)


@checked
def inspect(source: Source, *, name: str | None = None) -> Inspection:
    """What a model needs: figures, the memory table per operator, the bottleneck.

    Args:
        source: path or bytes of a .tflite file.
        name: what to call it; its path unless given.

    Raises:
        ModelError, UsageError: the model cannot be used.
    """
    data, model = _read(source, name)
    if name is None:
        name = _name(source) or "model"
    return without_replaced(model, look(model, data, name))


def look(model: Model, data: bytes, name: str) -> Inspection:
    """Inspect a model that is loaded, as ``inspect`` does."""
    model = with_plans(model)
    rows, notes = memory_table(model)
    found = figures(model, data, arena_in_file(model, data))
    rights = tflm.unconfined() if found.head_source == tflm.RUNTIME_NAME else ""
    if rights:
        notes = (*notes, note("warned", "rights", rights=rights))
    why = None if found.head_source == tflm.RUNTIME_NAME else refusal(data)
    notes = notes if why is None else (*notes, note("warned", "runtime refuses", why=why))
    return Inspection(name, found, rows, notes, outside_inputs(model))


@checked
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
    seed: int | None = None,
    time_limit: float | None = None,
    in_place: str | None = None,
    overlap: bool = True,
    strips: bool = True,
    int8_io: bool = False,
    stream_time: int | None = None,
    stream_axis: str | None = None,
    target: str = Target.GENERIC.value,
    cost: str = "macs",
    weights: str = "auto",
    advise: bool = False,
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
        verify: compare both models in TFLM; None does so where it is installed and runs the original. That constants,
            options and schedule are the original's is proven in any case.
        inputs: number of inputs to verify on: edge values, random ones, and ones that were searched for.
        seed: of the random ones and of the search; None for one that the file gives. The report's notes name it.
        time_limit: seconds until the searches answer with their best so far, which then may differ from machine to
            machine; None lets them take a fixed amount of work.
        in_place: kernel set whose operators may overwrite their input; None for no such sharing.
        overlap: let fused blocks write their output over input they need no more.
        strips: let fused blocks run in strips that compute some columns twice, for the scheme ``auto``.
        int8_io: make float32 and uint8 inputs and outputs int8 where only a QUANTIZE or DEQUANTIZE is between;
            verification then gives the int8 model what QUANTIZE makes of its input, and compares after DEQUANTIZE.
        stream_time: make a stream of a model over a window that is called again every so many new steps.
        stream_axis: ``height`` or ``width``, along which steps lie; None for whichever is longer than 1.
        target: the core, one of ``TARGETS``, whose instructions are predicted and made few where RAM is left.
        cost: what the goal's compute is counted in: ``macs``, or ``instructions`` as predicted for ``target``.
        weights: ``8bit``; for cores with the DSP extension ``paired``, two weights in 16 bits, or ``16bit``: twice the
            flash, fewest instructions there; ``auto``: ``paired`` for a target that has the extension, else ``8bit``.
        advise: also work out what other options would bring (``Report.advice``), or which keep a limit out of reach.
        progress: called with (what is counted, done, total); a total of 0 is not known.

    Raises:
        ModelError: the model is damaged.
        UsageError: unknown pass, scheme or target, unreadable path.
        LimitError: the goal cannot be reached, or no input can leave the arena.
        VerificationError: the rewritten model does not compute the same bytes (a defect of this package).
        RuntimeUnavailableError: verification was asked for and no runtime is installed.
    """
    options = read_options(
        passes=passes,
        goal=goal,
        scheme=scheme,
        tiles=tiles,
        tile_size=tile_size,
        input_mode=input_mode,
        overlap=overlap,
        strips=strips,
        int8_io=int8_io,
        stream=hop_of(stream_time, stream_axis),
        target=target,
        cost=cost,
        weights=weights,
        in_place=in_place,
        time_limit=time_limit,
    )
    _require_seed(seed)
    data, model = _read(source)
    make = rewrite_model
    if advise:
        from tflite_fuse.rewriting.advice import rewrite_with_advice as make
    with heard_by(progress):
        return Result(*make(model, data, options, verify, inputs, seed, _counted(progress)))


@checked
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
    stream_time: int | None = None,
    stream_axis: str | None = None,
    target: str = Target.GENERIC.value,
    cost: str = "macs",
) -> FrontReport:
    """Trades of RAM for compute of a model, with the blocks that reach them.

    RAM is the arena, head and tail on a 32-bit target, as ``rewrite`` places it; what is kept from call to call is in
    it. Arguments are those of ``rewrite``. Compute is that of the model as it is: of a stream, the windowed one.

    Raises:
        ModelError, UsageError: the model or the scheme cannot be used.
        LimitError: no input can leave the arena, or the model can be no stream.
    """
    from tflite_fuse.rewriting.trades import trades

    options = read_options(
        goal=Goal(least_ram=True),
        scheme=scheme,
        tiles=tiles,
        tile_size=tile_size,
        input_mode=input_mode,
        overlap=overlap,
        strips=strips,
        int8_io=int8_io,
        stream=hop_of(stream_time, stream_axis),
        target=target,
        cost=cost,
    )
    return trades(load_model(source), options, "model" if isinstance(source, bytes) else str(source))


@checked
def metrics(
    source: Source,
    *,
    effort: str = "estimate",
    goal: Goal | None = None,
    max_flash: int | None = None,
    scheme: str = Scheme.AUTO.value,
    input_mode: str = InputMode.RESIDENT.value,
    int8_io: bool = False,
    target: str = Target.GENERIC.value,
    cost: str = "macs",
) -> dict[str, float]:
    """What ``rewrite`` would reach, as flat numbers that are described in ``schemas/metrics.schema.json``.

    A model that cannot meet the goal is no error: ``feasible`` is 0 then, and ``ram_over_bytes``,
    ``flash_over_bytes``, ``compute_over`` and ``input_over_bytes`` say how far off the nearest rewrite is.

    Args:
        source: path or bytes of a .tflite file.
        effort: ``exact`` rewrites the model (proven, not run) and tells its figures. ``estimate`` takes a fraction of a
            second, asks no runtime and writes nothing: docs/pipelines.md says how far it is off.
        max_flash: bytes the file may have.
        goal, scheme, input_mode, int8_io, target, cost: as for ``rewrite``.

    Raises:
        ModelError: the model is damaged.
        UsageError: unknown names, an unreadable path.
    """
    from tflite_fuse.pipelines.metrics import model_metrics

    options = read_options(goal=goal, scheme=scheme, input_mode=input_mode, int8_io=int8_io, target=target, cost=cost)
    data, model = _read(source)
    return model_metrics(model, data, options, effort, max_flash)


@checked
def run(source: Source, inputs: Sequence[Array | PixelSource]) -> list[Array]:
    """Run a model once in TFLM, fused ones with the C library compiled for this machine.

    Args:
        source: path or bytes of a .tflite file.
        inputs: one array per input the original model had, of its shape and type, wherever the input is now. For a
            streamed input also a function ``(y, x, count)`` that returns ``count`` pixels of row ``y`` from column
            ``x`` on, as int8 array or bytes; it is asked from top to bottom, for no pixel twice.

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


@checked
def verify(
    a: Source,
    b: Source,
    *,
    inputs: int = 16,
    seed: int | None = None,
    data: str | os.PathLike[str] | None = None,
    mutants: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Run two models in TFLM and compare their outputs byte by byte; where one was made of the other, prove it as well.

    The second is taken for a rewrite of the first if it has fused blocks the first has not, or is proven to be one.
    Then it is decoded and compared with the first, number by number, which needs no runtime: where there is none, or
    where it refuses the first model, the proof stands alone and the result says why.

    Inputs of either that lie outside the arena are given there: a streamed one by a source that hands out each pixel
    once.

    Args:
        a, b: paths or bytes of .tflite files.
        inputs: number of generated inputs: edge values first, then random ones, then ones that were searched for.
        seed: of the random ones and of the search; None for any. The result has it.
        data: an .npz file with the user's own inputs, instead of generated ones.
        mutants: how many weights of blocks to change by one, to find out how many of them running would notice.
        progress: called with (what is counted, done, total); a total of 0 is not known.

    Raises:
        ModelError, UsageError: a model or the data cannot be used.
        VerificationError: the models have different inputs or outputs.
        PlanError: the offline plan of one lets its tensors overwrite each other, so that what it computes is chance.
        RuntimeUnavailableError: no runtime is installed.
    """
    from tflite_fuse.pipelines.verifying import Pair, verify_pair

    _require_seed(seed)
    (first_bytes, first), (second_bytes, second) = _read(a), _read(b)
    names = _name(a) or "model A", _name(b) or "model B"
    pair = Pair(names, (first_bytes, second_bytes), (first, second), _counted(progress))
    return verify_pair(pair, inputs, seed, None if data is None else Path(data), mutants)


def _read(source: Source, name: str | None = None) -> tuple[bytes, Model]:
    """The file, read once, and the model in it."""
    data = read_source(source)
    return data, load_model(data, name or _name(source) or "the model")


def _name(source: Source) -> str:
    """The path; nothing for bytes."""
    return str(Path(source)) if isinstance(source, (str, os.PathLike)) else ""


def _require_seed(seed: int | None) -> None:
    if seed is not None and seed < 0:
        raise UsageError(f"seed is 0 or more, not {seed}")


def _counted(progress: Progress | None) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress("inputs compared", done, total)
