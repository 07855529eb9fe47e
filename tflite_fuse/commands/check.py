"""`tflite-fuse check`."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import tflite_fuse
from tflite_fuse.boards.table import find_board
from tflite_fuse.commands.arguments import BoardName, JsonFlag, Reserve, reserved
from tflite_fuse.commands.config import ConfigFile
from tflite_fuse.console import Status, answers_errors, console, print_json, say
from tflite_fuse.errors import TfliteFuseError, UsageError
from tflite_fuse.report.notebook import printable
from tflite_fuse.units import parse_bytes

_HEADS = ("model", "arena", "limit", "flash", "limit", "")


@answers_errors
def check(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help=".tflite files.", show_default=False)],
    max_ram: Annotated[str | None, typer.Option(help="Arena (head + tail) each may need, like 64kB.")] = None,
    max_flash: Annotated[str | None, typer.Option(help="Bytes each file may have, like 1MB.")] = None,
    board: BoardName = None,
    reserve: Reserve = None,
    rewritten: Annotated[
        bool, typer.Option("--rewritten", help="Ask what `rewrite` makes of each, not what each needs as it is.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    as_json: JsonFlag = False,
    config: ConfigFile = None,
) -> None:
    """Fail where a model needs more than it may: for continuous integration and hooks before a commit."""
    ram, flash = _limits(max_ram, max_flash, board, reserve)
    rows = []
    with Status("checking", as_json) as progress:
        for number, model in enumerate(models):
            progress("models", number, len(models))
            rows.append(_looked_at(model, rewritten, ram, flash))
    if as_json:
        print_json({"schema": "tflite-fuse/check/1", "max_ram": ram, "max_flash": flash, "models": rows})
    elif markdown:
        for line in _markdown(rows, ram, flash):
            typer.echo(line)
    else:
        table = Table(show_edge=False, pad_edge=False)
        for head in _HEADS:
            table.add_column(head, justify="left" if head in ("model", "") else "right")
        for row in rows:
            table.add_row(*_cells(row, ram, flash), style=None if row["fits"] else "red")
        console().print(table)
    over = sum(not row["fits"] for row in rows)
    if over:
        if not as_json:
            say(f"{over} of {len(rows)} models {'does' if over == 1 else 'do'} not stay within the limits", stderr=True)
        raise typer.Exit(1)


def _limits(
    max_ram: str | None, max_flash: str | None, board: str | None, reserve: str | None
) -> tuple[int | None, int | None]:
    """Bytes of arena and of flash a model may need. Raises UsageError."""
    if board is None and reserve is not None:
        raise UsageError("--reserve says what a board keeps: name one with --board")
    if board is not None:
        if max_ram is not None or max_flash is not None:
            raise UsageError("--board says how much RAM and flash there is: drop --max-ram and --max-flash")
        chosen = find_board(board)
        return chosen.ram_bytes - reserved(chosen, reserve), chosen.flash_bytes
    if max_ram is None and max_flash is None:
        raise UsageError("say what models may need: --max-ram, --max-flash or --board")
    return tuple(None if text is None else parse_bytes(text) for text in (max_ram, max_flash))  # type: ignore[return-value]


def _looked_at(model: Path, rewritten: bool, ram: int | None, flash: int | None) -> dict[str, object]:
    """One model; what is wrong with it is its row's."""
    try:
        if rewritten:
            goal = tflite_fuse.Goal(max_ram=ram)
            found = tflite_fuse.metrics(model, effort="exact", goal=goal)
            arena, size = int(found["arena_bytes"]), int(found["file_bytes"])
        else:
            figures = tflite_fuse.inspect(model).figures
            arena, size = figures.arena_bytes, figures.file_bytes
    except TfliteFuseError as error:
        return {"model": str(model), "arena_bytes": None, "file_bytes": None, "fits": False, "error": str(error)}
    fits = (ram is None or arena <= ram) and (flash is None or size <= flash)
    return {"model": str(model), "arena_bytes": arena, "file_bytes": size, "fits": fits, "error": None}


def _cells(row: dict[str, object], ram: int | None, flash: int | None) -> list[str]:
    if row["error"] is not None:
        return [printable(str(row["model"])), "", "", "", "", printable(str(row["error"]))]
    sizes = row["arena_bytes"], ram, row["file_bytes"], flash
    told = ["" if size is None else f"{size:,}" for size in sizes]
    return [printable(str(row["model"])), *told, "fits" if row["fits"] else "too large"]


def _markdown(rows: list[dict[str, object]], ram: int | None, flash: int | None) -> list[str]:
    lines = [f"| {' | '.join(_HEADS)} |", "|---|---:|---:|---:|---:|---|"]
    for row in rows:
        cells = (html.escape(cell).replace("|", "\\|").replace("`", "'") for cell in _cells(row, ram, flash))
        lines.append(f"| {' | '.join(cells)} |")
    return lines
