"""The arena over time for Chrome's trace viewer and Perfetto."""

from __future__ import annotations

from typing import Any

from tflite_fuse.report.arena_map import ArenaMap, Box

STEP = 1000
"""Microseconds of an operator in a trace, which shows order, not time."""

_OPERATORS = 1


def arena_trace(shown: ArenaMap, name: str) -> dict[str, Any]:
    """Return a trace: a slice per tensor and per ring, one per operator, and the bytes in use as a counter.

    Slices that overlap in time are in different rows. In the first step inputs are filled in.
    """
    rows = _rows(shown.boxes)
    named = [_name("process_name", 0, name), _name("thread_name", _OPERATORS, "operators")]
    named += [_name("thread_name", row, f"arena {row - _OPERATORS}") for row in sorted(set(rows))]
    operators = [
        _slice(label, _OPERATORS, step, step, {"step": step})
        for step, label in enumerate(("inputs", *shown.steps), start=-1)
    ]
    boxes = [
        _slice(box.name, row, box.first, box.last, {"kind": box.kind, "offset": box.offset, "bytes": box.nbytes})
        for box, row in zip(shown.boxes, rows, strict=True)
    ]
    counters = [
        {"ph": "C", "name": "live bytes", "pid": 1, "ts": step * STEP, "args": {"bytes": size}}
        for step, size in enumerate((*shown.used_bytes(), 0))
    ]
    return {"displayTimeUnit": "ms", "traceEvents": [*named, *operators, *boxes, *counters]}


def _name(what: str, row: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 1, "tid": row, "args": {"name": name}}


def _slice(name: str, row: int, first: int, last: int, arguments: dict[str, Any]) -> dict[str, Any]:
    start, length = (first + 1) * STEP, (last - first + 1) * STEP
    return {"ph": "X", "name": name, "pid": 1, "tid": row, "ts": start, "dur": length, "args": arguments}


def _rows(boxes: tuple[Box, ...]) -> list[int]:
    """Return for each box the first row that is free during its life."""
    free: list[int] = []
    rows = [0] * len(boxes)
    for index in sorted(range(len(boxes)), key=lambda index: (boxes[index].first, boxes[index].offset)):
        box = boxes[index]
        row = next((row for row, until in enumerate(free) if until < box.first), len(free))
        free[row : row + 1] = [box.last]
        rows[index] = row + _OPERATORS + 1
    return rows
