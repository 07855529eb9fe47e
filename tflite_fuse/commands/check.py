"""`tflite-fuse check`."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import tflite_fuse
from tflite_fuse.boards.fit import fit_sentence
from tflite_fuse.boards.table import Board
from tflite_fuse.commands.arguments import BoardName, ConfigFile, JsonFlag, Reserve, RuntimeName, board_of
from tflite_fuse.console import Status, answers_errors, console, print_json, say
from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import TfliteFuseError, UsageError
from tflite_fuse.files import read_file
from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME, runtime_named
from tflite_fuse.report.notebook import plain_table, printable
from tflite_fuse.units import parse_bytes

Row = dict[str, object]
_MOST_NAMED = 5
"""Most models that do not fit that are named in one line."""

_SIZES = ("arena_bytes", "file_bytes")
_HEADS = ("model", "arena", "limit", "flash", "limit", "")


@answers_errors
def check(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help=".tflite files.", show_default=False)],
    max_ram: Annotated[str | None, typer.Option(help="Largest arena of each model, like 64kB.")] = None,
    max_flash: Annotated[str | None, typer.Option(help="Largest file of each model, like 1MB.")] = None,
    board: BoardName = None,
    reserve: Reserve = None,
    runtime: RuntimeName = DEFAULT_RUNTIME,
    rewritten: Annotated[
        bool, typer.Option("--rewritten", help="Check the rewrite of each model instead of the model as it is.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    as_json: JsonFlag = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print a table with a row for each model.")] = False,
    config: ConfigFile = None,
) -> None:
    """Fail if a model exceeds its limits: for continuous integration and hooks before a commit."""
    runtime_named(runtime)  # refuses other words
    if markdown and as_json:
        raise UsageError("--json and --markdown exclude each other")
    chosen, kept = board_of(board, reserve)
    ram, flash = _limits(max_ram, max_flash, chosen, kept)
    core = Target.GENERIC if chosen is None else chosen.target
    arguments = {"runtime": runtime, "target": core.value} if rewritten else {"runtime": runtime}
    for model in models:
        if model.is_dir() or not model.exists():
            read_file(model)  # a mistake in the command, not in a model
    rows = []
    with Status("checking", as_json) as progress:
        for number, model in enumerate(models):
            progress("models", number, len(models))
            rows.append(_row_of(model, arguments, ram, flash, rewritten=rewritten))
    if as_json:
        print_json(
            {"schema": "tflite-fuse/check/1", "runtime": runtime, "max_ram": ram, "max_flash": flash, "models": rows}
        )
    elif markdown:
        for line in _markdown(rows, ram, flash):
            typer.echo(line)
    else:
        for line in _headline(rows, _within(ram, flash, board), runtime, rewritten=rewritten):
            say(line)
    if verbose and not as_json and not markdown:
        console().print(_table(rows, ram, flash))
    over = sum(not row["fits"] for row in rows)
    if over:
        if not as_json:
            say(f"{over} of {len(rows)} models {'does' if over == 1 else 'do'} not stay within the limits", stderr=True)
        raise typer.Exit(1)


def _headline(rows: Sequence[Row], within: str, runtime: str, *, rewritten: bool) -> tuple[str, ...]:
    """Return five lines: models that fit, RAM to allocate, models that do not fit, the checks, the next step."""
    over = [row for row in rows if not row["fits"]]
    kinds = {
        "too large": [row for row in over if row["error"] is None],
        "not read": [row for row in over if row["error"] is not None],
    }
    arenas, files = ([int(str(row[name])) for row in rows if row[name] is not None] for name in _SIZES)
    fit = fit_sentence(max(arenas, default=0), max(files, default=0))
    if over:
        fit = "; ".join(f"{kind}: {_named(group)}" for kind, group in kinds.items() if group)
    return (
        _first(rows, within),
        f"allocate a tensor arena of {max(arenas):,} bytes for {runtime_named(runtime)}"
        + ("" if len(rows) == 1 else ", the largest")
        if arenas
        else "no arena is known",
        fit,
        "rewritten: proven, not run" if rewritten else "as they are: not rewritten, not run",
        f"next: {_step(over, rewritten=rewritten)} (--verbose prints a table of all models)",
    )


def _step(over: Sequence[Row], *, rewritten: bool) -> str:
    """Return the next step for models that do not fit."""
    large = next((row for row in over if row["error"] is None), None)
    if large is None:
        return "give models that can be read" if over else "nothing to do"
    if rewritten:
        return f"tflite-fuse inspect {printable(str(large['model']))} lists what would make it fit"
    return "tflite-fuse check --rewritten compares what rewrites of the models need"


def _first(rows: Sequence[Row], within: str) -> str:
    """Return the arena of one model before and after, or the number of several that fit."""
    only = rows[0]
    if len(rows) > 1 or only["error"] is not None:
        return f"{sum(bool(row['fits']) for row in rows)} of {len(rows)} models within {within}"
    before, after = only["before_arena_bytes"], only["arena_bytes"]
    sizes = f"{before:,} -> {after:,}" if before != after else f"{after:,}"
    return (
        f"{printable(str(only['model']))}: arena {sizes} bytes; {'fits' if only['fits'] else 'too large for'} {within}"
    )


def _within(ram: int | None, flash: int | None, board: str | None) -> str:
    limits = [f"{size:,} bytes of {what}" for size, what in ((ram, "arena"), (flash, "flash")) if size is not None]
    return ("" if board is None else f"{board}: ") + " and ".join(limits)


def _named(rows: Sequence[Row]) -> str:
    more = f" and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
    return f"{'; '.join(map(_sentence, rows[:_MOST_NAMED]))}{more}"


def _sentence(row: Row) -> str:
    if row["error"] is not None:
        return printable(str(row["error"]))
    sizes = f"arena {row['arena_bytes']:,} bytes, flash {row['file_bytes']:,}"
    return f"{printable(str(row['model']))} ({sizes})"


def _table(rows: Sequence[Row], ram: int | None, flash: int | None) -> Table:
    table = plain_table(*_HEADS, right=_HEADS[1:-1])
    for row in rows:
        table.add_row(*_cells(row, ram, flash), style=None if row["fits"] else "red")
    return table


def _limits(
    max_ram: str | None, max_flash: str | None, board: Board | None, kept: int | None
) -> tuple[int | None, int | None]:
    """Return the bytes of arena and of flash that a model may need. Raises UsageError."""
    if board is not None:
        if max_ram is not None or max_flash is not None:
            raise UsageError("--board says how much RAM and flash there is: drop --max-ram and --max-flash")
        return board.room(kept), board.flash_bytes
    if max_ram is None and max_flash is None:
        raise UsageError("no limit is given: add --max-ram, --max-flash or --board")
    return tuple(None if text is None else parse_bytes(text) for text in (max_ram, max_flash))  # type: ignore[return-value]


def _row_of(model: Path, arguments: dict[str, Any], ram: int | None, flash: int | None, *, rewritten: bool) -> Row:
    """Return the row of one model; its errors become part of the row."""
    try:
        if rewritten:
            goal = tflite_fuse.Goal(max_ram=ram)
            metrics = tflite_fuse.metrics(model, effort="exact", goal=goal, **arguments)
            before, arena, size = (int(metrics[name]) for name in ("before_arena_bytes", "arena_bytes", "file_bytes"))
        else:
            figures = tflite_fuse.inspect(model, **arguments).figures
            before, arena, size = figures.arena_bytes, figures.arena_bytes, figures.file_bytes
    except TfliteFuseError as error:
        unknown = dict.fromkeys(("before_arena_bytes", "arena_bytes", "file_bytes"))
        return {"model": str(model), **unknown, "fits": False, "error": str(error)}
    fits = (ram is None or arena <= ram) and (flash is None or size <= flash)
    sizes = {"before_arena_bytes": before, "arena_bytes": arena, "file_bytes": size}
    return {"model": str(model), **sizes, "fits": fits, "error": None}


def _cells(row: Row, ram: int | None, flash: int | None) -> list[str]:
    if row["error"] is not None:
        return [printable(str(row["model"])), "", "", "", "", printable(str(row["error"]))]
    sizes = row["arena_bytes"], ram, row["file_bytes"], flash
    cells = ["" if size is None else f"{size:,}" for size in sizes]
    return [printable(str(row["model"])), *cells, "fits" if row["fits"] else "too large"]


def _markdown(rows: Sequence[Row], ram: int | None, flash: int | None) -> list[str]:
    lines = [f"| {' | '.join(_HEADS)} |", "|---|---:|---:|---:|---:|---|"]
    for row in rows:
        cells = (html.escape(cell).replace("|", "\\|").replace("`", "'") for cell in _cells(row, ram, flash))
        lines.append(f"| {' | '.join(cells)} |")
    return lines
