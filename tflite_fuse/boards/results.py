"""Results of benchmarks on boards: lines that exported projects print, validated before use.

``boards add`` stores them in ``$TFLITE_FUSE_RESULTS``, else ``board_results.jsonl`` in ``$XDG_DATA_HOME/tflite-fuse``
or ``~/.local/share/tflite-fuse``; those of other users are part of the package, in ``data/board_results.jsonl``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tflite_fuse.boards.table import Board, known_boards, listed_board
from tflite_fuse.errors import UsageError
from tflite_fuse.export.benchmark import RESULT_SCHEMA
from tflite_fuse.files import about, read_file, write_atomically

SHARED_FILE = Path(__file__).resolve().parents[1] / "data" / "board_results.jsonl"
"""Results sent by users."""

_LONGEST_SECONDS = 600
_LEAST_CYCLES, _MOST_CYCLES = 0.4, 100.0
"""Plausible cycles per predicted instruction: above dual issue, below the slowest memory."""

_TEXTS = ("run", "model", "sha256", "runtime", "kernels", "board", "core")
_NUMBERS = ("bytes", "clock_hz", "arena_bytes", "arena_used", "runs", "microseconds")


@dataclass(frozen=True)
class Result:
    """One run of a model on a board.

    Attributes:
        board: the listed board.
        line: the object as it was printed.
    """

    board: Board
    line: Mapping[str, Any]

    @property
    def cycles(self) -> int:
        """Return the core's cycles of one inference."""
        return round(int(self.line["microseconds"]) * int(self.line["clock_hz"]) / 1_000_000)

    @property
    def instructions(self) -> int:
        """Return the predicted instructions; 0 if operators are outside of blocks."""
        return int(self.line.get("predicted_instructions", 0))

    def text(self) -> str:
        """Return the line in canonical form."""
        return json.dumps(dict(self.line), sort_keys=True)


def own_file() -> Path:
    """Return the file of this user's results."""
    if chosen := os.environ.get("TFLITE_FUSE_RESULTS"):
        return Path(chosen)
    shared = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(shared).expanduser() / "tflite-fuse" / "board_results.jsonl"


def read_results(path: Path, models: Sequence[Path] = (), boards: Sequence[Board] = ()) -> tuple[Result, ...]:
    """Return the results in the lines that a benchmark printed.

    Args:
        path: of a file of JSON lines; other lines of a monitor are skipped.
        models: files whose hash and size the lines must have, if given.
        boards: further boards, besides those of the table.

    Raises:
        UsageError: no line of a benchmark, or an implausible one; the message says which and why.
    """
    hashes = {hashlib.sha256(data).hexdigest(): len(data) for data in map(read_file, models)}
    results = list[Result]()
    for where, text in _objects(path):
        with about(where):
            results.append(_checked(_parsed(text), hashes, boards))
    if not results:
        raise UsageError(f"{path}: has no line of a benchmark; copy what the board printed")
    return tuple(results)


def _objects(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each JSON object in a file's lines. Raises UsageError."""
    for number, text in enumerate(read_file(path).decode(errors="replace").splitlines(), start=1):
        if text.strip().startswith("{"):
            yield f"{path}: line {number}", text.strip()


def _checked(line: Mapping[str, Any], hashes: Mapping[str, int], boards: Sequence[Board]) -> Result:
    board = next((each for each in boards if each.name == line["board"]), None) or listed_board(line["board"])
    if not re.fullmatch(r"[0-9a-f]{64}", line["sha256"]):
        raise UsageError("the model's hash is no SHA-256")
    if hashes and hashes.get(line["sha256"]) != line["bytes"]:
        raise UsageError(f"{line['model']!r} has another hash or size than the files of --model")
    if line["arena_used"] > line["arena_bytes"] or line["arena_bytes"] > board.ram_bytes:
        raise UsageError(f"an arena of {line['arena_bytes']:,} bytes cannot be on {board.name}")
    if board.core and line["core"] not in ("other", board.core) and line["core"].startswith("cortex"):
        raise UsageError(f"{board.name} has a {board.core}, and this ran on a {line['core']}")
    result = Result(board, line)
    reason = _impossible(result)
    if reason:
        raise UsageError(f"{line['microseconds']:,} microseconds at {line['clock_hz']:,} Hz cannot be: {reason}")
    return result


def _parsed(text: str) -> dict[str, Any]:
    """Return the object of a line with all required fields."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError("is no JSON; copy the whole line") from error
    if not isinstance(line, dict) or line.get("schema") != RESULT_SCHEMA:
        raise UsageError("is no line of a benchmark of this version")
    if "error" in line:
        raise UsageError(f"the benchmark failed: {line['error']}")
    fields: tuple[tuple[Iterable[str], type, Callable[[Any], bool]], ...] = (
        (_TEXTS, str, bool),
        (_NUMBERS, int, lambda value: 0 < value < 1 << 48),
    )
    for names, kind, is_sound in fields:
        for name in names:
            value = line.get(name)
            if not isinstance(value, kind) or isinstance(value, bool) or not is_sound(value):
                raise UsageError(f"{name!r} is missing or cannot be {value!r}")
    if not isinstance(line.get("predicted_instructions", 0), int) or line.get("predicted_instructions", 0) < 0:
        raise UsageError("'predicted_instructions' is no count")
    if not isinstance(line.get("blocks"), list) or not all(map(_is_block, line["blocks"])):
        raise UsageError("'blocks' is no list of names and microseconds")
    return line


def _is_block(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("name"), str)
        and isinstance(entry.get("microseconds"), int)
        and entry["microseconds"] >= 0
    )


def _impossible(result: Result) -> str:
    """Return why a time is implausible; empty if it is plausible."""
    line, board = result.line, result.board
    if line["microseconds"] > _LONGEST_SECONDS * 1_000_000:
        return f"no inference takes more than {_LONGEST_SECONDS} seconds"
    if line["clock_hz"] > 2_000_000 * board.mhz:
        return f"{board.name} runs at {board.mhz} MHz"
    parts = sum(block["microseconds"] for block in line["blocks"])
    if parts > 1.5 * line["microseconds"] + len(line["blocks"]):
        return f"its blocks take {parts:,}"
    per = result.cycles / result.instructions if result.instructions else 1.0
    if not _LEAST_CYCLES <= per <= _MOST_CYCLES:
        return f"it would be {per:.3g} cycles for each predicted instruction"
    return ""


def add_results(results: Sequence[Result]) -> int:
    """Store results for this user's predictions; return the number of new ones.

    Raises:
        UsageError: the file cannot be written.
    """
    path = own_file()
    old = read_file(path).decode(errors="surrogateescape").splitlines() if path.exists() else []
    new = [text for text in dict.fromkeys(result.text() for result in results) if text not in old]
    if new:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path.parent}: cannot be made ({error.strerror})") from error
        write_atomically(("\n".join((*old, *new)) + "\n").encode(errors="surrogateescape"), path)
    return len(new)


def known_results(boards: Sequence[Board] = ()) -> tuple[Result, ...]:
    """Return this user's results and those of the package, on the boards of the table and on ``boards``.

    Those on other boards are skipped: each was checked by a description that only its user has.

    Raises:
        UsageError: a file was damaged.
    """
    listed, own = {board.name.lower() for board in known_boards()}, {board.name for board in boards}
    results = list[Result]()
    for path in (each for each in (SHARED_FILE, own_file()) if each.exists()):
        for where, text in _objects(path):
            with about(where):
                line = _parsed(text)
                is_described = line["board"] in own or line["board"].lower() in listed
                results += [_checked(line, {}, boards)] if is_described else []
    return tuple(results)
