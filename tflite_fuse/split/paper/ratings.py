"""How fast a worker is for the published scheme, and how much of the model it gets: Equations 1 to 7.

Data is measured in kilobytes (1,000 B), work in million cycles, delays in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflite_fuse.errors import LimitError
from tflite_fuse.split.cluster.devices import Device

MOST_ROUNDS = 1000


@dataclass(frozen=True)
class Profile:
    """What is known of a worker and a model.

    Attributes:
        mhz: frequency f.
        k1: kilobytes of output per million cycles (K1), measured or from the cost model.
        seconds_per_kilobyte: d + 1/B, delay and transmission.
    """

    mhz: float
    k1: float
    seconds_per_kilobyte: float


def profile(device: Device, k1: float) -> Profile:
    """That of a device; the delay per message is one per packet, so it counts per kilobyte of a full one."""
    link = device.link
    per_kilobyte = link.delay_ms_per_kilobyte + link.occupancy_ms_per_message / 1.4
    return Profile(device.mhz, k1, per_kilobyte / 1000 + 1 / link.kilobytes_per_second)


def seconds(worker: Profile, megacycles: float, kc: float) -> float:
    """Equations 1 and 2: W/f + (d + 1/B) · K1 · Kc · W."""
    return megacycles / worker.mhz + worker.seconds_per_kilobyte * worker.k1 * kc * megacycles


def rating(worker: Profile, kc: float) -> float:
    """Equation 5: kilobytes of output per second, what must travel taken into account.

    Args:
        worker: who.
        kc: the share of the outputs that must travel (Kc), 0 for one device.
    """
    rate = worker.mhz * worker.k1
    return rate / (worker.seconds_per_kilobyte * rate * kc + 1)


def shares_of(ratings: Sequence[float], size: float) -> tuple[float, ...]:
    """Equation 6: what each worker stores of a model of ``size`` bytes."""
    total = sum(ratings)
    return tuple(each * size / total for each in ratings)


def without_overflow(ratings: Sequence[float], size: float, room: Sequence[float], names: Sequence[str]) -> list[float]:
    """Equation 7, repeated: a worker whose share exceeds its storage gives rating to those that have room left.

    Args:
        ratings: of Equation 5; their sum stays.
        size: bytes of the model.
        room: bytes each worker can store.
        names: of the workers.

    Raises:
        LimitError: all of them together cannot store it, and how much is missing.
    """
    current, total = list(ratings), sum(ratings)
    if sum(room) < size:
        raise LimitError(
            f"the {len(room)} workers have {sum(room):,.0f} B of flash for {size:,.0f} B of weights: "
            f"{size - sum(room):,.0f} B are missing; add a worker or one with more flash"
        )
    for _ in range(MOST_ROUNDS):
        stored = shares_of(current, size)
        over = [index for index, share in enumerate(stored) if share > room[index] * (1 + 1e-9)]
        if not over:
            return current
        free = [index for index, share in enumerate(stored) if share < room[index] * (1 - 1e-9)]
        if not free:
            break
        given = 0.0
        for index in over:
            surplus = (stored[index] - room[index]) * total / size
            current[index] -= surplus
            given += surplus
        for index in free:
            current[index] += given / len(free)
    worst = max(over, key=lambda index: stored[index] - room[index])
    raise LimitError(f"{names[worst]} would have to store {stored[worst]:,.0f} B and has room for {room[worst]:,.0f} B")
