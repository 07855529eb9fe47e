"""Whether what a caller gives is of the types a signature declares: asked at the doors of the Python interface.

What the user wants of fusion.
"""

from __future__ import annotations

import os
import reprlib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from tflite_fuse.errors import UsageError

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

_SAID = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a word",
    bytes: "bytes",
    os.PathLike: "a path",
    types.NoneType: "None",
    Sequence: "a list",
    tuple: "a pair of whole numbers",
    Callable: "a function",
}


def checked(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """The function, which raises UsageError where an argument is of another type than it declares."""

    @wraps(function)
    def asked(*arguments: Parameters.args, **named: Parameters.kwargs) -> Returned:
        given = signature(function).bind(*arguments, **named).arguments
        _require(given, get_type_hints(function))
        return function(*arguments, **named)

    return asked


def require_fields(instance: Any) -> None:
    """Raises UsageError: a field of a dataclass is of another type than it declares."""
    _require({field.name: getattr(instance, field.name) for field in fields(instance)}, get_type_hints(type(instance)))


def _require(given: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if not fits(value, hints[name]):
            words = list(dict.fromkeys(map(_said, _choices(hints[name]))))
            wanted = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
            raise UsageError(f"{name} is {wanted}, not {reprlib.repr(value)}")


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _said(hint: Any) -> str:
    kind = get_origin(hint) or hint
    return _SAID.get(kind) or f"a {kind.__name__}"


def fits(value: Any, hint: Any) -> bool:
    """As type checkers see it, but that numbers of numpy are numbers, and True is none."""
    choices = _choices(hint)
    if len(choices) > 1:
        return any(fits(value, choice) for choice in choices)
    kind = get_origin(hint) or hint
    if isinstance(value, bool) and kind in (int, float):
        return False
    if kind is float:
        return isinstance(value, Real)
    if kind is int:
        return isinstance(value, Integral)
    if kind is tuple:
        inner = get_args(hint)
        return isinstance(value, Sequence) and len(value) == len(inner) and all(map(fits, value, inner))
    if kind is Sequence:
        return hasattr(value, "__len__") and not isinstance(value, (str, bytes, Mapping))
    return isinstance(value, kind)


MOST_COMPUTE = 1_000_000
"""Larger factors limit nothing: no block computes every pixel a million times."""


@dataclass(frozen=True)
class Goal:
    """What the user wants of fusion. With nothing set: the least RAM that recomputes nothing, or nearly that.

    Where instructions are counted, they take the place of multiply-accumulates (MACs), and a limit may be exceeded by a
    thousandth.

    Attributes:
        max_ram: arena bytes (head + tail, 32-bit target) that must not be exceeded; what is left of them goes to
            speed.
        max_compute: MACs over those of the unfused model that must not be exceeded; the least RAM within it is taken.
            It can be below 1 where blocks skip pixels no operator reads.
        least_ram: the least RAM at any compute.
    """

    max_ram: int | None = None
    max_compute: float | None = None
    least_ram: bool = False

    def __post_init__(self) -> None:
        require_fields(self)
        if self.least_ram and (self.max_ram is not None or self.max_compute is not None):
            raise UsageError("the least RAM at any compute leaves no room for a limit: drop one of the two")
        if self.max_compute is not None and not 0 < self.max_compute <= MOST_COMPUTE:
            raise UsageError(
                f"a compute factor is above 0 and at most {MOST_COMPUTE:,}, not {self.max_compute}: give one like 1.3"
            )

    @property
    def wants_every_byte(self) -> bool:
        """Whether no byte of RAM goes to speed: the least at any compute was asked for, or the least at no more."""
        return self.max_ram is None and (self.least_ram or (self.max_compute is not None and self.max_compute <= 1))

    @property
    def is_default(self) -> bool:
        """Whether the caller set nothing."""
        return self.max_ram is None and self.max_compute is None and not self.least_ram

    @property
    def compute_limit(self) -> float | None:
        """The largest allowed compute factor, None for any."""
        if self.max_compute is not None:
            return self.max_compute
        return None if self.least_ram or self.max_ram is not None else 1.0


NOTHING_RECOMPUTED = Goal()
"""The default goal: the least RAM without recompute."""
