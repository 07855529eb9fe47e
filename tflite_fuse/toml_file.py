"""TOML files of users: what is not understood is an error, with the nearest thing that would be."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tflite_fuse.errors import UsageError
from tflite_fuse.files import read_file
from tflite_fuse.units import parse_bytes

_MOST_BYTES = 1 << 20
"""Longer files are no settings."""


def read_toml(path: str | Path) -> dict[str, Any]:
    """What a file says. Raises UsageError: it cannot be read, or is no TOML."""
    return parse_toml(read_file(Path(path)), path)


def parse_toml(data: bytes, path: str | Path) -> dict[str, Any]:
    """What a file of these bytes says. Raises UsageError: it is no TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # the same parser, from before it came with the language
        import tomli as tomllib
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path}: is longer than {_MOST_BYTES:,} bytes")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f"{path}: is UTF-16, and TOML is UTF-8: save it as that")
    try:
        document = tomllib.loads(data.decode("utf-8-sig"))  # editors of Windows mark files of UTF-8, too
        _require_64_bits(document)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError, as what int() says of many digits
        raise UsageError(f"{path}: not valid TOML ({error})") from error
    return document


def _require_64_bits(value: object) -> None:
    """TOML's whole numbers are what 64 bits hold; Python's parser takes any, which neither floats nor arrays do."""
    if isinstance(value, int) and value.bit_length() > 63:
        raise ValueError("a whole number has more than 64 bits")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _require_64_bits(each)


def only(table: Mapping[str, Any], known: Collection[str], what: str) -> None:
    """Raise UsageError for the first key that ``what`` does not have."""
    for key in table:
        if key not in known:
            raise UsageError(f"{what} has the unknown key {key!r}{nearest(key, known)}")


def nearest(word: str, known: Collection[str]) -> str:
    """``; did you mean 'worker'?``, or nothing where nothing is near."""
    import difflib  # for mistakes alone

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def size_of(value: object, what: str) -> int:
    """Bytes, of a number or of a text like 128kB, of at most twelve digits. Raises UsageError."""
    if isinstance(value, str):
        try:
            return parse_bytes(value)
        except UsageError as error:
            raise UsageError(f"{what}: {error}") from error
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**12:
        raise UsageError(f'{what} is a size like "128kB" or 131072, not {value!r}')
    return value
