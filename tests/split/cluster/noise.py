"""Two pseudo terminals joined by a wire that loses, doubles, changes and inserts bytes, seeded."""

from __future__ import annotations

import os
import select
import threading
import tty
from dataclasses import dataclass
from random import Random
from types import TracebackType


@dataclass(frozen=True)
class Noise:
    """What befalls a byte on the wire: how probable each is."""

    lost: float = 0.0
    doubled: float = 0.0
    changed: float = 0.0
    made_up: float = 0.0

    def through(self, data: bytes, rng: Random) -> bytes:
        """What arrives."""
        found = bytearray()
        for byte in data:
            if rng.random() < self.made_up:
                found += rng.choice([rng.randbytes(rng.randrange(1, 30)), b"\xa2\xf0", b"\xa2\xf0\x01\x01" * 3])
            if rng.random() < self.changed:
                byte ^= 1 << rng.randrange(8)
            copies = 0 if rng.random() < self.lost else 2 if rng.random() < self.doubled else 1
            found += bytes([byte]) * copies
        return bytes(found)


class Wire:
    """``left`` and ``right`` are devices to open, for as long as the block lasts.

    Attributes:
        carried: bytes so far.
        harmed: chunks that did not arrive as they were sent.
    """

    def __init__(self, noise: Noise = Noise(), seed: int = 0) -> None:
        self.noise, self._rng = noise, Random(seed)
        self._masters, slaves = zip(*(os.openpty() for _ in range(2)), strict=True)
        self._slaves = slaves
        for end in (*self._masters, *slaves):
            tty.setraw(end)
        self.left, self.right = (os.ttyname(each) for each in slaves)
        self.carried = self.harmed = 0
        self._ends = False
        self._thread = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Wire:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ends = True
        self._thread.join()
        for each in (*self._masters, *self._slaves):
            os.close(each)

    def _carry(self) -> None:
        while not self._ends:
            for end in select.select(self._masters, [], [], 0.05)[0]:
                data = os.read(end, 4096)
                arrives = self.noise.through(data, self._rng)
                self.carried += len(data)
                self.harmed += arrives != data
                os.write(self._masters[end == self._masters[0]], arrives)
