"""`tflite-fuse rewrite`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tflite_fuse
from tflite_fuse.boards.fit import fit_sentence
from tflite_fuse.boards.table import Board, find_board
from tflite_fuse.boards.time import Time, board_time
from tflite_fuse.commands.arguments import (
    BoardName,
    CostName,
    InputCount,
    InputMode,
    Int8Flag,
    JsonFlag,
    MetricsFile,
    NoOverlap,
    NoStrips,
    Reserve,
    SchemeName,
    Seed,
    StreamTime,
    TargetName,
    Tiles,
    TileSize,
    WeightsName,
    refuse_dash,
    reserved,
    stream_time_of,
    tile_size_of,
    tiles_of,
)
from tflite_fuse.commands.config import ConfigFile
from tflite_fuse.console import Status, answers_errors, console, print_json, say, write_json
from tflite_fuse.errors import LimitError, UsageError
from tflite_fuse.files import require_apart, require_writable
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS
from tflite_fuse.pipelines.flat import report_metrics
from tflite_fuse.report.report import Report
from tflite_fuse.report.sentences import details, headline
from tflite_fuse.report.tables import report_table
from tflite_fuse.units import parse_bytes


@answers_errors
def rewrite(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The .tflite file to rewrite.", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write the result.", show_default=False)],
    passes: Annotated[
        str, typer.Option(help="Which of the passes reorder, fuse and plan to run, in order, separated by commas.")
    ] = ",".join(tflite_fuse.DEFAULT_PASSES),
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            help="Prove the result in TensorFlow Lite Micro before writing it. Default: where it is installed.",
            show_default=False,
        ),
    ] = None,
    max_ram: Annotated[
        str | None, typer.Option(help="Arena (head + tail) to stay within, like 64kB or 64KiB; the least compute wins.")
    ] = None,
    max_compute: Annotated[
        float | None, typer.Option(help="Compute allowed, as a multiple of the model's own; the least RAM wins.")
    ] = None,
    least_ram: Annotated[bool, typer.Option("--least-ram", help="The least RAM whatever it computes twice.")] = False,
    board: BoardName = None,
    reserve: Reserve = None,
    input_mode: InputMode = "resident",
    scheme: SchemeName = "auto",
    tiles: Tiles = None,
    tile_size: TileSize = None,
    no_fuse: Annotated[
        bool, typer.Option("--no-fuse", help="Only reorder and plan: needs no custom operator.")
    ] = False,
    inputs: InputCount = 16,
    seed: Seed = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Seconds until the searches answer with their best so far, which may differ from run to run; without "
            "it they do a fixed amount of work.",
        ),
    ] = None,
    in_place: Annotated[
        str | None,
        typer.Option(
            help="Let TFLM's operators overwrite input they need no more. Give the kernels your TFLM is built with: "
            f"{', '.join(KERNEL_SETS)}; with others the model may compute wrong values."
        ),
    ] = None,
    no_overlap: NoOverlap = False,
    no_strips: NoStrips = False,
    int8_io: Int8Flag = False,
    stream_time: StreamTime = None,
    core: TargetName = "generic",
    cost: CostName = "macs",
    weights: WeightsName = "auto",
    metrics: MetricsFile = None,
    as_json: JsonFlag = False,
    force: Annotated[bool, typer.Option("--force", help="Allow OUT to be IN.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print all figures, and what was done at every operator and why.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Rewrite a model so that it needs less RAM and computes the same bytes."""
    refuse_dash(target)
    if not force and _same_file(source, target):
        raise UsageError(f"{target}: is the input itself; give another path, or --force to replace it")
    require_apart((target, metrics))
    require_apart((metrics,), (source, config))
    require_writable(metrics)
    names = [name.strip() for name in passes.split(",") if name.strip()]
    chosen = None if board is None else find_board(board)
    goal = tflite_fuse.Goal(_arena_limit(max_ram, chosen, reserve), max_compute, least_ram)
    if chosen is not None and core == "generic":
        core = chosen.target.value
    hop, axis = stream_time_of(stream_time)
    with Status("rewriting", as_json) as report_progress:
        result = tflite_fuse.rewrite(
            source,
            passes=[name for name in names if not (no_fuse and name == "fuse")],
            goal=goal,
            scheme=scheme,
            tiles=tiles_of(tiles),
            tile_size=tile_size_of(tile_size),
            input_mode=input_mode,
            verify=verify,
            inputs=inputs,
            seed=seed,
            time_limit=time_limit,
            in_place=in_place,
            overlap=not no_overlap,
            strips=not no_strips,
            int8_io=int8_io,
            stream_time=hop,
            stream_axis=axis,
            target=core,
            cost=cost,
            weights=weights,
            advise=True,
            progress=report_progress,
        )
        if chosen is not None and len(result.model) > chosen.flash_bytes:
            raise LimitError(
                f"the model takes {len(result.model):,} bytes, {board} has {chosen.flash_bytes:,} of flash"
            )
        result.save(target)
    write_json(report_metrics(result.report), metrics)
    time = None if chosen is None else _time(chosen, result.report)
    if as_json:
        print_json(result.report.to_json() | ({} if time is None else {"time": time.to_json()}))
        return
    kept = None if chosen is None else reserved(chosen, reserve)
    fit = fit_sentence(result.report.allocate_bytes, result.report.after.file_bytes, chosen, kept)
    for line in headline(result.report, str(target), fit if time is None else f"{fit}; one inference takes {time}"):
        say(line)
    if verbose:
        console().print(report_table(result.report))
        for line in details(result.report):
            say(line)


def _arena_limit(max_ram: str | None, board: Board | None, reserve: str | None) -> int | None:
    """Bytes the arena may have, None for any."""
    if board is None:
        if reserve is not None:
            raise UsageError("--reserve says what a board keeps: name one with --board")
        return None if max_ram is None else parse_bytes(max_ram)
    if max_ram is not None:
        raise UsageError("--board and --max-ram both say how much RAM there is: drop one of the two")
    return board.ram_bytes - reserved(board, reserve)


def _time(board: Board, report: Report) -> Time | None:
    """Of one inference; None where no block was made."""
    return None if report.prediction is None else board_time(board, report.prediction.instructions)


def _same_file(a: Path, b: Path) -> bool:
    try:
        return a.samefile(b)
    except OSError:
        return False
