#!/usr/bin/env python3
"""Write the table of docs/operators.md from the tables of the code: how each operator runs on each type."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.readme import write_part
from tflite_fuse.errors import BlockError
from tflite_fuse.model.macs import WEIGHTED
from tflite_fuse.model.schema import Buffer, Model, Operator, OperatorCode, Quantization, SubGraph, Tensor
from tflite_fuse.model.types import BUILTIN_CODES, TensorType
from tflite_fuse.ops.kinds.lookup import FUNCTIONS
from tflite_fuse.ops.kinds.real import REAL_LOWERINGS, REAL_OPERATORS
from tflite_fuse.ops.lowering.lower import lower_operator
from tflite_fuse.ops.lowering.movement import MOVES
from tflite_fuse.ops.table import FLOAT_LOWERINGS, FLOAT_OPERATORS, LOWERINGS
from tflite_fuse.runtime.registration import method, registered

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operators.md"

HEAD = "| operator | int8 | float32 | uint8 | int16 | hybrid |\n|---|---|---|---|---|---|\n"

ABSENT = "–"


def operators() -> str:
    """Return a row for each operator of TFLM and of blocks: how it runs on each type. Custom ones come last."""
    own = {"BITWISE_XOR"}  # TFLite has it on integers alone; blocks join float32 by it
    in_blocks = {name for name in (*LOWERINGS, *FLOAT_LOWERINGS, *MOVES) if not name.startswith("CUSTOM:")}
    custom = {name for name in registered() if name.startswith("CUSTOM:")}
    names = (*sorted({*in_blocks, *registered()} - own - custom), *sorted(custom))
    ways = (_on_int8, _on_float32, _on_uint8, _outside, _hybrid)
    rows = ((name.removeprefix("CUSTOM:"), *(way(name) for way in ways)) for name in names)
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _on_int8(name: str) -> str:
    ways = {"table": FUNCTIONS, "block": {*LOWERINGS, *MOVES, *_BORDERS}}
    return next((way for way, names in ways.items() if name in names), _outside(name))


def _on_float32(name: str) -> str:
    ways = {"block": {*FLOAT_OPERATORS, *MOVES, *_BORDERS}, "table": REAL_OPERATORS}
    return ", ".join(way for way, names in ways.items() if name in names) or _outside(name)


def _on_uint8(name: str) -> str:
    return "block" if _takes_uint8(name) else "refused" if name in WEIGHTED else _outside(name)


def _hybrid(name: str) -> str:
    return "refused" if name in WEIGHTED else ABSENT


def _outside(name: str) -> str:
    return ABSENT if method(name) is None else "around"


_BORDERS = frozenset(REAL_LOWERINGS) - REAL_OPERATORS
"""Operators from float32 to int8, or back."""


def _takes_uint8(name: str) -> bool:
    """Return whether a block holds an operator with nothing but one input, of uint8."""
    return name in BUILTIN_CODES and any(
        _is_lowered(name, type_) for type_ in (TensorType.UINT8, TensorType.INT8, TensorType.FLOAT32)
    )


def _is_lowered(name: str, type_: TensorType) -> bool:
    scale = Quantization(scale=(0.5,), zero_point=(0,))
    source, output = (Tensor((1, 2, 2, 4), each, 0, "", scale) for each in (TensorType.UINT8, type_))
    code = OperatorCode(min(BUILTIN_CODES[name], 127), None, 1, BUILTIN_CODES[name])
    graph = SubGraph((source, output), (0,), (1,), (Operator(0, (0,), (1,), None),), "")
    try:
        lower_operator(Model(3, (code,), (graph,), "", (Buffer(),)), 0)
    except BlockError:
        return False
    return True


if __name__ == "__main__":
    write_part("operators", operators(), PAGE)
