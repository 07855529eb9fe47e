"""Claims of optimality of results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A claim that a result is the least, or a bound on how much less is possible.

    Attributes:
        proven: whether the result needs exactly ``bound_bytes``.
        bound_bytes: lower bound in bytes over the scope.
        scope: the quantity, and the alternatives it is the least of, in words.
    """

    proven: bool
    bound_bytes: int
    scope: str

    def __str__(self) -> str:
        verdict = "proven the least" if self.proven else f"not proven the least (nothing below {self.bound_bytes:,} B)"
        return f"{verdict}: {self.scope}"
