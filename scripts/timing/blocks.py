"""Cycles of each block of a program of the device tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.timing.chips import CHIPS
from scripts.timing.counting import intervals, symbol
from scripts.timing.disassembly import disassemble
from scripts.timing.model import Cycles, cycles
from tests.device.targets import Target

MARK = "device_instructions"
"""The function that ``tests/device/runner.c`` calls before and behind everything it counts."""


@dataclass(frozen=True)
class Counted:
    """What one part of a program took: instructions counted, cycles of the timing model."""

    instructions: int
    cycles: Cycles


def of_program(target: Target, elf: Path, mark: str) -> list[Counted]:
    """Run a program; what it took up to each call of a function, and after the last.

    Args:
        target: the emulated core, one of ``CHIPS``.
        elf: the program.
        mark: the function.
    """
    chip, emulator = CHIPS[target.name], target.emulator.split()
    memory = chip.memory
    cached = None if memory.caches_ram else chip.ram
    ran, _ = intervals(emulator, elf, symbol(elf, target.prefix, mark), memory.code, memory.data, chip.ram, cached)
    program = disassemble(elf, target.prefix)
    return [Counted(each.instructions, cycles(each, program, chip.core, memory)) for each in ran]


def of_blocks(target: Target, elf: Path, blocks: int, runs: int = 1) -> list[Counted]:
    """Return the cost of each block in the last run of a program that ``tests.device.targets.build`` made.

    Args:
        blocks: of the program.
        runs: of the program: in all but the first, caches hold what the one before left there.
    """
    costs = of_program(target, elf, MARK)
    first = 2 * blocks * runs + 1
    return costs[first : first + 2 * blocks : 2]
