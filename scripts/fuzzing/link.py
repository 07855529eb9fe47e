"""Damaged streams through the C parser of messages, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from scripts.fuzzing.libfuzzer import Target
from tests.split.cluster.test_messages import damaged

_PARTS = ("link/tflite_fuse_message.c", "executor/tflite_fuse_checksum.c")
_SEEDS = 60
_LONGEST = 600


def _seeds() -> Iterator[bytes]:
    for number in range(_SEEDS):
        rng = Random(number)
        yield bytes([rng.randrange(256)]) + damaged(rng, 150)[: _LONGEST - 1]


TARGET = Target("link", "link.c", _seeds, _LONGEST, parts=_PARTS)
