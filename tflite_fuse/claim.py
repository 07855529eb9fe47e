"""What a result claims about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """That there is nothing less, or how much less there might be.

    Attributes:
        proven: whether the result needs ``bound_bytes`` and no more.
        bound_bytes: bytes that nothing within the scope goes below, computed.
        scope: bytes of what, and among which alternatives, in words.
    """

    proven: bool
    bound_bytes: int
    scope: str

    def __str__(self) -> str:
        known = "proven the least" if self.proven else f"not proven the least (nothing below {self.bound_bytes:,} B)"
        return f"{known}: {self.scope}"
