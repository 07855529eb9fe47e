"""The Python interface: load, inspect, rewrite, verify. The command line calls it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tflite_fuse.converting.convert import Converted as Converted
from tflite_fuse.converting.convert import convert as convert
from tflite_fuse.cost.instructions import Target
from tflite_fuse.emit.in_model import load_with_plans, with_plans
from tflite_fuse.errors import TfliteFuseError, UsageError
from tflite_fuse.memory.budget import reporting_to
from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME
from tflite_fuse.model.file import Source, load_model, read_source, save_model
from tflite_fuse.model.outside import InputMode, outside_inputs
from tflite_fuse.model.schema import Model
from tflite_fuse.notes import note
from tflite_fuse.passes.declared import checked, takes, words
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import DEFAULT_PASSES as DEFAULT_PASSES
from tflite_fuse.passes.options import FuseOptions, MetricsOptions, Progress, RewriteOptions
from tflite_fuse.report.front import FrontReport
from tflite_fuse.report.inspection import Inspection
from tflite_fuse.report.report import Report
from tflite_fuse.rewriting.figures import arena_in_file, figures, memory_table, refusal, without_replaced
from tflite_fuse.rewriting.quantized import conversion_offer
from tflite_fuse.rewriting.rewrite import rewrite_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.comparison import Comparison
from tflite_fuse.runtime.streams import Array, PixelSource, make_feed
from tflite_fuse.search.schemes import Scheme

TARGETS, SCHEMES, INPUT_MODES = words(Target), words(Scheme), words(InputMode)


@dataclass(frozen=True)
class Result:
    """A rewritten model: the bytes of its .tflite file, and the report."""

    model: bytes
    report: Report

    def _repr_html_(self) -> str:
        from tflite_fuse.report.arena_map import arena_map  # for notebooks alone
        from tflite_fuse.report.picture import arena_picture

        picture = ""
        with contextlib.suppress(TfliteFuseError):  # such as a dynamic shape: there is no arena to draw
            picture = arena_picture(arena_map(load_model(self.model)))
        return self.report._repr_html_() + picture

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model; the path holds the old content or the whole new one. Raises UsageError."""
        save_model(self.model, path)


@checked
def load(source: Source) -> Model:
    """Return a checked model from a path or from bytes. Raises ModelError, UsageError."""
    return load_model(source)


@checked
def inspect(source: Source, *, name: str | None = None, runtime: str = DEFAULT_RUNTIME) -> Inspection:
    """Return a model's figures in bytes and multiply-accumulates, and its memory table per operator.

    Args:
        source: path or bytes of a .tflite file.
        name: of the model in the result; default: its path.
        runtime: name of the runtime on the device, for which the arena must suffice.

    Raises:
        ModelError, UsageError: the model cannot be used, or there is no runtime of that name.
    """
    data, model = _read(source, name)
    if name is None:
        name = _name(source) or "model"
    return without_replaced(model, look(model, data, name, runtime))


def look(model: Model, data: bytes, name: str, runtime: str = DEFAULT_RUNTIME) -> Inspection:
    """Inspect a loaded model, as ``inspect`` does."""
    model = with_plans(model)
    rows, notes = memory_table(model)
    measured = figures(model, data, arena_in_file(model, data, runtime), runtime)
    rights = tflm.unconfined() if measured.head_source == tflm.RUNTIME_NAME else ""
    if rights:
        notes = (*notes, note("warned", "rights", rights=rights))
    why = None if measured.head_source == tflm.RUNTIME_NAME else refusal(data)
    notes = notes if why is None else (*notes, note("warned", "runtime refuses", why=why))
    notes = (*notes, *conversion_offer(model))
    return Inspection(name, measured, rows, notes, outside_inputs(model), runtime)


@takes(RewriteOptions)
def rewrite(source: Source, options: RewriteOptions) -> Result:
    """Rewrite a model to need less RAM and compute the same bytes.

    Args:
        source: path or bytes of a .tflite file.
        {options}

    Inputs that leave the arena leave the model; the report's ``outside`` lists them. If inputs or outputs became int8,
    verification quantizes inputs as QUANTIZE does, and compares outputs after DEQUANTIZE.

    Raises:
        ModelError: the model is damaged.
        UsageError: unknown pass, scheme or target, unreadable path.
        LimitError: the goal cannot be reached, or no input can leave the arena.
        VerificationError: the rewritten model does not compute the same bytes (a defect of this package).
        RuntimeUnavailableError: verification was requested and no runtime is installed.
    """
    _require_seed(options.seed)
    data, model = _read(source)
    make = rewrite_model
    if options.advise:
        from tflite_fuse.rewriting.advice import rewrite_with_advice as make
    with reporting_to(options.progress):
        return Result(*make(model, data, options))


