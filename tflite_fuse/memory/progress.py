"""How far long work is: whoever counts steps tells it, and hears nothing of who wants to know.

with heard_by(show):
    rewrite_model(...)      # somewhere below: tell("operators searched", 12, 60)
"""

from __future__ import annotations

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
