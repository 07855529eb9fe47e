"""Cycles of a run: each block of code after the one before it, times its count, plus branches and caches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from scripts.timing.cores import Core
from scripts.timing.counting import Cache, Interval, Misses, Place
from scripts.timing.disassembly import Instruction, Kind


@dataclass(frozen=True)
class Memory:
    """Caches of a chip, and cycles the core waits for a line that is not there.

    Attributes:
        code, data: the caches; None where there is none.
        of_code, of_flash, of_ram, of_stores: cycles for a line of instructions, of data in flash, of data in RAM, and
            for one that is written.
        caches_ram: whether data in RAM comes through the cache; RAM that does not is taken for one that never waits.
    """

    code: Cache | None = None
    data: Cache | None = None
    of_code: float = 0.0
    of_flash: float = 0.0
    of_ram: float = 0.0
    of_stores: float = 0.0
    caches_ram: bool = True

    def cycles(self, misses: Misses) -> float:
        """Return the cycles of so many misses."""
        return (
            misses.code * self.of_code
            + misses.flash * self.of_flash
            + misses.ram * self.of_ram
            + misses.stores * self.of_stores
        )


NO_WAITS = Memory()


@dataclass(frozen=True)
class Cycles:
    """Of an interval.

    Attributes:
        core: with memory that never waits, expected branches.
        branches: for those that were not expected.
        memory: waiting for the memory.
    """

    core: float
    branches: float
    memory: float

    @property
    def total(self) -> float:
        return self.core + self.branches + self.memory


def cycles(interval: Interval, program: Mapping[int, Instruction], core: Core, memory: Memory = NO_WAITS) -> Cycles:
    """Return the expected cycles of an interval.

    Args:
        interval: what ran.
        program: its instructions by address.
        core, memory: of the chip.
    """
    blocks: dict[Place, list[Instruction]] = {}
    straight = 0.0
    ways: dict[Place, list[int]] = defaultdict(lambda: [0, 0])
    for (before, here), times in interval.times.items():
        for place in (before, here):
            if place not in blocks:
                blocks[place] = block(program, place)
        straight += times * core.cycles(blocks[before], blocks[here])
        if blocks[before][-1].conditional:
            ways[before][blocks[before][-1].end == here[0]] += times
    unexpected = sum(min(taken, others) for taken, others in ways.values())
    return Cycles(straight, unexpected * core.misprediction, memory.cycles(interval.misses))


def block(program: Mapping[int, Instruction], place: Place) -> list[Instruction]:
    """Return the instructions of a block of code."""
    found, address = [], place[0]
    for _ in range(place[1]):
        found.append(program.get(address) or Instruction(address, 4, "outside", Kind.ALU))  # the machine's own start
        address = found[-1].end
    return found


def by_address(interval: Interval, program: Mapping[int, Instruction]) -> dict[int, int]:
    """Return how often each instruction ran."""
    found: dict[int, int] = defaultdict(int)
    for (_, here), times in interval.times.items():
        for each in block(program, here):
            found[each.address] += times
    return found
