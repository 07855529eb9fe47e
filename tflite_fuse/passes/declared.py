"""Declaration of options: each is a field of a frozen dataclass with its default, type and help.

Keywords of Python functions and their documentation, parameters of commands and their help, keys of TOML files and the
reference are derived from these declarations.
"""

from __future__ import annotations

import os
import reprlib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from functools import cache, update_wrapper, wraps
from inspect import Parameter, Signature, cleandoc, signature
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
    """Properties of an option besides its default and its type.

    Attributes:
        help: description, in a sentence or two.
        panel: heading of its group.
        of: functions and commands that take it; empty for all.
        choices: accepted words; empty for any value.
        typed: name on the command line and in TOML files; empty for the field's name with dashes; None for a keyword
            only.
        shown: placeholder of the value in the help of a command; empty for a word of its type.
        bounds: least and greatest number on the command line; None for no bound.
        read: function from the user's text to the value, or to several values by keyword; None if the type suffices.
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
        name: name of the field and keyword.
        hint: its type.
        default: default value.
        option: its other properties.
    """

    name: str
    hint: Any
    default: Any
    option: Option

    @property
    def typed(self) -> str | None:
        """Return its name on the command line, without leading dashes, or None."""
        return self.name.replace("_", "-") if self.option.typed == "" else self.option.typed

    @property
    def sentence(self) -> str:
        """Return its help, with the accepted words."""
        text = self.option.help
        return f"{text.removesuffix('.')}: {', '.join(self.option.choices)}." if self.option.choices else text


def option(default: Any, help: str, **attributes: Any) -> Any:
    """Return a dataclass field that is an option; ``attributes`` are those of ``Option``."""
    return field(default=default, metadata={_METADATA: Option(help, **attributes)})


@cache
def declared(kind: type, function: str = "") -> tuple[Declared, ...]:
    """Return the options that a dataclass declares, in order: all, or those of a function or command."""
    hints = get_type_hints(kind)
    options = (
        Declared(each.name, hints[each.name], None if each.default is MISSING else each.default, option)
        for each in fields(kind)
        if (option := each.metadata.get(_METADATA)) is not None
    )
    return tuple(each for each in options if not function or not each.option.of or function in each.option.of)


def described(kind: type[Kind]) -> type[Kind]:
    """Return the dataclass with its options listed in its docstring in place of ``{options}``."""
    kind.__doc__ = _documented(kind.__doc__ or "", declared(cast("type", kind)))
    return kind


def words(kind: type[Enum]) -> tuple[str, ...]:
    """Return the names of an enumeration's members in options."""
    return tuple(str(member.value) for member in kind)


def takes(
    kind: Callable[Keywords, Options],
) -> Callable[[Callable[[Source, Options], Returned]], Callable[Concatenate[Source, Keywords], Returned]]:
    """Make a function of a model and options one that takes the options as keywords.

    Args:
        kind: the dataclass that declares the options; the function takes those that name it.

    The function's signature and documentation list the options; it raises UsageError if one has another type than
    declared.
    """

    def decorated(function: Callable[[Source, Options], Returned]) -> Callable[Concatenate[Source, Keywords], Returned]:
        options = declared(cast("type", kind), function.__name__)
        hints = get_type_hints(function)
        (name, first), *_ = signature(function).parameters.items()
        accepted = {name: hints[name]} | {each.name: each.hint for each in options}
        keywords = (Parameter(d.name, Parameter.KEYWORD_ONLY, default=d.default, annotation=d.hint) for d in options)
        shown = Signature([first.replace(annotation=hints[name]), *keywords], return_annotation=hints["return"])

        def called(*source: Any, **named: Any) -> Returned:
            arguments = _plain(shown.bind(*source, **named).arguments, accepted)
            return function(arguments.pop(name), cast("Callable[..., Options]", kind)(**arguments))

        documented: Any = update_wrapper(called, function)
        del documented.__wrapped__
        documented.__signature__, documented.__annotations__ = shown, accepted | {"return": hints["return"]}
        documented.__doc__ = _documented(function.__doc__ or "", options)
        return cast("Callable[Concatenate[Source, Keywords], Returned]", documented)

    return decorated


def _documented(text: str, options: Iterable[Declared]) -> str:
    """Return a docstring, without its indentation, with the options listed in place of ``{options}``."""
    entries = (fill(f"{each.name}: {each.sentence}", 116, subsequent_indent="    ") for each in options)
    return cleandoc(text).replace("    {options}", indent("\n".join(entries), " " * 4))


# ---- Types of arguments ----

_WORDS = {
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
    """Return the function with a check that raises UsageError if an argument has another type than declared."""

    @wraps(function)
    def called(*arguments: Parameters.args, **named: Parameters.kwargs) -> Returned:
        bound = signature(function).bind(*arguments, **named)
        bound.arguments.update(_plain(bound.arguments, get_type_hints(function)))
        return function(*bound.args, **bound.kwargs)

    return called


def require_fields(instance: Any) -> None:
    """Make numpy's numbers in a dataclass Python's. Raises UsageError if a field has another type than declared."""
    values = {field.name: getattr(instance, field.name) for field in fields(instance)}
    for name, value in _plain(values, get_type_hints(type(instance))).items():
        object.__setattr__(instance, name, value)


def _plain(arguments: Mapping[str, Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with plain numbers. Raises UsageError if one has another type than its hint."""
    for name, value in arguments.items():
        if not fits(value, hints[name]):
            raise UsageError(f"{name} is {type_in_words(hints[name])}, not {reprlib.repr(value)}")
    return {name: _without_numpy(value) for name, value in arguments.items()}


def _without_numpy(value: Any) -> Any:
    """Return a number, or each of a pair, as Python's: numpy's overflow, and JSON does not have them."""
    if isinstance(value, tuple):
        return tuple(map(_without_numpy, value))
    if isinstance(value, (bool, int, float)) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def type_in_words(hint: Any) -> str:
    """Return a type in words: ``a path or bytes``."""
    words = list(dict.fromkeys(map(_word_of, _choices(hint))))
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _word_of(hint: Any) -> str:
    kind = get_origin(hint) or hint
    return _WORDS.get(kind) or f"a {kind.__name__}"


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value has a type, as in type checkers, but numpy's numbers are numbers and True is none."""
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
