"""Goal of fusion, as options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tflite_fuse.errors import UsageError
from tflite_fuse.passes.declared import described, option, require_fields
from tflite_fuse.units import parse_bytes

if TYPE_CHECKING:
    from tflite_fuse.model.memories import Memories

MOST_COMPUTE = 1_000_000
"""Largest compute factor: larger ones limit nothing, because no block computes every pixel a million times."""

MOST_BYTES = 1 << 60
"""Largest limit on RAM in bytes: searches compute in 64 bits."""

PANEL = "Goal"
"""Heading of the goal's options in help."""


def read_limit(text: str) -> int | Memories:
    """Return the bytes of ``64kB``, or the fast and the slow memory of ``fast=64kB,slow=2MB``. Raises UsageError."""
    if "=" not in text:
        return parse_bytes(text)
    from tflite_fuse.memory.regions import named_sizes  # reads models: not loaded with the package

    return named_sizes(text)


@described
@dataclass(frozen=True)
class Goal:
    """Goal of fusion. By default: the least RAM, or nearly, without more compute than the file's.

    If instructions are counted, they replace multiply-accumulates (MACs), and a limit may be exceeded by a thousandth.

    Attributes:
        {options}
    """

    max_ram: int | None = option(
        None,
        "Arena in bytes to stay within, like 64kB or 64KiB; the remaining RAM goes to speed. `rewrite` also takes the "
        "sizes of a fast and a slow memory, like fast=64kB,slow=2MB.",
        panel=PANEL,
        read=read_limit,
        shown="SIZE",
    )
    max_compute: float | None = option(
        None,
        "Compute allowed, as a multiple of that of the file's own operators; the least RAM within it is taken. It can "
        "be below 1 where channels do nothing or blocks skip pixels no operator reads.",
        panel=PANEL,
        shown="FACTOR",
    )
    least_ram: bool = option(False, "The least RAM at any compute.", panel=PANEL)

    def __post_init__(self) -> None:
        require_fields(self)
        if self.least_ram and (self.max_ram is not None or self.max_compute is not None):
            raise UsageError("the least RAM at any compute excludes a limit of RAM or compute: drop one of the two")
        if self.max_ram is not None and not 0 <= self.max_ram <= MOST_BYTES:
            raise UsageError(f"an arena has 0 to 2^60 bytes, not {self.max_ram:,}: give max_ram a size like 65536")
        if self.max_compute is not None and not 0 < self.max_compute <= MOST_COMPUTE:
            raise UsageError(
                f"a compute factor is above 0 and at most {MOST_COMPUTE:,}, not {self.max_compute}: give one like 1.3"
            )

    @property
    def wants_every_byte(self) -> bool:
        """Return whether RAM takes precedence over speed: least RAM at any compute, or at no more than the file's."""
        return self.max_ram is None and (self.least_ram or (self.max_compute is not None and self.max_compute <= 1))

    @property
    def is_default(self) -> bool:
        """Return whether the caller set nothing."""
        return self.max_ram is None and self.max_compute is None and not self.least_ram

    @property
    def compute_limit(self) -> float | None:
        """Return the largest allowed compute factor, None for any."""
        if self.max_compute is not None:
            return self.max_compute
        return None if self.least_ram or self.max_ram is not None else 1.0


NOTHING_RECOMPUTED = Goal()
"""The default goal: the least RAM without more compute than the file's own operators."""
