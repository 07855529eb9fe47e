"""`tflite-fuse rewrite`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import tflite_fuse
from tflite_fuse.boards.fit import fit_of
from tflite_fuse.boards.table import Board
from tflite_fuse.boards.time import report_time
from tflite_fuse.commands.arguments import (
    BoardName,
    ConfigFile,
    JsonFlag,
    MetricsFile,
    Reserve,
    board_of,
    goal_of,
    refuse_dash,
    with_options,
)
from tflite_fuse.console import Status, answers_errors, console, print_json, say, write_json
from tflite_fuse.converting.convert import CONVERTERS
from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.targets import read_target
from tflite_fuse.errors import LimitError, UsageError, VerificationError
from tflite_fuse.export.folder import require_usable
from tflite_fuse.export.steps import arena_without_tflm
from tflite_fuse.files import read_file, require_apart, require_writable, write_atomically
from tflite_fuse.memory.tflm.runtimes import runtime_named
from tflite_fuse.memory.tflm.shared import shared_arena
from tflite_fuse.model.memories import Memories
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import RewriteOptions
from tflite_fuse.pipelines.flat import report_metrics
from tflite_fuse.report.report import Report, change
from tflite_fuse.report.sentences import details, headline
from tflite_fuse.report.tables import report_table


@answers_errors
@with_options("rewrite", Goal, RewriteOptions)
def rewrite(
    source: Annotated[
        Path,
        typer.Argument(metavar="IN", help="The .tflite to rewrite; an .onnx or .pt2 is converted.", show_default=False),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Where to write the result; with -o a model.", show_default=False)
    ],
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="IN", help="With -o further models.", show_default=False)
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Rewrite all models into DIR, and print the one arena they need if they run one after the other.",
            show_default=False,
        ),
    ] = None,
    board: BoardName = None,
    reserve: Reserve = None,
    no_fuse: Annotated[
        bool, typer.Option("--no-fuse", rich_help_panel="Blocks", help="Only reorder and plan: no custom operator.")
    ] = False,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel="Conversion",
            help="Quantize an .onnx or .pt2 to int8: an .npz of float samples, an array per input.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--converted",
            rich_help_panel="Conversion",
            help="Also write the .tflite the converter made, which verify and report compare with.",
            show_default=False,
        ),
    ] = None,
    metrics: MetricsFile = None,
    as_json: JsonFlag = False,
    force: Annotated[bool, typer.Option("--force", help="Allow OUT to be IN.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print all figures, and what was done at every operator and why.")
    ] = False,
    config: ConfigFile = None,
    *,
    options: dict[str, Any],
) -> None:
    """Rewrite a model so that it needs less RAM and computes the same bytes."""
    refuse_dash(out)
    if no_fuse:
        options["passes"] = [name for name in options["passes"] if name != "fuse"]
    if folder is not None:
        _refuse_for_several(board=board, reserve=reserve, metrics=metrics, calibrate=calibrate, converted=keep)
        targets = _targets((source, out, *(more or ())), folder, force=force)
        _rewrite_all(targets, folder, _limited(options), as_json=as_json, verbose=verbose)
        return
    _require_paths(source, out, more, force=force)
    require_apart((out, metrics, keep))
    require_apart((metrics, keep), (source, config, calibrate))
    for path in (out, metrics, keep):
        require_writable(path)
    if not _is_converted(source) and (calibrate or keep):
        raise UsageError(f"{source}: is not converted, which --calibrate and --converted are for")
    chosen, kept = board_of(board, reserve)
    options = _limited(options, chosen, kept)
    with Status("rewriting", as_json) as progress:
        model, steps = _read(source, calibrate)
        if keep is not None and isinstance(model, bytes):
            write_atomically(model, keep)
        result = _rewritten(model, options | {"advise": True, "progress": progress}, chosen)
        time = None if chosen is None else report_time(chosen, result.report)  # refuses damaged results of benchmarks
        result.save(out)
    write_json(report_metrics(result.report), metrics)
    if as_json:
        conversion = {"converted": list(steps)} if steps else {}
        print_json(result.report.to_json() | conversion | ({} if time is None else {"time": time.to_json()}))
        return
    _say_steps(source, steps)
    fit = fit_of(result.report, chosen, kept) + ("" if time is None else f"; one inference takes {time}")
    for line in headline(result.report, str(out), fit, arena_without_tflm(tflite_fuse.load(result.model))):
        say(line)
    if verbose:
        _say_details(result.report)


def _require_paths(source: Path, out: Path, more: Sequence[Path] | None, *, force: bool) -> None:
    """Raise UsageError unless a model and another path for the result were given."""
    if more:
        raise UsageError(f"{more[0]}: is a third path; give IN and OUT, or several models and -o DIR")
    if not force and _same_file(source, out):
        raise UsageError(f"{out}: is the input itself; give another path, or --force to replace it")


def _is_converted(source: Path) -> bool:
    return source.suffix.lower() in CONVERTERS


def _read(source: Path, calibrate: Path | None = None) -> tuple[Path | bytes, tuple[str, ...]]:
    """Return the .tflite to rewrite, converted from another format where needed, and the steps of its conversion."""
    if not _is_converted(source):
        return source, ()
    converted = tflite_fuse.convert(source, calibrate)
    return converted.model, converted.steps


def _rewritten(model: Path | bytes, options: dict[str, Any], board: Board | None) -> tflite_fuse.Result:
    """Return the rewrite for a board. Raises LimitError if the board has too little RAM or flash."""
    try:
        result = tflite_fuse.rewrite(model, **options)
    except LimitError as error:
        if board is None or board.second is not None or "memory" in options:
            raise
        raise error.followed_by(f"; {board.name} has no second memory") from error
    if board is not None and len(result.model) > board.flash_bytes:
        raise LimitError(
            f"the model takes {len(result.model):,} bytes, {board.name} has {board.flash_bytes:,} of flash",
            limit=board.flash_bytes,
            reached=len(result.model),
        )
    return result


def _say_steps(source: Path, steps: Sequence[str]) -> None:
    if steps:
        say(f"{source}: {'; '.join(steps)}")


def _say_details(report: Report) -> None:
    console().print(report_table(report))
    for line in details(report):
        say(line)


def _refuse_for_several(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"--{name} is for one model: leave it out, or rewrite each model by itself")


def _targets(sources: Sequence[Path], folder: Path, *, force: bool) -> dict[Path, Path]:
    """Return the path in the folder for each model, once all can be read and written. Raises UsageError."""
    names = [source.with_suffix(".tflite").name if _is_converted(source) else source.name for source in sources]
    if len(set(names)) < len(names):
        raise UsageError(f"{folder}: two models have the same name; give them others")
    targets = {source: folder / name for source, name in zip(sources, names, strict=True)}
    same = next((target for source, target in targets.items() if _same_file(source, target)), None)
    if same is not None and not force:
        raise UsageError(f"{same}: is one of the inputs; give another folder, or --force to replace it")
    require_usable(folder, force=True)
    for source in sources:
        if not source.exists():
            read_file(source)  # reports it before the others are rewritten
    for target in targets.values() if folder.exists() else ():
        require_writable(target)
    return targets


def _rewrite_all(
    targets: Mapping[Path, Path], folder: Path, options: dict[str, Any], *, as_json: bool, verbose: bool
) -> None:
    """Rewrite models into a folder, and print the arena that they can share."""
    with Status("rewriting", as_json) as progress:
        models = [_read(source) for source in targets]
        results = [
            _rewritten_one(source, model, options | {"progress": progress})
            for source, (model, _) in zip(targets, models, strict=True)
        ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made ({error.strerror})") from error
    for result, target in zip(results, targets.values(), strict=True):
        result.save(target)
    reports = dict(zip(targets.values(), (result.report for result in results), strict=True))
    build = runtime_named(results[0].report.runtime).build
    shared = shared_arena([tflite_fuse.load(result.model) for result in results], build)
    if as_json:
        documents = [{"file": str(target), "report": report.to_json()} for target, report in reports.items()]
        print_json({"schema": "tflite-fuse/reports/1", "shared_arena_bytes": shared, "models": documents})
        return
    for (source, (target, report)), (_, steps) in zip(zip(targets, reports.items(), strict=True), models, strict=True):
        _say_steps(source, steps)
        before, after = report.before.arena_bytes, report.after.arena_bytes
        say(f"{target}: arena {before:,} -> {after:,} bytes ({change(before, after)}); {report.claim()}")
        if verbose:
            _say_details(report)
    separate = sum(report.after.arena_bytes for report in reports.values())
    say(
        f"one arena for {len(targets)} models that run one after the other: {shared:,} bytes, {separate:,} in arenas "
        "of their own; give each interpreter the same MicroAllocator"
    )


def _rewritten_one(source: Path, model: Path | bytes, options: dict[str, Any]) -> tflite_fuse.Result:
    """Return the rewrite of one of several models; errors about its result name it."""
    try:
        return tflite_fuse.rewrite(model, **options)
    except (LimitError, VerificationError) as error:
        raise type(error)(f"{source}: {error}") from error


def _limited(options: dict[str, Any], board: Board | None = None, reserve: int | None = None) -> dict[str, Any]:
    """Return options with a goal, memories and a core in place of sizes and a board. Raises UsageError."""
    sizes, memory = options.get("max_ram"), options.get("memory")
    if memory is not None and (sizes or reserve is not None):
        raise UsageError("--memory says how much RAM there is: leave out --max-ram and --reserve")
    if isinstance(sizes, Memories):
        options = options | {"max_ram": None, "memory": sizes if board is None else _on_board(sizes, board, reserve)}
    elif board is not None and sizes is not None:
        raise UsageError("--board and --max-ram both limit the RAM: drop one of the two")
    elif board is not None and memory is None:
        options = options | {"max_ram": board.room(reserve)}
        memories = board.memories(options["max_ram"])
        if memories is not None and options["scheme"] == "auto" and {"fuse", "plan"} <= {*options["passes"]}:
            options["memory"] = memories
    if board is not None and board.target is not Target.GENERIC:
        if read_target(options["target"]).target not in (Target.GENERIC, board.target):
            core = board.target.value
            raise UsageError(f"the core of {board.name} is {core}: leave out --target {options['target']}")
        options = options | {"target": board.target.value}
    return options | {"goal": goal_of(options)}


def _on_board(sizes: Memories, board: Board, reserve: int | None) -> Memories:
    """Return limits within a board's two memories, with its costs. Raises UsageError."""
    memories = board.memories(board.room(reserve))
    if memories is None:
        raise UsageError(f"{board.name} has no second memory, for which {sizes.slow.name} is a size")
    for requested, available in ((sizes.fast, memories.fast), (sizes.slow, memories.slow)):
        if requested.nbytes > available.nbytes:
            raise UsageError(
                f"{board.name} has {available.nbytes:,} bytes of {available.name}, not {requested.nbytes:,}"
            )
    return Memories(replace(memories.fast, nbytes=sizes.fast.nbytes), replace(memories.slow, nbytes=sizes.slow.nbytes))


def _same_file(a: Path, b: Path) -> bool:
    try:
        return a.samefile(b)
    except OSError:
        return False
