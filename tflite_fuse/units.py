"""Sizes in bytes: parsed from text, and rounded up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from tflite_fuse.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Count = TypeVar("Count", int, "npt.NDArray[np.int64]")

_UNITS = {"": 1, "b": 1, "kb": 1000, "k": 1000, "mb": 1000**2, "kib": 1024, "mib": 1024**2}


def parse_bytes(text: str) -> int:
    """Return the bytes of ``64kB`` (1000 bytes each), ``64KiB`` (1024 each) or ``65536``, of at most twelve digits.

    Raises:
        UsageError: it is no such size.
    """
    match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,12})?)\s*([A-Za-z]*)\s*", text, re.ASCII)
    if match is None or match[2].lower() not in _UNITS:
        raise UsageError(f"{text!r} is not a size; write it like 64kB, 64KiB or 65536")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def parse_pair(text: str, what: str) -> tuple[int, int]:
    """Return (8, 4) of ``8x4``: height and width of the thing that ``what`` names. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,9})x(\d{1,9})", text, re.ASCII)
    if match is None or int(match[1]) < 1 or int(match[2]) < 1:
        raise UsageError(f"{text!r} is not {what}; write height x width like 8x8")
    return int(match[1]), int(match[2])


def round_up(size: Count, multiple: int) -> Count:
    """Return the next multiple of a number, or of each in an array."""
    return -(-size // multiple) * multiple
