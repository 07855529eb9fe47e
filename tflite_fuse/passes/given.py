"""Whether what a caller gives is of the types a signature declares: asked at the doors of the Python interface."""

from __future__ import annotations

import os
import reprlib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
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
