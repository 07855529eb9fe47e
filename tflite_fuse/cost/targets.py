"""Targets by the names used in options: a core, or a chip or board with a known core.

    esp32s3, esp32-s3-devkitc-1   →  xtensa          teensy41, stm32h743  →  cortex-m7

``data/boards.csv`` lists the chip and core of each board. This module maps chips without a core name to one of the
measured cores. Xtensa is measured with compiled C, without the vector instructions of an ESP32-S3.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import UsageError
from tflite_fuse.files import nearest

BOARDS_FILE = Path(__file__).resolve().parents[1] / "data" / "boards.csv"

_OF_CORE = {target.value: target for target in Target}
_OF_MCU = {
    "esp32": Target.XTENSA,
    "esp32s2": Target.XTENSA,
    "esp32s3": Target.XTENSA,
    "esp32c3": Target.ESP32C3,
    "esp32c6": Target.ESP32C3,
}
_STM32 = re.compile(r"stm32[a-z][a-z0-9]{3}")
"""The part of such a chip's name that determines its core; package, memory size and grade follow."""


@dataclass(frozen=True)
class Named:
    """Meaning of a target's name.

    Attributes:
        target: the core.
        board: the first board of the table that has this name or this chip; empty for a core.
    """

    target: Target
    board: str = ""


def target_of(core: str, mcu: str) -> Target | None:
    """Return the measured core for a core or a chip as named in boards' manifests; None if there is none."""
    return _OF_CORE.get(core) or _OF_MCU.get(mcu) or _OF_MCU.get(core)


def read_core(core: str, mcu: str) -> str:
    """Return a core as named in boards' manifests or targets, from a free-text name.

    Args:
        core: its name; empty for the core of ``mcu``.
        mcu: the chip, if any. An unknown chip is accepted; a known one has the core of the table.

    Raises:
        UsageError: no core has this name.
    """
    names = [row[1] for row in _chips().values() if row[1]]
    cores = {_plain(each): each for each in (*_OF_CORE, *_OF_MCU, *names)}
    if not core:
        series = _STM32.match(_plain(mcu))
        board = _chips().get(_plain(mcu)) or _chips().get(series[0] if series else "")
        return "" if board is None else board[1] or board[2]
    if _plain(core) not in cores:
        raise UsageError(
            f"{core!r} is not a known core{nearest(core.lower(), [*cores.values()])}; choose from "
            f"{', '.join(cores.values())}, or leave it out for {Target.GENERIC.value}"
        )
    return cores[_plain(core)]


def read_target(word: str) -> Named:
    """Return the target of a name; raise UsageError if it is unknown or its core was not measured."""
    plain = _plain(word)
    if plain in _targets():
        return Named(_targets()[plain])
    if plain not in _chips():
        values = [target.value for target in Target]
        written = sorted({each for name, _, mcu in _chips().values() for each in (name, mcu)})
        hint = nearest(word.lower(), [*values, *written])
        raise UsageError(f"{word!r} is no target; choose from {', '.join(values)}, or name a chip or a board{hint}")
    board, core, mcu = _chips()[plain]
    target = target_of(core, mcu)
    if target is None:
        raise UsageError(
            f"{word!r} has a {core}, whose instructions were not measured; choose {Target.GENERIC.value}, which uses "
            f"those of {Target.GENERIC.core}"
        )
    return Named(target, board)


def _plain(word: str) -> str:
    return re.sub(r"[-_ .]", "", word.lower())


@cache
def _targets() -> dict[str, Target]:
    return {_plain(target.value): target for target in Target}


@cache
def _chips() -> dict[str, tuple[str, str, str]]:
    """Return board, core and chip by every name of a board, and of the chips in the table."""
    chips: dict[str, tuple[str, str, str]] = {}
    with BOARDS_FILE.open(newline="") as lines:
        rows = [(row["name"], row["core"], row["mcu"]) for row in csv.DictReader(lines)]
    for name, core, mcu in rows:
        chips[_plain(name)] = (name, core, mcu)
    for name, core, mcu in rows:
        series = _STM32.match(mcu)
        for each in (mcu, series[0] if series else mcu):
            chips.setdefault(_plain(each), (name, core, mcu))
    return chips
