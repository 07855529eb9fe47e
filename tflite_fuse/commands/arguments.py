"""Arguments that several commands share, the conversion of their texts, and ``--config tflite-fuse.toml``.

Keys of that file are the options' names without leading dashes. Keys at the top apply to every command that has them,
those in a table to the command of that name; the command line takes precedence over both.

    target = "cortex-m7"

    [rewrite]
    max-ram = "64kB"
    verify = true
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from tflite_fuse.boards.table import Board, find_board
from tflite_fuse.console import answers_errors
from tflite_fuse.errors import UsageError
from tflite_fuse.files import about, nearest, only, read_toml
from tflite_fuse.memory.tflm.runtimes import RUNTIMES
from tflite_fuse.passes.declared import Declared, declared
from tflite_fuse.passes.goal import Goal
from tflite_fuse.units import parse_bytes

_HERE_ONLY = ("config", "help")
"""Options that are no settings."""


@answers_errors
def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the file's values as the command's defaults."""
    if path is not None:
        document = read_toml(path)
        with about(path):
            context.default_map = _defaults(context, document)
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        callback=_read_config,
        is_eager=True,
        help="A TOML file of options by name, like target; a table named rewrite is for that command alone.",
        show_default=False,
    ),
]


def _defaults(context: typer.Context, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by the name of their parameter. Raises UsageError."""
    assert context.parent is not None
    group: Any = context.parent.command
    by_command = {
        name: _settings(group.get_command(context.parent, name)) for name in group.list_commands(context.parent)
    }
    command = str(context.info_name)
    everywhere = {key: value for key, value in document.items() if not isinstance(value, dict)}
    only(everywhere, {key for settings in by_command.values() for key in settings}, "the file")
    for name, table in document.items():
        if isinstance(table, dict):
            if name not in by_command:
                raise UsageError(f"there is no command {name!r}{nearest(name, by_command)}")
            only(table, by_command[name], f"[{name}]")
    own = {key: value for key, value in everywhere.items() if key in by_command[command]} | document.get(command, {})
    return dict(_setting(by_command[command][key], key, value) for key, value in own.items())


def _settings(command: Any) -> dict[str, Any]:
    """Return the options of a command by each of their names."""
    return {
        name.lstrip("-"): option
        for option in command.params
        if option.param_type_name == "option" and option.name not in _HERE_ONLY
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    }


def _setting(option: Any, key: str, value: object) -> tuple[str, Any]:
    """Return the parameter's name and its value. Raises UsageError."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{key} is true or false, not {value!r}")
        return option.name, value != (f"--{key}" in option.secondary_opts)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UsageError(f"{key} is a text or a number, not {value!r}")
    return option.name, str(value)


ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.", show_default=False)]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
InputCount = Annotated[int, typer.Option("--inputs", min=1, help="How many inputs to compare on.")]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of the random inputs; the one that was used is printed."),
]
DataFile = Annotated[
    Path | None, typer.Option("--data", help="Your own inputs: an .npz with an array per model input.")
]
BoardName = Annotated[
    str | None,
    typer.Option(
        "--board",
        rich_help_panel="Goal",
        help="A board `tflite-fuse boards` lists, or the .toml that describes yours.",
        show_default=False,
    ),
]
Reserve = Annotated[
    str | None,
    typer.Option(
        rich_help_panel="Goal",
        help="RAM of the board for everything but the tensor arena, like 40kB. Default: a quarter of it.",
        show_default=False,
    ),
]
RuntimeName = Annotated[
    str,
    typer.Option(
        "--runtime",
        help=f"The runtime on the device, for which the arena must suffice: {', '.join(RUNTIMES)}.",
        autocompletion=lambda incomplete: [name for name in RUNTIMES if name.startswith(incomplete)],
    ),
]
MetricsFile = Annotated[
    Path | None, typer.Option("--metrics", help="File for the figures as one flat JSON object.", show_default=False)
]
PlotFile = Annotated[
    Path | None, typer.Option("--plot", help="File for a picture, .svg or .png (extra report).", show_default=False)
]


def with_options(command: str, *kinds: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command the options that dataclasses declare for it.

    The function receives their values by keyword in ``options``.
    """
    options = [each for kind in kinds for each in declared(kind, command) if each.typed]

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in signature(function).parameters.values()
            if parameter.name != "options"
        ]
        first = [parameter for parameter in own if parameter.default is Parameter.empty]
        typed = [_parameter(each) for each in options]
        parameters = [*first, *typed, *(parameter for parameter in own if parameter not in first)]

        def called(**arguments: Any) -> None:
            values: dict[str, Any] = {}
            for each in options:
                values |= _value(each, arguments.pop(each.name))
            function(**arguments, options=values)

        described: Any = update_wrapper(called, function)
        del described.__wrapped__
        described.__signature__ = Signature(parameters)
        described.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorated


def _parameter(option: Declared) -> Parameter:
    """Return a command's parameter for an option."""
    settings = option.option
    kind = next(each for each in (get_args(option.hint) or (option.hint,)) if each is not type(None))
    kind = kind if settings.read is None else str
    name, pair = f"--{option.typed}", kind is bool and option.default is not False
    described: Any = typer.Option(
        f"{name}/--no-{option.typed}" if pair else name,
        help=option.sentence,
        rich_help_panel=settings.panel or None,
        metavar=settings.shown or None,
        min=settings.bounds[0],
        max=settings.bounds[1],
        autocompletion=_completion(settings.choices) if settings.choices else None,
        show_default=option.default is not None,
    )
    default = ",".join(option.default) if isinstance(option.default, tuple) else option.default
    hint: Any = Annotated[kind | None if default is None else kind, described]
    return Parameter(option.name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=hint)


def _completion(choices: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a function that completes words for a shell."""

    def offered(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return offered


def _value(option: Declared, typed: Any) -> dict[str, Any]:
    """Return the converted value by keyword; empty if the user did not give the option. Raises UsageError."""
    if typed is None:
        return {}
    value = typed if option.option.read is None else option.option.read(typed)
    return value if isinstance(value, dict) else {option.name: value}


def goal_of(options: dict[str, Any]) -> Goal:
    """Remove the goal's options from a command's options and return the goal. Raises UsageError."""
    return Goal(**{each.name: options.pop(each.name) for each in declared(Goal) if each.name in options})


def refuse_dash(path: Path) -> None:
    """Raise UsageError for "-", which other programs take as standard output and which would become a file here."""
    if str(path) == "-":
        raise UsageError("-: nothing is written to standard output; give a path with a name")


def board_of(name: str | None, reserve: str | None) -> tuple[Board | None, int | None]:
    """Return the board and the bytes of its RAM for everything but the arena, None by default. Raises UsageError."""
    if name is None:
        if reserve is not None:
            raise UsageError("--reserve says what a board keeps: name one with --board")
        return None, None
    board = find_board(name)
    kept = None if reserve is None else parse_bytes(reserve)
    if board.room(kept) <= 0:
        raise UsageError(f"--reserve {reserve} leaves no RAM: {board.name} has {board.ram_bytes:,} bytes")
    return board, kept
