"""The devices of a cluster and the links between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tflite_fuse.cost.instructions import Target

COORDINATOR = -1
"""Number of the device that has the inputs and collects the outputs; workers count from 0."""


@dataclass(frozen=True)
class Link:
    """A device's link to the network. It sends one message at a time and at the same time receives one.

    Attributes:
        kilobytes_per_second: 1,000 bytes each.
        delay_ms_per_message: latency; messages under way overlap.
        delay_ms_per_kilobyte: occupies the link in addition to the rate.
        occupancy_ms_per_message: occupies the link, too.
    """

    kilobytes_per_second: float = 12_500.0
    delay_ms_per_message: float = 0.0
    delay_ms_per_kilobyte: float = 0.0
    occupancy_ms_per_message: float = 0.0

    def seconds(self, nbytes: int) -> float:
        """Return the seconds for which one message of so many bytes occupies the link."""
        kilobytes = nbytes / 1000
        delays = self.delay_ms_per_kilobyte * kilobytes + self.occupancy_ms_per_message
        return kilobytes / self.kilobytes_per_second + delays / 1000

    @property
    def latency(self) -> float:
        """Return the latency in seconds."""
        return self.delay_ms_per_message / 1000


@dataclass(frozen=True)
class Device:
    """A microcontroller, or the coordinator.

    Attributes:
        name: from ``workers.toml``.
        target: the core whose instructions are predicted.
        mhz: million instructions per second, taken as one per cycle.
        ram, flash: bytes for the model; None if not given.
        link: to the others.
        address: where it listens, ``host:port`` or a serial line; empty if not given.
        board: board of an exported project; empty if not given.
    """

    name: str
    target: Target
    mhz: float
    ram: int | None = None
    flash: int | None = None
    link: Link = Link()
    address: str = ""
    board: str = ""

    def seconds(self, instructions: float) -> float:
        """Return the seconds for so many instructions."""
        return instructions / (self.mhz * 1e6)


@dataclass(frozen=True)
class Cluster:
    """Workers, their coordinator, and their direct links.

    Attributes:
        workers: in the order of the file.
        coordinator: the device that every worker reaches.
        direct: pairs of workers, the smaller number first, that need no coordinator between them.
        media: sets of devices that share a medium, a bus or a radio channel: it carries one message between any of them
            at a time, for the time of the slower end's link. No two media have a pair of devices in common.
    """

    workers: tuple[Device, ...]
    coordinator: Device
    direct: frozenset[tuple[int, int]] = frozenset()
    media: tuple[frozenset[int], ...] = ()

    def with_memory(self, limits: Callable[[Device], tuple[int | None, int | None]]) -> Cluster:
        """Return the cluster with other limits: bytes of RAM and of flash of each worker."""
        limited = [(worker, *limits(worker)) for worker in self.workers]
        return replace(self, workers=tuple(replace(worker, ram=ram, flash=flash) for worker, ram, flash in limited))

    def device(self, index: int) -> Device:
        """Return a worker by its number, or the coordinator."""
        return self.coordinator if index == COORDINATOR else self.workers[index]

    def is_direct(self, a: int, b: int) -> bool:
        """Return whether two devices need no other between them."""
        return COORDINATOR in (a, b) or (min(a, b), max(a, b)) in self.direct

    def medium(self, a: int, b: int) -> int | None:
        """Return the number of the medium that two devices share, None if each has a link of its own."""
        return next((number for number, joined in enumerate(self.media) if {a, b} <= joined), None)

    def lane(self, source: int, target: int) -> tuple[str, int]:
        """Return the resource that a message occupies first: ("send", its sender) or ("medium", number)."""
        medium = self.medium(source, target) if self.media else None
        return ("send", source) if medium is None else ("medium", medium)

    def occupied(self, source: int, target: int, nbytes: int) -> float:
        """Return the seconds for which a message of so many bytes occupies its lane."""
        seconds = self.device(source).link.seconds(nbytes)
        if self.media and self.medium(source, target) is not None:
            return max(seconds, self.device(target).link.seconds(nbytes))
        return seconds
