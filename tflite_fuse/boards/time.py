"""How long an inference takes on a board: milliseconds where cycles per instruction are known, else a range.

Predicted are instructions. What a core makes of them in time depends on how many it issues at once and on how long it
waits for its memories; no emulator of this project knows. ``data/cycle_pairs.csv`` holds what is known: models whose
instructions were counted with an engine, and the cycles published of the same engine and model on a board.
Where a core has no such pair, one to two cycles per instruction are an assumption, and the answer is called
uncalibrated: one is the least a core can take that issues one instruction at a time, as these do, and two leaves as
much again for loads, branches and flash.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

from tflite_fuse.boards.results import known_results
from tflite_fuse.boards.table import Board
from tflite_fuse.cost.instructions import Target, prediction_error

PAIRS_FILE = Path(__file__).resolve().parents[1] / "data" / "cycle_pairs.csv"

UNCALIBRATED = (1.0, 2.0)
"""Cycles per instruction that are assumed at least and at most of a core without a pair."""


@dataclass(frozen=True)
class Pair:
    """Instructions and cycles of one model with one engine.

    Attributes:
        target: the core, as ``--target`` calls it.
        device: whose cycles were published.
        source: of both numbers.
    """

    target: str
    engine: str
    device: str
    model: str
    instructions: int
    cycles: int
    source: str

    @property
    def ratio(self) -> float:
        """Cycles per instruction."""
        return self.cycles / self.instructions


@dataclass(frozen=True)
class Time:
    """What one inference is expected to take.

    Attributes:
        target: the core whose instructions were predicted; ``generic`` stands for one that is not known.
        mhz: of the board.
        instructions: predicted, of the device library.
        least_ms, most_ms: milliseconds; equal only where nothing is known about errors.
        calibrated: whether published pairs say how many cycles an instruction takes.
        note: what is behind it, and how far off it may be.
    """

    target: str
    mhz: int
    instructions: int
    least_ms: float
    most_ms: float
    calibrated: bool
    note: str

    def __str__(self) -> str:
        if not self.calibrated:
            span = f"{_three_digits(self.least_ms)} to {_three_digits(self.most_ms)}"
            return f"{span} ms at {self.mhz} MHz, uncalibrated ({self.note})"
        middle = (self.least_ms + self.most_ms) / 2
        return f"about {_three_digits(middle)} ms at {self.mhz} MHz ({self.note})"

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"sentence": str(self)}


def _three_digits(value: float) -> str:
    """Rounded to what is known of it, and never with an exponent where thousands can be read."""
    return f"{float(f'{value:.3g}'):,.12g}"


@cache
def known_pairs() -> tuple[Pair, ...]:
    """All of the table."""
    with PAIRS_FILE.open(newline="") as lines:
        return tuple(
            Pair(**row | {"instructions": int(row["instructions"]), "cycles": int(row["cycles"])})  # type: ignore[arg-type]
            for row in csv.DictReader(lines)
        )


def board_time(board: Board, instructions: int) -> Time:
    """What so many predicted instructions take on a board."""
    return expected_time(board.target, board.mhz, instructions, (*known_pairs(), *measured_pairs()))


def measured_pairs() -> tuple[Pair, ...]:
    """Return a pair for each model that a benchmark ran on a board, as users added them.

    Raises:
        UsageError: the file of added results was damaged.
    """
    return tuple(
        Pair(
            result.board.target.value,
            "tflite-fuse",
            result.board.name,
            str(result.line["model"]),
            result.instructions,
            result.cycles,
            "measured by a benchmark",
        )
        for result in known_results()
        if result.line["run"] == "rewritten" and result.instructions
    )


def expected_time(target: Target, mhz: int, instructions: int, pairs: Sequence[Pair]) -> Time:
    """The same, with what is known given."""
    of_core = [pair for pair in pairs if pair.target == target.value]
    off = prediction_error(target).largest
    if not of_core:
        least, most = (instructions * ratio / (mhz * 1000) for ratio in UNCALIBRATED)
        core = "another core's instructions" if target is Target.GENERIC else f"instructions of {target.value}"
        note = f"{core}, 1 to 2 cycles each assumed; the count itself up to {off:.0%} off"
        return Time(target.value, mhz, instructions, least, most, False, note)
    ratio = _mean([pair.ratio for pair in of_core])
    middle, error = instructions * ratio / (mhz * 1000), _error(of_core)
    devices = " and ".join(dict.fromkeys(pair.device for pair in of_core))
    per = f"{ratio:.2f} cycles per instruction, as {of_core[0].engine} on {devices}"
    if error is None:
        note = f"{per}: one published pair, so its own error is not known; the count up to {off:.0%} off"
    else:
        note = f"{per}: up to {error:.0%} off on the {len(of_core)} published pairs, the count up to {off:.0%}"
    spread = (1 + off) * (1 + (error or 0.0)) - 1
    return Time(target.value, mhz, instructions, middle * (1 - spread), middle * (1 + spread), True, note)


def _mean(ratios: Sequence[float]) -> float:
    return exp(fmean(map(log, ratios)))


def _error(pairs: Sequence[Pair]) -> float | None:
    """How far each pair is at most from the mean of the others; None of a single one."""
    if len(pairs) < 2:
        return None
    others = (_mean([other.ratio for other in pairs if other is not pair]) for pair in pairs)
    return max(abs(other / pair.ratio - 1) for other, pair in zip(others, pairs, strict=True))
