"""What the user wants of fusion."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tflite_fuse.errors import UsageError
from tflite_fuse.passes.given import require_fields

MOST_COMPUTE = 1_000_000
"""Larger factors limit nothing: no block computes every pixel a million times."""


class Share(Enum):
    """One part in how many of an arena goes to speed unasked."""

    RESIDENT = 24
    PIXELS = 16  # An input handed out pixel by pixel leaves little behind, in which runs have to be short.
    CALLS = 8  # A window became a stream to take less time: half of its arena is rows that no run could be shorter for.


@dataclass(frozen=True)
class Goal:
    """What the user wants of fusion. With nothing set: the least RAM that recomputes nothing, or nearly that.

    Where instructions are counted, they take the place of multiply-accumulates (MACs), and a limit may be exceeded by a
    thousandth.

    Attributes:
        max_ram: arena bytes (head + tail, 32-bit target) that must not be exceeded; what is left of them goes to
            speed.
        max_compute: MACs over those of the unfused model that must not be exceeded; the least RAM within it is taken.
            It can be below 1 where blocks skip pixels no operator reads.
        least_ram: the least RAM at any compute.
    """

    max_ram: int | None = None
    max_compute: float | None = None
    least_ram: bool = False

    def __post_init__(self) -> None:
        require_fields(self)
        if self.least_ram and (self.max_ram is not None or self.max_compute is not None):
            raise UsageError("the least RAM at any compute leaves no room for a limit: drop one of the two")
        if self.max_compute is not None and not 0 < self.max_compute <= MOST_COMPUTE:
            raise UsageError(
                f"a compute factor is above 0 and at most {MOST_COMPUTE:,}, not {self.max_compute}: give one like 1.3"
            )

    def longest(self, arena: int, share: Share) -> int:
        """Bytes an arena may have for the sake of speed, given the least that meets the goal otherwise.

        Without a goal a small share of RAM goes to speed, at least 512 bytes. Who allows recompute does not want to pay
        with much of it for the last 1/200 of RAM.
        """
        if self.max_ram is not None:
            return max(self.max_ram, arena)
        if self.wants_every_byte:
            return arena
        return arena + (max(arena // share.value, 512) if self.max_compute is None else arena // 200)

    @property
    def wants_every_byte(self) -> bool:
        """Whether no byte of RAM goes to speed: the least at any compute was asked for, or the least at no more."""
        return self.max_ram is None and (self.least_ram or (self.max_compute is not None and self.max_compute <= 1))

    @property
    def worth_ram(self) -> float:
        """Share of the predicted instructions that must be saved for more RAM than the least to be taken."""
        return 1 / 100 if self.max_compute is None else 1 / 10

    @property
    def compute_limit(self) -> float | None:
        """The largest allowed compute factor, None for any."""
        if self.max_compute is not None:
            return self.max_compute
        return None if self.least_ram or self.max_ram is not None else 1.0


NOTHING_RECOMPUTED = Goal()
"""What is done unasked."""
