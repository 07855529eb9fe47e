#!/usr/bin/env python3
"""Rewrite and verify every model of a folder, and print a row of results for each.

    scripts/bench_corpus.py DIR [--inputs 4] [--time-limit SECONDS] [--model-limit 600]

Searches have their default budgets of work; with a time limit the figures depend on the machine.

Columns: the arena before, after, and with streamed inputs (bytes to allocate); before over after; whether TensorFlow
Lite Micro gave the same bytes; the ceiling, which is before over input and tail, because a resident input and the
runtime's own data stay; seconds of both rewrites; and the most frequent reason of operators outside blocks. Below the
table: the geometric means over models with int8 or uint8 input and at least one block, the slowest models, and for each
kind of operator outside blocks the reason, the number of models, and the bytes it writes. Nothing is written.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import exp, log
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.model import Model, load_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.types import TensorType, tensor_nbytes
from tflite_fuse.notes import tensor_of
from tflite_fuse.ops.lowering.extract import fusability
from tflite_fuse.report.report import Report
from tflite_fuse.report.wording import general

LONGEST_REASON = 90
MOST_REASONS = 40


@dataclass(frozen=True)
class Row:
    """One model; what could not be had is None.

    Attributes:
        name: its path below the folder.
        report: of the rewrite with resident inputs.
        streamed: arena with streamed inputs.
        ceiling: most that a resident rewrite could gain.
        counts: whether it counts for the mean.
        reason: why not more, or why it was refused.
        outside: of operators outside blocks, kind and reason, and the most bytes one of them writes.
        seconds: that both rewrites took.
    """

    name: str
    report: Report | None
    streamed: int | None
    ceiling: float | None
    counts: bool
    reason: str
    outside: Mapping[tuple[str, str], int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def gain_streamed(self) -> float | None:
        """Return the arena before over the arena after with streamed inputs."""
        return None if self.report is None or not self.streamed else self.report.before.arena_bytes / self.streamed

    @property
    def ratio(self) -> float | None:
        """Return the first number over the second."""
        return None if self.report is None else self.report.before.arena_bytes / self.report.after.arena_bytes

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a row of the table."""
        report, ratio = self.report, self.ratio
        if report is None or ratio is None:
            return (self.name, *("-",) * 6, f"{self.seconds:.0f}", self.reason)
        exact = "yes" if report.verified is not None else "unchanged" if report.unchanged else "not run"
        ceiling = "-" if self.ceiling is None else f"{self.ceiling:.2f}"
        streamed = "-" if self.streamed is None else f"{self.streamed:,}"
        sizes = f"{report.before.arena_bytes:,}", f"{report.after.arena_bytes:,}", streamed
        return (self.name, *sizes, f"{ratio:.2f}", exact, ceiling, f"{self.seconds:.0f}", self.reason)


