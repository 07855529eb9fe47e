"""Options, each declared once: as a field of a frozen dataclass that carries all there is to say about it.

Keywords of the Python functions and their documentation, parameters of commands and their help, keys of TOML files and
the reference are made of these declarations.
"""

from __future__ import annotations

import os
import reprlib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from functools import cache, update_wrapper, wraps
from inspect import Parameter, Signature, signature
from numbers import Integral, Real
from textwrap import fill, indent
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from tflite_fuse.errors import UsageError

if TYPE_CHECKING:
    from tflite_fuse.model.file import Source

Keywords = ParamSpec("Keywords")
Parameters = ParamSpec("Parameters")
Kind = TypeVar("Kind")
Options = TypeVar("Options")
Returned = TypeVar("Returned")

_METADATA = "option"


@dataclass(frozen=True)
class Option:
    """What there is to say about an option beside its default and its type.

    Attributes:
        help: what it does, in a sentence or two.
        panel: the heading of the group it belongs to.
        of: the functions and commands that take it; empty for all that take any.
        choices: the words it can be; empty for anything else.
        typed: its name on the command line and in TOML files, empty for that of the field with dashes; None where it
            is a keyword alone.
        shown: what stands for the value in the help of a command; empty for a word of its type.
        bounds: the least and most of a number on the command line; None for any.
        read: the value, or several by keyword, of the text a user types; None where the type alone tells.
    """

    help: str
    panel: str = ""
    of: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    typed: str | None = ""
    shown: str = ""
    bounds: tuple[float | None, float | None] = (None, None)
    read: Callable[[str], Any] | None = None


@dataclass(frozen=True)
class Declared:
    """An option with the field that declares it.

    Attributes:
        name: of the field, which is the keyword.
        hint: its type.
        default: what it is unless given.
        option: what else there is to say.
    """

    name: str
    hint: Any
    default: Any
    option: Option

    @property
    def typed(self) -> str | None:
        """Its name on the command line, without the dashes in front, if it is there."""
        return self.name.replace("_", "-") if self.option.typed == "" else self.option.typed

    @property
    def sentence(self) -> str:
        """Its help, with the words it can be."""
        said = self.option.help
        return f"{said.removesuffix('.')}: {', '.join(self.option.choices)}." if self.option.choices else said


def option(default: Any, help: str, **others: Any) -> Any:
    """A field of a dataclass that is an option; ``others`` are those of ``Option``."""
    return field(default=default, metadata={_METADATA: Option(help, **others)})


@cache
def declared(kind: type, function: str = "") -> tuple[Declared, ...]:
    """The options a dataclass declares, in its order: all, or those a function or command takes."""
    hints = get_type_hints(kind)
    found = (
        Declared(each.name, hints[each.name], None if each.default is MISSING else each.default, option)
        for each in fields(kind)
        if (option := each.metadata.get(_METADATA)) is not None
    )
    return tuple(each for each in found if not function or not each.option.of or function in each.option.of)


def described(kind: type[Kind]) -> type[Kind]:
    """The dataclass, its options listed in its docstring where that says ``{options}``."""
    kind.__doc__ = _documented(kind.__doc__ or "", declared(cast("type", kind)))
    return kind


def words(kind: type[Enum]) -> tuple[str, ...]:
    """What users call the members of an enumeration."""
    return tuple(str(member.value) for member in kind)


def takes(
    kind: Callable[Keywords, Options],
) -> Callable[[Callable[[Source, Options], Returned]], Callable[Concatenate[Source, Keywords], Returned]]:
    """Make a function of a model and options one that takes the options as keywords.

    Args:
        kind: the dataclass that declares them; the function takes those that name it.

    The function's signature and documentation list the options as if they stood there; it raises UsageError where one
    is of another type than declared.
    """

    def decorated(function: Callable[[Source, Options], Returned]) -> Callable[Concatenate[Source, Keywords], Returned]:
        known = declared(cast("type", kind), function.__name__)
        hints = get_type_hints(function)
        (name, first), *_ = signature(function).parameters.items()
        accepted = {name: hints[name]} | {each.name: each.hint for each in known}
        keywords = (Parameter(d.name, Parameter.KEYWORD_ONLY, default=d.default, annotation=d.hint) for d in known)
        shown = Signature([first.replace(annotation=hints[name]), *keywords], return_annotation=hints["return"])

        def called(*source: Any, **named: Any) -> Returned:
            given = shown.bind(*source, **named).arguments
            _require(given, accepted)
            return function(given.pop(name), cast("Callable[..., Options]", kind)(**given))

        documented: Any = update_wrapper(called, function)
        del documented.__wrapped__
        documented.__signature__, documented.__annotations__ = shown, accepted | {"return": hints["return"]}
        documented.__doc__ = _documented(function.__doc__ or "", known)
        return cast("Callable[Concatenate[Source, Keywords], Returned]", documented)

    return decorated


def _documented(text: str, known: Iterable[Declared]) -> str:
    """A docstring with the options listed where it says ``{options}``."""
    entries = (fill(f"{each.name}: {each.sentence}", 112, subsequent_indent="    ") for each in known)
    return text.replace("        {options}", indent("\n".join(entries), " " * 8))


# ---- Whether what a caller gives is of the types that are declared ----

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
            raise UsageError(f"{name} is {said(hints[name])}, not {reprlib.repr(value)}")


def said(hint: Any) -> str:
    """A type in words: ``a path or bytes``."""
    words = list(dict.fromkeys(map(_said, _choices(hint))))
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


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
