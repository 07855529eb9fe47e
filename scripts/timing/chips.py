"""Chips with published cycles, their core's timing model and the wait states of their memory."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.timing.cores import Core, CortexM4, CortexM7, CortexM55, Scalar
from scripts.timing.counting import Cache
from scripts.timing.model import NO_WAITS, Memory


@dataclass(frozen=True)
class Chip:
    """A chip as the model sees it.

    Attributes:
        name: the manufacturer's.
        core: its timing model.
        memory: its caches, with code and constants in flash.
        ram: the address from which on the emulated machine has RAM.
    """

    name: str
    core: Core
    memory: Memory = NO_WAITS
    ram: int = 0x20000000


CHIPS = {
    "cortex-m7": Chip(
        "STM32H753 at 480 MHz",
        CortexM7(),
        # A line is four beats on a bus of 240 MHz, behind one access: both memories stand on that bus.
        Memory(Cache(16384, 2, 32), Cache(16384, 4, 32), of_code=14, of_flash=14, of_ram=14, of_stores=7),
    ),
    "cortex-m4": Chip(
        "STM32F446 at 180 MHz",
        CortexM4(),
        # Flash answers 16 bytes in 6 cycles of 180 MHz, behind an accelerator of 64 lines of code and 8 of data.
        Memory(Cache(1024, 1, 16), Cache(128, 8, 16), of_code=9, of_flash=9, caches_ram=False),
    ),
    "cortex-m55": Chip("Cortex-M55 with memory that never waits", CortexM55(), ram=0x21000000),
    "rv32imc": Chip("ESP32-C3 at 160 MHz", Scalar(), ram=0x80800000),
}
"""By the emulated core."""
