"""Time of an inference on a board in milliseconds, with a range.

For cores with a timing model, cycles are predicted. ``data/cycle_pairs.csv`` holds evidence: published cycles of an
engine and a model on a board, and the timing model's prediction for the same. If the timing model is off by more than a
quarter, and for cores without one, instructions are predicted. The range is then one to two cycles per instruction and
called uncalibrated: one is the minimum of a core that issues one instruction at a time, as these do; two allow as much
again for loads, branches and flash. A published pair without a timing model gives the cycles per instruction.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

from tflite_fuse.boards.results import known_results
from tflite_fuse.boards.table import Board
from tflite_fuse.cost.instructions import PredictedCycles, PredictionError, Target, prediction_error
from tflite_fuse.report.report import Report

PAIRS_FILE = Path(__file__).resolve().parents[1] / "data" / "cycle_pairs.csv"

UNCALIBRATED = (1.0, 2.0)
"""Assumed least and most cycles per instruction of a core without a pair."""

MOST_ERROR = 0.25
"""Largest error of a timing model against published cycles; with a larger one the core is uncalibrated."""

UNLIKE = 2.0
"""Largest factor on predicted cycles for a chip of another family: published cycles of a Nano 33 are 1.3 to 1.9 times
the model's for an STM32F446, for another port of TFLM compiled for size."""

_FAMILY = len("stm32f4")
"""Leading letters of a chip's name that identify its family."""


@dataclass(frozen=True)
class Pair:
    """Instructions and cycles of one model with one engine.

    Attributes:
        target: the core, in ``--target``'s names.
        engine: the runtime and its kernels.
        device: the device of the published cycles.
        model: its name.
        instructions, cycles: of one inference.
        source: of both numbers.
        modelled: cycles by the timing model of the core; None without one.
    """

    target: str
    engine: str
    device: str
    model: str
    instructions: int
    cycles: int
    source: str
    modelled: int | None = None

    @property
    def ratio(self) -> float:
        """Return the cycles per instruction."""
        return self.cycles / self.instructions

    @property
    def off(self) -> float:
        """Return the timing model's error as a share of the published cycles; 0 without one."""
        return 0.0 if self.modelled is None else abs(self.modelled / self.cycles - 1)


@dataclass(frozen=True)
class Time:
    """Predicted time of one inference.

    Attributes:
        target: the core whose instructions were predicted; ``generic`` for an unknown one.
        mhz: of the board.
        instructions: predicted, of the device library.
        least_ms, most_ms: milliseconds; equal only if no errors are known.
        calibrated: whether published pairs support the cycles per instruction.
        note: source and error of the prediction.
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
        span = f"{_three_digits(self.least_ms)} to {_three_digits(self.most_ms)}"
        return f"about {_three_digits(middle)} ms, {span}, at {self.mhz} MHz ({self.note})"

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"sentence": str(self)}


def _three_digits(value: float) -> str:
    """Return a number rounded to three digits, without an exponent."""
    return f"{float(f'{value:.3g}'):,.12g}"


@cache
def known_pairs() -> tuple[Pair, ...]:
    """Return all pairs of the table."""
    with PAIRS_FILE.open(newline="") as lines:
        return tuple(map(_listed, csv.DictReader(lines)))


def _listed(row: Mapping[str, Any]) -> Pair:
    """Return the pair of a row of the table."""
    numbers = {name: int(row[name]) if row[name] else None for name in ("instructions", "cycles", "modelled")}
    return Pair(**{**row, **numbers})


def counted_pairs() -> tuple[Pair, ...]:
    """Return the pairs that give cycles per instruction: those without a timing model."""
    return tuple(pair for pair in known_pairs() if pair.modelled is None)


def measured_pairs(board: Board) -> tuple[Pair, ...]:
    """Return a pair for each model that a benchmark ran on a listed board or on ``board``, from users' added results.

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
        for result in known_results((board,))
        if result.line["run"] == "rewritten" and result.instructions
    )


def modelled_error(target: str, pairs: Sequence[Pair] | None = None) -> PredictionError | None:
    """Return the error of a core's timing model against published cycles; None if there are none.

    Args:
        target: the core, in ``--target``'s names.
        pairs: published pairs; default: all known ones.
    """
    published = known_pairs() if pairs is None else pairs
    errors = [pair.off for pair in published if pair.target == target and pair.modelled is not None]
    return PredictionError(fmean(errors), max(errors)) if errors else None


def board_time(board: Board, instructions: int, cycles: PredictedCycles | None = None) -> Time:
    """Return the time of an inference on a board, from predicted instructions and optional predicted cycles.

    Results of a benchmark on the board's core take precedence over the core's timing model.

    Raises:
        UsageError: the file of added results was damaged.
    """
    measured = [pair for pair in measured_pairs(board) if pair.target == board.target.value]
    modelled = [pair for pair in known_pairs() if pair.modelled is not None]
    error = modelled_error(board.target.value, modelled)
    if not measured and cycles is not None and error is not None and error.largest <= MOST_ERROR:
        return modelled_time(board, instructions, cycles, modelled)
    return expected_time(board.target, board.mhz, instructions, measured or counted_pairs())


def report_time(board: Board, report: Report) -> Time | None:
    """Return the time of an inference of a rewritten model, with its slow memory's; None if no block was made.

    Raises:
        UsageError: the file of added results was damaged.
    """
    if report.prediction is None:
        return None
    time, moved = board_time(board, report.prediction.instructions, report.prediction.cycles), report.memories
    if moved is None or not moved.cycles:
        return time
    more = moved.cycles / (board.mhz * 1000)
    note = f"{time.note}; {_three_digits(more)} ms of it for the bytes in {moved.slow}"
    return replace(time, least_ms=time.least_ms + more, most_ms=time.most_ms + more, note=note)


def modelled_time(board: Board, instructions: int, cycles: PredictedCycles, pairs: Sequence[Pair]) -> Time:
    """Return the time of predicted cycles on a board whose core's timing model was compared with these pairs.

    On chips of other families flash has another speed: the result is a range up to ``UNLIKE`` times the longest.
    """
    published = [pair for pair in pairs if pair.target == board.target.value]
    model, off = max(pair.off for pair in published), cycles.error.largest
    alike = any(board.mcu.startswith(pair.device.lower()[:_FAMILY]) for pair in published)
    devices = " and ".join(dict.fromkeys(pair.device for pair in published))
    note = (
        f"{cycles.cycles:,} cycles predicted, up to {off:.0%} off the timing model, which is up to {model:.0%} off "
        f"{len(published)} published figures of {published[0].engine} on {devices}"
    )
    middle, spread = cycles.cycles / (board.mhz * 1000), (1 + off) * (1 + model) - 1
    least, most = middle * (1 - spread), middle * (1 + spread) * (1 if alike else UNLIKE)
    note += "" if alike else f"; up to {UNLIKE:g} times as many are allowed for the flash of another chip"
    return Time(board.target.value, board.mhz, instructions, least, most, alike, note)


def expected_time(target: Target, mhz: int, instructions: int, pairs: Sequence[Pair]) -> Time:
    """Return the time of predicted instructions, by the cycles per instruction of published pairs."""
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
    """Return the largest error of a pair against the mean of the others; None for a single one."""
    if len(pairs) < 2:
        return None
    means = (_mean([other.ratio for other in pairs if other is not pair]) for pair in pairs)
    return max(abs(other / pair.ratio - 1) for other, pair in zip(means, pairs, strict=True))
