"""Damaged fragments through the worker in C, under AddressSanitizer and UndefinedBehaviorSanitizer, 64 and 32 bits."""

from __future__ import annotations

from scripts.fuzzing.libfuzzer import Target
from tests.split.fragments.cases import fragments, with_sums, without_operators

_LONGEST = 65536


def _seeds() -> list[bytes]:
    """Return sound fragments: of cut layers, of blocks by rows, of sums over input channels, and coordinators'."""
    workers = [data for strategy in ("paper", "time", "ram") for data in fragments(strategy).workers]
    return [*workers, *with_sums().workers, fragments().coordinator, without_operators()[1].coordinator]


TARGETS = tuple(
    Target(
        f"worker{bits}",
        "worker.c",
        _seeds,
        _LONGEST,
        (f"-m{bits}", "-DTFLITE_FUSE_MAX_WORK=0x80000", "-DTFLITE_FUSE_NO_CRC"),
    )
    for bits in (64, 32)
)
