"""The memories of a device, as a TOML file describes them.

[[region]]                           # the fast one: the arena, with scratch memory of blocks
name = "sram"
size = "64KiB"
address = 0x20000000                 # optional: then regions must not overlap

[[region]]                           # the slow one: tensors between blocks
name = "psram"
size = "8MiB"
read_cycles_per_byte = 8             # cycles beyond those of the fast memory; 1 by default
write_cycles_per_byte = 8
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tflite_fuse.errors import UsageError
from tflite_fuse.files import about, name_of, only, read_toml, size_of
from tflite_fuse.model.memories import Memories, Region

_KEYS = ("name", "size", "address", "read_cycles_per_byte", "write_cycles_per_byte")
_DEAREST = 1e6


def read_memories(path: str | Path) -> Memories:
    """Return the memories that a TOML file describes.

    Raises:
        UsageError: it is no TOML, has an unknown entry, or its regions overlap; the message names the place.
    """
    document = read_toml(path)
    with about(path):
        return memories_of(document)


def named_sizes(text: str) -> Memories:
    """Return the fast and the slow memory of ``fast=64kB,slow=2MB``. Raises UsageError."""
    tables = [dict(zip(("name", "size"), map(str.strip, part.split("=", 1)), strict=False)) for part in text.split(",")]
    if len(tables) != 2:
        raise UsageError(f"{text!r} is not two memories: write the fast one first, like fast=64kB,slow=2MB")
    return memories_of({"region": tables})


def memories_of(document: Mapping[str, Any]) -> Memories:
    """Return the memories of a parsed file. Raises UsageError."""
    only(document, ("region",), "the file")
    tables = document.get("region", ())
    tables = tables if isinstance(tables, list) and all(isinstance(table, dict) for table in tables) else ()
    if len(tables) != 2:
        raise UsageError(
            f"two tables [[region]] are needed, not {len(tables)}: first the fast memory, then the slow one"
        )
    fast, slow = (region_of(table, f"region {number}") for number, table in enumerate(tables, start=1))
    if fast.name == slow.name:
        raise UsageError(f"both regions are named {fast.name!r}")
    if fast.address is not None and slow.address is not None:
        first, second = sorted((fast, slow), key=lambda region: region.address or 0)
        end = (first.address or 0) + first.nbytes
        if end > (second.address or 0):
            raise UsageError(f"the regions {first.name} and {second.name} overlap: {first.name} ends at {end:#x}")
    return Memories(fast, slow)


def region_of(table: Mapping[str, Any], where: str) -> Region:
    """Return the memory that a table describes; ``where`` names the table in errors. Raises UsageError."""
    only(table, _KEYS, where)
    missing = [key for key in _KEYS[:2] if key not in table]
    if missing:
        raise UsageError(f"{where} has no {missing[0]!r}")
    name, address = name_of(table["name"], where), table.get("address")
    size = size_of(table["size"], f"'size' of {where}")
    if not 0 < size < 1 << 31:
        raise UsageError(f"'size' of {where} is above 0 and below 2 GiB, not {table['size']!r}")
    if address is not None and (type(address) is not int or address < 0):
        raise UsageError(f"'address' of {where} is a whole number, not {address!r}")
    costs = [table.get(key, 1.0) for key in _KEYS[3:]]
    for key, cost in zip(_KEYS[3:], costs, strict=True):
        if type(cost) not in (int, float) or not 0 <= cost <= _DEAREST:
            raise UsageError(f"{key!r} of {where} is a number of cycles from 0 to {_DEAREST:,.0f}, not {cost!r}")
    return Region(name, size, float(costs[0]), float(costs[1]), address)
