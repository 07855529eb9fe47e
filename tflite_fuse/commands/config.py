"""``--config tflite-fuse.toml``: options of commands in a file.

Keys are the options' names without leading dashes. Keys at the top apply to every command that has them, those in a
table to the command of that name; the command line takes precedence over both.

    target = "cortex-m7"

    [rewrite]
    max-ram = "64kB"
    verify = true
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tflite_fuse.console import answers_errors
from tflite_fuse.errors import UsageError
from tflite_fuse.files import nearest, only, read_toml

_HERE_ONLY = ("config", "help")
"""Options that are no settings."""


@answers_errors
def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Take the file's values as the command's defaults."""
    if path is not None:
        document = read_toml(path)
        try:
            context.default_map = _defaults(context, document)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        callback=_read,
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
    return dict(_value(by_command[command][key], key, value) for key, value in own.items())


def _settings(command: Any) -> dict[str, Any]:
    """Return the options of a command by each of their names."""
    return {
        name.lstrip("-"): option
        for option in command.params
        if option.param_type_name == "option" and option.name not in _HERE_ONLY
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    }


def _value(option: Any, key: str, value: object) -> tuple[str, Any]:
    """Return the parameter's name and its value. Raises UsageError."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{key} is true or false, not {value!r}")
        return option.name, value != (f"--{key}" in option.secondary_opts)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UsageError(f"{key} is a text or a number, not {value!r}")
    return option.name, str(value)
