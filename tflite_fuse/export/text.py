"""Pieces of C and C++ source, and templates of files. Texts from a model file are sanitized."""

from __future__ import annotations

import math
import re
import struct
from functools import cache
from pathlib import Path
from string import Template

_PER_LINE = 20
_LONGEST = 60


_TEMPLATES = Path(__file__).with_name("templates")


def fill(path: str, /, **values: object) -> str:
    """Return a file of ``templates/`` with values in place of its ``$names``."""
    return _template(path).substitute(values)


@cache
def _template(path: str) -> Template:
    return Template((_TEMPLATES / path).read_text(encoding="utf-8"))


def comment(text: str | None) -> str:
    """Return a name from a file made safe for a comment: it can neither end it nor hide a line."""
    plain = re.sub(r"[^A-Za-z0-9_.:;, +()\[\]-]", "_", text or "")
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 3]}..."


def byte_array(declaration: str, data: bytes) -> str:
    """Return ``declaration = {0x12, ...};``, a definition of an array of bytes."""
    rows = (data[at : at + _PER_LINE] for at in range(0, len(data), _PER_LINE))
    body = "\n".join("    " + "".join(f"{byte}," for byte in row) for row in rows)
    return f"{declaration} = {{\n{body or '    0'}\n}};\n"


def float_literal(value: float) -> str | None:
    """Return the shortest literal of the same float32; None if there is no literal for it."""
    if not math.isfinite(value) or abs(value) > 3.4e38:
        return None
    single = struct.unpack("<f", struct.pack("<f", value))[0]
    for digits in range(1, 10):
        text = f"{single:.{digits}g}"
        if struct.pack("<f", float(text)) == struct.pack("<f", single):
            break
    return f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f"


def int_literal(value: int) -> str:
    """Return a number as an operand of any operator: ``12`` or ``(-12)``."""
    return f"({value})" if value < 0 else str(value)
