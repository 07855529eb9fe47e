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
            metavar="WORD",
            help="List boards that have these words; or `add RESULTS.jsonl`: store the lines that a benchmark printed.",
        ),
    ] = None,
    model: Annotated[
        list[Path] | None,
        typer.Option(help="For `add`: a file that ran; the lines must have its hash.", show_default=False),
    ] = None,
    board: Annotated[
        list[Path] | None, typer.Option(help="For `add`: the .toml of a board that is not listed.", show_default=False)
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the boards that --board accepts, or add results of a benchmark.

    `boards add RESULTS.jsonl` checks the lines that a project of `export --benchmark` printed; later predictions of
    time use them.
    """
    if words and words[0] == "add":
        if len(words) != 2:
            raise UsageError("`boards add` takes one file: boards add RESULTS.jsonl")
        _add(Path(words[1]), model or (), [read_board(path) for path in board or ()], as_json=as_json)
        return
    if model or board:
        raise UsageError("--model and --board are for `boards add RESULTS.jsonl`")
    lower_words = [word.lower() for word in words or ()]
    matches = [
        board
        for board in known_boards()
        if all(word in " ".join((board.name, board.title, board.mcu, board.core)).lower() for word in lower_words)
    ]
    if not matches:
        raise UsageError(f"no board has {' and '.join(map(repr, lower_words))} in its name, chip or core")
    if as_json:
        print_json({"schema": "tflite-fuse/boards/1", "boards": [asdict(board) for board in matches]})
    else:
        console().print(boards_table(matches))


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
    which = "these boards alone" if boards else "these cores"
    say(f"{new} of {len(results)} are new in {own_file()}; predictions of time on {which} use them")
    say(f"To share them, add these lines to {SHARED_FILE.parent.name}/{SHARED_FILE.name} by a pull request:")
    for result in results:
        print(result.text())
