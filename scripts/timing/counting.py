"""Runs a program in QEMU with the plugin of this folder, which counts executed code and missed cache lines."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCE = Path(__file__).with_name("executions.c")

_built = TemporaryDirectory(prefix="tflite-fuse-plugin-")

Place = tuple[int, int]
"""Address and number of instructions of a block of code."""


@dataclass(frozen=True)
class Cache:
    """Bytes, lines that may hold one address, and bytes of a line; replaced is what was used longest ago."""

    size: int
    ways: int
    line: int

    def __str__(self) -> str:
        return f"{self.size}:{self.ways}:{self.line}"


@dataclass(frozen=True)
class Misses:
    """Lines that were not in the caches: of code, of data read from flash and from RAM, of data written."""

    code: int = 0
    flash: int = 0
    ram: int = 0
    stores: int = 0


@dataclass
class Interval:
    """What ran between two calls of the marked function.

    Attributes:
        misses: of the caches, all 0 without them.
        times: of each block behind another.
    """

    misses: Misses = field(default_factory=Misses)
    times: dict[tuple[Place, Place], int] = field(default_factory=dict)

    @property
    def instructions(self) -> int:
        """Return the number of executed instructions, including those with a false condition."""
        return sum(place[1] * count for (_, place), count in self.times.items())


@cache
def plugin() -> Path:
    """Return the path of the plugin, compiled for this machine."""
    library = Path(_built.name) / "executions.so"
    command = ["gcc", "-std=c11", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return library


def symbol(elf: Path, prefix: str, name: str) -> int:
    """Return the address of a function. Raises ValueError."""
    listing = subprocess.run([f"{prefix}nm", str(elf)], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        if line.split()[-1] == name:
            return int(line.split()[0], 16) & ~1
    raise ValueError(f"{elf.name} has no {name}")


def intervals(
    emulator: Sequence[str],
    elf: Path,
    mark: int,
    code: Cache | None = None,
    data: Cache | None = None,
    ram: int = 0x20000000,
    cached: int | None = None,
    timeout: float = 1800,
) -> tuple[list[Interval], str]:
    """Run a program; what ran until each call of a function and after the last, and what it printed.

    Args:
        emulator: the command, without the program's path behind it.
        mark: address of the function.
        code, data: caches to simulate.
        ram: the address from which on misses count as those of RAM.
        cached: the address from which on no data is in a cache, and none is missed.
    """
    with TemporaryDirectory() as folder:
        out = Path(folder) / "ran.txt"
        options = [f"{plugin()}", f"out={out}", f"mark={mark:#x}", f"ram={ram:#x}"]
        options += [f"{name}={each}" for name, each in (("code", code), ("data", data)) if each is not None]
        options += [f"cached={cached:#x}"] if cached is not None else []
        command = [emulator[0], "-plugin", ",".join(options), *emulator[1:], str(elf)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode != 0 or not out.exists():
            raise RuntimeError(f"{emulator[0]} failed with {done.returncode}: {done.stderr[-2000:]}")
        return read(out.read_text()), done.stdout


def read(text: str) -> list[Interval]:
    """Return the intervals in the plugin's file."""
    counted: list[Interval] = []
    for line in text.splitlines():
        word, *rest = line.split()
        if word == "interval":
            counted.append(Interval())
        elif word == "misses":
            counted[-1].misses = Misses(*map(int, rest))
        elif word == "ran":
            before, here = (int(rest[0], 16), int(rest[1])), (int(rest[2], 16), int(rest[3]))
            counted[-1].times[before, here] = counted[-1].times.get((before, here), 0) + int(rest[4])
    return counted
