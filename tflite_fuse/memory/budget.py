"""Progress of long work, reported to a listener of the caller; and the work that all searches of one call may take.

with heard_by(show):
    rewrite_model(...)      # somewhere below: tell("operators searched", 12, 60)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass

Listener = Callable[[str, int, int], None]
"""Called with (what is counted, done, total); a total of 0 is not known."""

_listener: ContextVar[Listener | None] = ContextVar("progress", default=None)


def tell(step: str, done: int, total: int = 0) -> None:
    """Report to the listener, where there is one, that so many steps are done."""
    listener = _listener.get()
    if listener is not None:
        listener(step, done, total)


@contextmanager
def heard_by(listener: Listener | None) -> Iterator[None]:
    """Report progress to ``listener`` while this lasts; None keeps the listener there is."""
    token = _listener.set(listener or _listener.get())
    try:
        yield
    finally:
        _listener.reset(token)


WORK = 100_000_000
"""Steps allowed by default: a placement takes one per pair of tensors, an order search one per tensor of a state. About
half a minute's worth, and far more than most networks take."""


@dataclass
class _Meter:
    left: float
    braked: bool = False


class Budget:
    """Work left for all searches of a call, counted in steps, so that the same model gets the same answer everywhere.

    Seconds are the emergency brake of a caller who cannot wait: an answer given under it may differ from machine to
    machine, and ``braked`` says so.
    """

    def __init__(self, work: int = WORK, seconds: float | None = None) -> None:
        self._meter, self._floor = _Meter(work), 0.0
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Steps that may still be taken."""
        return self._meter.left - self._floor

    @property
    def braked(self) -> bool:
        """Whether the time, or what one search may have of it, was over before the work was."""
        return self._meter.braked

    def part(self, share: float) -> Budget:
        """Return a share of what is left, in steps and seconds; what is taken of it is taken of the whole."""
        part = copy(self)
        part._floor = self._floor + self.left * (1 - share)
        if self._end is not None:
            part._end = time.monotonic() + (self.seconds() or 0.0) * share
        return part

    def spend(self, steps: int) -> bool:
        """Take steps off; returns whether there is anything left."""
        self._meter.left -= steps
        return not self.is_over()

    def is_over(self) -> bool:
        """Whether a search must answer with what it has."""
        if self.left <= 0:
            return True
        late = self._end is not None and time.monotonic() >= self._end
        self._meter.braked |= late
        return late

    def seconds(self) -> float | None:
        """Return the seconds until the brake; None where there is none."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())
