"""How far long work is: whoever counts steps tells it, and hears nothing of who wants to know.

with heard_by(show):
    rewrite_model(...)      # somewhere below: tell("operators searched", 12, 60)

What the searches of one call may spend together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]
"""Called with (what is counted, done, total); a total of 0 is not known."""

_listener: ContextVar[Listener | None] = ContextVar("progress", default=None)


def tell(step: str, done: int, total: int = 0) -> None:
    """So many steps are done."""
    listener = _listener.get()
    if listener is not None:
        listener(step, done, total)


@contextmanager
def heard_by(listener: Listener | None) -> Iterator[None]:
    """While this lasts, ``listener`` is told; None: whoever is told already."""
    token = _listener.set(listener or _listener.get())
    try:
        yield
    finally:
        _listener.reset(token)


WORK = 100_000_000
"""Steps allowed unasked: a placement looks at a pair of tensors, an order search at a tensor of a state. About half a
minute's worth, and far more than most networks take."""


class Budget:
    """Work left for all searches of a call, counted in steps, so that the same model gets the same answer everywhere.

    Seconds are the emergency brake of somebody who cannot wait: an answer given under it may differ from machine to
    machine, and ``braked`` tells so.

    Attributes:
        left: steps that may still be taken.
        braked: whether the time, or what one search may have of it, was over before the work was.
    """

    def __init__(self, work: int = WORK, seconds: float | None = None) -> None:
        self.left = work
        self.braked = False
        self._end = None if seconds is None else time.monotonic() + seconds

    def spend(self, steps: int) -> bool:
        """Take steps off; whether there is anything left."""
        self.left -= steps
        return not self.is_over()

    def is_over(self) -> bool:
        """Whether a search must answer with what it has."""
        late = self._end is not None and time.monotonic() >= self._end
        self.braked |= late
        return late or self.left <= 0

    def seconds(self) -> float | None:
        """Until the brake; None where there is none."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())
