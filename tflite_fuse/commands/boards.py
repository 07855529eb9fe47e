"""`tflite-fuse boards`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tflite_fuse.boards.fit import boards_table
from tflite_fuse.boards.table import known_boards
from tflite_fuse.commands.arguments import JsonFlag
from tflite_fuse.console import answers_errors, console, print_json
from tflite_fuse.errors import UsageError


@answers_errors
def boards(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD]...", help="List boards that have these words.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the boards that --board knows."""
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
