#!/usr/bin/env python3
"""Write the README's list of operators that fused blocks hold, as the table of stage kinds has them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.readme import write_part
from tflite_fuse.ops.kinds.real import REAL_OPERATORS
from tflite_fuse.ops.table import FLOAT_OPERATORS, LOWERINGS

WIDTH = 120


def operators() -> str:
    """All of them by their names in TFLite's schema, as lines of the README."""
    named = [name for name in LOWERINGS if not name.startswith("CUSTOM:")]
    lists = {
        "On int8": named,
        "On float32": FLOAT_OPERATORS,
        "On float32 between a DEQUANTIZE and a QUANTIZE": REAL_OPERATORS,
    }
    return "\n".join(_listed(where, names) for where, names in lists.items())


def _listed(where: str, names: Iterable[str]) -> str:
    text = f"{where}: {', '.join(sorted(names))}."
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ") + "\n"


if __name__ == "__main__":
    write_part("operators", operators())