@takes(FuseOptions)
def pareto(source: Source, options: FuseOptions) -> FrontReport:
    """Return the Pareto front of RAM in bytes and compute of a model, with the blocks of each point.

    RAM is the arena to allocate, as ``rewrite`` places it, including states that are kept from call to call. Compute
    factors relate to the model as it is; for a stream, to the model over its window.

    With ``memory``, the front is of bytes of the fast memory, up to its size, against traffic with the slow one. Each
    point is the result of ``rewrite`` with a fast memory of ``row.memories.fast_room`` bytes.

    Args:
        source: path or bytes of a .tflite file.
        {options}

    Raises:
        ModelError, UsageError: the model or the scheme cannot be used.
        LimitError: no input can leave the arena, the model cannot be a stream, or a memory is too small.
    """
    from tflite_fuse.rewriting.trades import trades

    goal = Goal(least_ram=True) if options.memory is None else None
    return trades(_read(source)[1], replace(options, goal=goal), _name(source) or "model")


@takes(MetricsOptions)
def metrics(source: Source, options: MetricsOptions) -> dict[str, float]:
    """Return the metrics of a rewrite as flat numbers; ``schemas/metrics.schema.json`` describes them.

    A model that cannot meet the goal is no error: ``feasible`` is 0 then, and ``ram_over_bytes``, ``flash_over_bytes``,
    ``compute_over`` and ``input_over_bytes`` give the distance of the nearest rewrite.

    Args:
        source: path or bytes of a .tflite file.
        {options}

    Raises:
        ModelError: the model is damaged.
        UsageError: unknown names, an unreadable path.
    """
    from tflite_fuse.pipelines.metrics import model_metrics

    data, model = _read(source)
    return model_metrics(model, data, options)


@checked
def run(source: Source, inputs: Sequence[Array | PixelSource]) -> list[Array]:
    """Run a model once in TFLM, fused ones with the C library compiled for this machine, and return its outputs.

    Args:
        source: path or bytes of a .tflite file.
        inputs: one array per input of the original model, of its shape and type, inside the arena or not. For a
            streamed input also a function ``(y, x, count)`` that returns ``count`` pixels of row ``y`` from column
            ``x`` on, as int8 array or bytes; it is called from top to bottom, once for each pixel. By columns, ``y`` is
            a column and ``x`` a row of the original's input.

    Raises:
        ModelError: the model is damaged, or the runtime refuses it.
        UsageError: an input does not fit, or a function returns too few pixels.
        RuntimeUnavailableError: no runtime is installed.
        Exception: any that a function raises.
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
    """Run two models in TFLM, compare their outputs byte by byte, and prove the second if it is a rewrite of the first.

    The second is taken as a rewrite if it has fused blocks that the first lacks, or is proven to be one. The proof
    decodes it and compares it with the first, number by number, without a runtime: if none is installed, or it refuses
    the first model, only the proof is made and the result gives the reason.

    Inputs outside the arena are supported; a streamed one is read from a source that returns each pixel once.

    Args:
        a, b: paths or bytes of .tflite files.
        inputs: number of generated inputs: edge values first, then random ones, then ones found by a search.
        seed: of the random ones and of the search; None for any. The result contains it.
        data: an .npz file with the user's own inputs, instead of generated ones.
        mutants: number of weights of blocks to change by one, to count how many of these errors the run would notice.
        progress: called with (unit, done, total); a total of 0 is unknown.

    Raises:
        ModelError, UsageError: a model or the data cannot be used.
        VerificationError: the models have different inputs or outputs.
        PlanError: the offline plan of one lets its tensors overwrite each other, so its results are undefined.
        RuntimeUnavailableError: no runtime is installed.
    """
    from tflite_fuse.pipelines.verifying import Pair, verify_pair

    _require_seed(seed)
    (first_bytes, first), (second_bytes, second) = _read(a), _read(b)
    names = _name(a) or "model A", _name(b) or "model B"
    pair = Pair(names, (first_bytes, second_bytes), (first, second))
    with reporting_to(progress):
        return verify_pair(pair, inputs, seed, None if data is None else Path(data), mutants)


def _read(source: Source, name: str | None = None) -> tuple[bytes, Model]:
    """Return the file, read once, and the model in it."""
    data = read_source(source)
    return data, load_with_plans(data, name or _name(source) or "the model")


def _name(source: Source) -> str:
    """Return the path; empty for bytes."""
    return str(Path(source)) if isinstance(source, (str, os.PathLike)) else ""


def _require_seed(seed: int | None) -> None:
    if seed is not None and seed < 0:
        raise UsageError(f"seed is 0 or more, not {seed}")
