"""A model's figures as Model Explorer's node data: for each quantity one object with a value for each operator.

Nodes are identified by the name of an operator's first output. Names that several operators write are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tflite_fuse.console import write_json
from tflite_fuse.errors import UsageError
from tflite_fuse.report.inspection import Inspection, OperatorRow

NodeData = dict[str, Any]

_COLOURS = [{"stop": 0, "bgColor": "#f4f7fb"}, {"stop": 1, "bgColor": "#d98324"}]
"""Colours of the least and the largest value."""

INSIDE = "can be in a block"

QUANTITIES: dict[str, tuple[str, Callable[[OperatorRow], int | str]]] = {
    "live_bytes": ("tflite-fuse: bytes live", lambda row: row.working_set_bytes),
    "macs": ("tflite-fuse: multiply-accumulates", lambda row: row.macs),
    "blocks": ("tflite-fuse: why in no block", lambda row: row.blocked or INSIDE),
}
"""Name of the file → heading, and value of an operator."""


def node_data(inspection: Inspection) -> dict[str, NodeData]:
    """Return every quantity by the name of its file."""
    writers = Counter(row.output for row in inspection.operators)
    rows = [row for row in inspection.operators if row.output and writers[row.output] == 1]
    by_name: dict[str, NodeData] = {}
    for name, (heading, value) in QUANTITIES.items():
        results = {row.output: {"value": value(row)} for row in rows}
        by_name[name] = {"name": heading, "results": results}
        if all(isinstance(each["value"], int) for each in results.values()):
            by_name[name]["gradient"] = _COLOURS
    return by_name


def write_node_data(inspection: Inspection, folder: Path) -> None:
    """Write a file for each quantity, for Model Explorer's menu of custom data. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: no folder can be made there ({error.strerror or error})") from error
    for name, data in node_data(inspection).items():
        write_json(data, folder / f"{name}.json")
