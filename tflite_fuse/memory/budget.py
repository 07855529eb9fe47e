"""Budget of work shared by all searches of one call, and progress reports to a listener.

with reporting_to(show):
    rewrite_model(...)      # deeper code calls report_progress("operators searched", 12, 60)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass

Listener = Callable[[str, int, int], None]
"""Called with (label of the step, units done, units in total); a total of 0 means unknown."""

_listener: ContextVar[Listener | None] = ContextVar("progress", default=None)


def report_progress(step: str, done: int, total: int = 0) -> None:
    """Report progress to the current listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(step, done, total)


@contextmanager
def reporting_to(listener: Listener | None) -> Iterator[None]:
    """Send progress to ``listener`` inside this context; None keeps the current listener."""
    token = _listener.set(listener or _listener.get())
    try:
        yield
    finally:
        _listener.reset(token)


WORK = 100_000_000
"""Default steps of a budget: one per pair of tensors in a placement, one per tensor of a state in an order search. They
take about half a minute; most networks need far fewer.
"""


@dataclass
class _Meter:
    left: float
    braked: bool = False


class Budget:
    """Steps left for all searches of a call. Steps, unlike seconds, give the same result on every machine.

    ``seconds`` sets a deadline for callers with limited time. Results under it may differ between machines; ``braked``
    reports whether it applied.
    """

    def __init__(self, work: int = WORK, seconds: float | None = None) -> None:
        self._meter, self._floor = _Meter(work), 0.0
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Return the steps that are left."""
        return self._meter.left - self._floor

    @property
    def braked(self) -> bool:
        """Return whether the deadline passed before the steps were used up."""
        return self._meter.braked

    def part(self, share: float) -> Budget:
        """Return a share of the remaining steps and seconds; steps spent on it also count for the whole budget."""
        part = copy(self)
        part._floor = self._floor + self.left * (1 - share)
        if self._end is not None:
            part._end = time.monotonic() + (self.seconds() or 0.0) * share
        return part

    def spend(self, steps: int) -> bool:
        """Subtract steps and return whether any are left."""
        self._meter.left -= steps
        return not self.is_over()

    def is_over(self) -> bool:
        """Return whether a search must stop and return its best result."""
        if self.left <= 0:
            return True
        late = self._end is not None and time.monotonic() >= self._end
        self._meter.braked |= late
        return late

    def seconds(self) -> float | None:
        """Return the seconds until the deadline; None without one."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())
