#!/usr/bin/env python3
"""Write the table of docs/operators.md from the tables of the code: how each operator runs on each type."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.readme import write_part
from tflite_fuse.memory.tflm.struct_sizes import ARM
from tflite_fuse.ops.kinds.lookup import FUNCTIONS
from tflite_fuse.ops.kinds.real import REAL_LOWERINGS, REAL_OPERATORS
from tflite_fuse.ops.lowering.movement import MOVES
from tflite_fuse.ops.table import FLOAT_LOWERINGS, FLOAT_OPERATORS, LOWERINGS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operators.md"

HEAD = "| operator | int8 | float32 |\n|---|---|---|\n"


def operators() -> str:
    """Return a row for each operator, by its name in TFLite's schema: how it runs on int8 and on float32."""
    named = {*LOWERINGS, *FLOAT_LOWERINGS, *MOVES, *ARM.operators}
    own = {"BITWISE_XOR"}  # TFLite has it on integers alone; blocks join float32 by it
    rows = sorted(name for name in named - own if not name.startswith("CUSTOM:"))
    return HEAD + "".join(f"| {name} | {_on_int8(name)} | {_on_float32(name)} |\n" for name in rows)


def _on_int8(name: str) -> str:
    ways = {"table": FUNCTIONS, "block": {*LOWERINGS, *MOVES}, "border": _BORDERS}
    return next((way for way, names in ways.items() if name in names), "around")


def _on_float32(name: str) -> str:
    ways = {"block": {*FLOAT_OPERATORS, *MOVES}, "table": REAL_OPERATORS, "border": _BORDERS}
    return ", ".join(way for way, names in ways.items() if name in names) or "around"


_BORDERS = frozenset(REAL_LOWERINGS) - REAL_OPERATORS
"""Operators from float32 to int8, or back."""


if __name__ == "__main__":
    write_part("operators", operators(), PAGE)
