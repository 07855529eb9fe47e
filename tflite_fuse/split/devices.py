"""The devices of a cluster and the links between them."""

from __future__ import annotations

from dataclasses import dataclass

from tflite_fuse.cost.instructions import Target

COORDINATOR = -1
"""Number of the device that hands in the inputs and gets the outputs; workers count from 0."""


@dataclass(frozen=True)
class Link:
    """How a device is joined to the network. It sends and receives at the same time, one message after another each.

    Attributes:
        kilobytes_per_second: 1,000 bytes each.
        delay_ms_per_message: until a message that was sent is there; messages under way overlap.
        delay_ms_per_kilobyte: beside what the rate takes; occupies the link.
        occupancy_ms_per_message: occupies the link, too.
    """

    kilobytes_per_second: float = 12_500.0
    delay_ms_per_message: float = 0.0
    delay_ms_per_kilobyte: float = 0.0
    occupancy_ms_per_message: float = 0.0

    def seconds(self, nbytes: int) -> float:
        """How long one message of so many bytes occupies the link."""
        kilobytes = nbytes / 1000
        delays = self.delay_ms_per_kilobyte * kilobytes + self.occupancy_ms_per_message
        return kilobytes / self.kilobytes_per_second + delays / 1000

    @property
    def latency(self) -> float:
        """Seconds."""
        return self.delay_ms_per_message / 1000


@dataclass(frozen=True)
class Device:
    """A microcontroller, or the coordinator.

    Attributes:
        name: as the user calls it.
        target: the core, whose instructions are predicted.
        mhz: million instructions per second, taken as one per cycle.
        ram, flash: bytes there are for the model; None where nothing was said.
        link: to the others.
        address: where it listens, ``host:port`` or a serial line; empty where nothing was said.
        board: which one an exported project is for; empty where nothing was said.
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
        """To execute so many."""
        return instructions / (self.mhz * 1e6)


@dataclass(frozen=True)
class Cluster:
    """Workers, their coordinator, and which of them talk to each other directly.

    Attributes:
        workers: in the order of the file.
        coordinator: the device every other one reaches.
        direct: pairs of workers, the smaller number first, that do not need the coordinator between them.
        media: devices that share one, a bus or a radio channel: of all messages between any of them one after another
            is on it, for as long as the slower end's link takes. No two have a pair of devices in common.
    """

    workers: tuple[Device, ...]
    coordinator: Device
    direct: frozenset[tuple[int, int]] = frozenset()
    media: tuple[frozenset[int], ...] = ()

    def device(self, index: int) -> Device:
        """A worker by its number, or the coordinator."""
        return self.coordinator if index == COORDINATOR else self.workers[index]

    def is_direct(self, a: int, b: int) -> bool:
        """Whether two devices need no other between them."""
        return COORDINATOR in (a, b) or (min(a, b), max(a, b)) in self.direct

    def medium(self, a: int, b: int) -> int | None:
        """The number of the medium that two devices share with each other, None where each has a link of its own."""
        return next((number for number, joined in enumerate(self.media) if {a, b} <= joined), None)

    def lane(self, source: int, target: int) -> tuple[str, int]:
        """What a message occupies first: ("send", its sender) or ("medium", number)."""
        medium = self.medium(source, target) if self.media else None
        return ("send", source) if medium is None else ("medium", medium)

    def occupied(self, source: int, target: int, nbytes: int) -> float:
        """Seconds for which a message of so many bytes occupies its lane."""
        seconds = self.device(source).link.seconds(nbytes)
        if self.media and self.medium(source, target) is not None:
            return max(seconds, self.device(target).link.seconds(nbytes))
        return seconds
