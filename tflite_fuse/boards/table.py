"""Boards known by name, and boards that a user describes.

``data/boards.csv`` holds facts from the public board manifests of PlatformIO; its column ``source`` names the manifest
of each row. RAM and flash are the manifests' sizes for a program, which are less than the chip's if a boot loader or a
radio reserves some. ``second`` is a slower memory beside that RAM, from the board's data sheet; ``second_cycles`` of
the core is the time of a byte on its bus, without latency. A user's board is a TOML file of these keys:

    name = "my_board"
    mcu = "stm32h743"          # optional, as are title, vendor and core
    core = "cortex-m7"         # default: that of the mcu, else "generic"
    mhz = 400
    ram = "512KiB"
    flash = "2MiB"

    [second]                   # optional: a slower memory, as a region of ``--memory``
    name = "psram"
    size = "8MiB"
    read_cycles_per_byte = 6
    write_cycles_per_byte = 6
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.targets import BOARDS_FILE, read_core, target_of
from tflite_fuse.errors import UsageError
from tflite_fuse.files import about, name_of, only, read_toml, size_of
from tflite_fuse.memory.regions import region_of
from tflite_fuse.model.memories import Memories, Region

_REQUIRED, _OPTIONAL = ("name", "mhz", "ram", "flash"), ("title", "vendor", "mcu", "core")
_SECOND = "second"


@dataclass(frozen=True)
class Board:
    """A microcontroller board.

    Attributes:
        name: its ecosystem's, such as ``nano33ble``.
        title, vendor, mcu, core: from its manifest; may be empty.
        mhz: clock of the core.
        ram_bytes, flash_bytes: available to a program.
        source: of the figures.
        second: slower memory beside its RAM; None without one.
    """

    name: str
    title: str
    vendor: str
    mcu: str
    core: str
    mhz: int
    ram_bytes: int
    flash_bytes: int
    source: str
    second: Region | None = None

    def room(self, reserve_bytes: int | None = None) -> int:
        """Return the bytes of RAM for an arena beside a reserve for the rest of a program, by default a quarter."""
        return self.ram_bytes - (self.ram_bytes // 4 if reserve_bytes is None else reserve_bytes)

    def memories(self, room: int) -> Memories | None:
        """Return so many bytes of its RAM with its second memory; None without one."""
        return None if self.second is None else Memories(Region("ram", room), self.second)

    @property
    def target(self) -> Target:
        """Return the core whose predicted instructions apply to this board; ``generic`` if none is near."""
        return target_of(self.core, self.mcu) or Target.GENERIC


@cache
def known_boards() -> tuple[Board, ...]:
    """Return all boards of the table, in order."""
    with BOARDS_FILE.open(newline="") as lines:
        return tuple(map(_listed, csv.DictReader(lines)))


def _listed(row: Mapping[str, Any]) -> Board:
    """Return the board of a row of the table."""
    texts = {name: row[name] for name in ("name", "title", "vendor", "mcu", "core", "source")}
    numbers = {name: int(row[name]) for name in ("mhz", "ram_bytes", "flash_bytes")}
    return Board(**{**texts, **numbers}, second=_second(row))


def _second(row: Mapping[str, str]) -> Region | None:
    cycles = float(row["second_cycles"] or 0)
    return Region(row["second"], int(row["second_bytes"]), cycles, cycles) if row["second"] else None


def find_board(name: str) -> Board:
    """Return a board by its name in the table, or by the path of a user's ``.toml``. Raises UsageError."""
    return read_board(Path(name)) if name.lower().endswith(".toml") else listed_board(name)


def listed_board(name: str) -> Board:
    """Return a board by its name in the table. Raises UsageError."""
    boards = {board.name.lower(): board for board in known_boards()}
    board = boards.get(name.lower())
    if board is not None:
        return board
    near = [board.name.lower() for board in known_boards() if len(name) > 3 and name.lower() in board.mcu.lower()][:3]
    near = near or get_close_matches(name.lower(), boards, n=3, cutoff=0.4)
    near += [each for each in boards if name and name.lower() in each and each not in near][: 3 - len(near)]
    hint = (
        f"did you mean {', '.join(boards[each].name for each in near)}?" if near else "`tflite-fuse boards` lists them"
    )
    raise UsageError(f"{name!r} is no board that is known: {hint}")


def read_board(path: Path) -> Board:
    """Return the board of a user's TOML file. Raises UsageError."""
    values = read_toml(path)
    with about(path):
        return _described(values, str(path))


def _described(values: Mapping[str, Any], source: str) -> Board:
    only(values, (*_REQUIRED, *_OPTIONAL, _SECOND), "a board")
    missing = [key for key in _REQUIRED if key not in values]
    if missing:
        raise UsageError(f"{missing[0]!r} is missing: a board has {', '.join(_REQUIRED)}")
    name = name_of(values["name"], "a board")
    for key in _OPTIONAL:
        if not isinstance(values.get(key, ""), str):
            raise UsageError(f"{key!r} is a text, not {values[key]!r}")
    mhz = values["mhz"]
    if not isinstance(mhz, int) or isinstance(mhz, bool) or not 0 < mhz < 1 << 16:
        raise UsageError(f"'mhz' is a whole number of megahertz, not {mhz!r}")
    title, vendor, mcu, core = (values.get(key, "") for key in _OPTIONAL)
    ram, flash = (_memory(values[key], repr(key)) for key in ("ram", "flash"))
    table = values.get(_SECOND)
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{_SECOND!r} is a table with name and size, not {table!r}")
    second = None if table is None else region_of(table, f"[{_SECOND}]")
    return Board(name, title, vendor, mcu, read_core(core, mcu), mhz, ram, flash, source, second)


def _memory(value: object, key: str) -> int:
    size = size_of(value, key)
    if not 0 < size < 1 << 40:
        raise UsageError(f"{key} is above 0, not {value!r}")
    return size