class _TooLongError(Exception):
    """A model took longer than it may."""


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Raise _TooLongError in what takes longer."""

    def stop(*_: object) -> None:
        raise _TooLongError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def measured_within(seconds: int, path: Path, name: str, inputs: int, time_limit: float | None) -> Row:
    """Return the row of ``measured``, or a row that names the time limit."""
    began = monotonic()
    try:
        with _at_most(seconds):
            row = measured(path, name, inputs, time_limit)
    except _TooLongError:
        row = Row(name, None, None, None, False, f"refused: it took more than {seconds} s")
    return replace(row, seconds=monotonic() - began)


def measured(path: Path, name: str, inputs: int, time_limit: float | None) -> Row:
    """Return the row of one model, rewritten with inputs in the arena and streamed."""
    try:
        report = tflite_fuse.rewrite(path, inputs=inputs, time_limit=time_limit).report
        model = load_model(path)
    except TfliteFuseError as error:
        return Row(name, None, None, None, False, f"refused: {error}")
    image = sum(tensor_nbytes(model.main.tensors[tensor]) for tensor in model.main.inputs)
    ceiling = report.before.arena_bytes / (image + report.after.tail_bytes)
    streamed, counts = _streamed(path, inputs, time_limit), _counts(model, report)
    return Row(name, report, streamed, ceiling, counts, _why(report), _outside(model))


def _streamed(path: Path, inputs: int, time_limit: float | None) -> int | None:
    try:
        mode = InputMode.STREAMED.value
        report = tflite_fuse.rewrite(path, input_mode=mode, inputs=inputs, time_limit=time_limit).report
    except TfliteFuseError:
        return None
    return report.after.arena_bytes


def _counts(model: Model, report: Report) -> bool:
    kinds = {model.main.tensors[tensor].type for tensor in model.main.inputs}
    return bool(report.blocks) and kinds <= {TensorType.INT8, TensorType.UINT8}


def _outside(model: Model) -> dict[tuple[str, str], int]:
    """Count the operators no block can hold, by kind and by reason without the names of tensors."""
    most: dict[tuple[str, str], int] = {}
    for operator, reason in zip(model.main.operators, fusability(model), strict=True):
        if reason is not None:
            key = operator_name(model, operator), general(reason, tensor_of(reason))
            written = [model.main.tensors[tensor] for tensor in operator.outputs or ()]
            most[key] = max(most.get(key, 0), sum(map(tensor_nbytes, written)))
    return most


_NO_GAIN = "fusing does not pay"


def _why(report: Report) -> str:
    """Return the reason most operators outside blocks have, or why the file is unchanged."""
    if report.unchanged is not None:
        return report.unchanged
    unfused = [each.details for each in report.records if each.fate == "not fused"]
    reasons = [general(str(each["why"]), str(each["tensor"])) if "tensor" in each else _NO_GAIN for each in unfused]
    common = Counter(reasons).most_common(1)
    return f"{common[0][1]} x {common[0][0]}" if common else ""


def table(rows: list[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table of the rows and their mean."""
    yield "| model | before | after | streamed | ratio | exact | ceiling | seconds | why not more |"
    yield "|---|--:|--:|--:|--:|---|--:|--:|---|"
    for row in rows:
        *cells, reason = row.cells()
        yield f"| {' | '.join(cells)} | {reason[:LONGEST_REASON]} |"
    worse = sum(1 for row in rows if row.ratio is not None and row.ratio < 1)
    refused = sum(1 for row in rows if row.report is None)
    yield ""
    for how, gains in (
        ("", [row.ratio for row in rows if row.counts]),
        (", streamed", [row.gain_streamed for row in rows if row.counts]),
    ):
        if reached := [gain for gain in gains if gain is not None]:
            mean = exp(sum(map(log, reached)) / len(reached))
            models = f"the {len(reached)} models with int8 or uint8 input and a block{how}"
            yield f"{mean:.2f}x is the geometric mean of {models}."
    yield f"{len(rows)} models: {refused} refused, {worse} larger than before."
    if rows:
        slowest = max(rows, key=lambda row: row.seconds)
        yield f"{slowest.name} took longest, {slowest.seconds:.0f} s."
    yield from _reasons(rows)


def _reasons(rows: list[Row]) -> Iterator[str]:
    """Return what keeps operators out of blocks, most models first."""
    keys = Counter(key for row in rows for key in row.outside)
    if not keys:
        return
    yield ""
    yield "| operator | why it is outside blocks | models | most bytes it writes |"
    yield "|---|---|--:|--:|"
    for (name, reason), count in keys.most_common(MOST_REASONS):
        most = max(row.outside.get((name, reason), 0) for row in rows)
        yield f"| {name} | {reason[:LONGEST_REASON]} | {count} | {most:,} |"


def main() -> None:
    """Measure all models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--inputs", type=int, default=4, help="to verify every model on")
    parser.add_argument("--time-limit", type=float, help="seconds each search may take")
    parser.add_argument("--model-limit", type=int, default=600, help="seconds each model may take in all")
    arguments = parser.parse_args()
    paths = sorted(arguments.folder.rglob("*.tflite"))
    rows = []
    for path in paths:
        name = str(path.relative_to(arguments.folder))
        rows.append(measured_within(arguments.model_limit, path, name, arguments.inputs, arguments.time_limit))
        print("\t".join(rows[-1].cells()), flush=True)
    print()
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
