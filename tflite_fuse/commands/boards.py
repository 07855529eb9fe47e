"""`tflite-fuse boards`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tflite_fuse.boards.fit import boards_table
from tflite_fuse.boards.results import SHARED_FILE, add_results, own_file, read_results
from tflite_fuse.boards.table import Board, known_boards, read_board
from tflite_fuse.commands.arguments import JsonFlag
from tflite_fuse.console import answers_errors, console, print_json, say
from tflite_fuse.errors import UsageError


@answers_errors
def boards(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]...",
            help="List boards that have these words; or `add RESULTS.jsonl`: keep what a benchmark printed.",
        ),
    ] = None,
    model: Annotated[
        list[Path] | None,
        typer.Option(help="Of `add`: a file that ran, whose bytes the lines must be of.", show_default=False),
    ] = None,
    board: Annotated[
        list[Path] | None,
        typer.Option(help="Of `add`: the .toml of a board that is not listed.", show_default=False),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the boards that --board knows, or add what was measured on one.

    `boards add RESULTS.jsonl` checks the lines that a project of `export --benchmark` printed; times are then predicted
    by them, too.
    """
    if words and words[0] == "add" and len(words) == 2:
        _add(Path(words[1]), model or (), [read_board(path) for path in board or ()], as_json=as_json)
        return
    if model or board:
        raise UsageError("--model and --board are for `boards add RESULTS.jsonl`")
    wanted = [word.lower() for word in words or ()]
    found = [
        board
        for board in known_boards()
        if all(word in " ".join((board.name, board.title, board.mcu, board.core)).lower() for word in wanted)
    ]
    if not found:
        raise UsageError(f"no board has {' and '.join(map(repr, wanted))} in its name, chip or core")
    if as_json:
        print_json({"schema": "tflite-fuse/boards/1", "boards": [asdict(board) for board in found]})
    else:
        console().print(boards_table(found))


def _add(path: Path, models: Sequence[Path], boards: Sequence[Board], *, as_json: bool) -> None:
    results = read_results(path, models, boards)
    new = add_results(results)
    if as_json:
        lines = [dict(result.line) for result in results]
        print_json({"schema": "tflite-fuse/board-results/1", "added": new, "file": str(own_file()), "results": lines})
        return
    for result in results:
        line = result.line
        say(f"- {line['board']}, {line['model']} {line['run']}: {line['microseconds']:,} microseconds")
    say(f"{new} of {len(results)} are new in {own_file()}; times on these cores are predicted by them, too")
    say(f"Everybody has them once these lines are in {SHARED_FILE.parent.name}/{SHARED_FILE.name} by a pull request:")
    for result in results:
        print(result.text())
