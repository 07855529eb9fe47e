"""The command line: its commands (`commands/`, a file each) and its exit codes.

Exit codes: 0 done; 1 the model does not meet the request (differs, does not fit); 2 bad usage or input; 3 a defect
of this package; 130 interrupted. Control characters in names from a model or a path are escaped.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import tflite_fuse
from tflite_fuse.console import log_file, refusal
from tflite_fuse.interrupts import end_on_interrupts

ALONE = ("rewrite", "inspect", "verify", "pareto", "report", "sweep", "check", "export", "boards", "split")
COMMANDS = {name: f"tflite_fuse.commands.{name}" for name in ALONE} | {"cluster": "tflite_fuse.commands.cluster"}
"""Module of each command, which has its function or ``typer.Typer`` by the command's name."""

SELDOM = 200_000
"""Allocations between two collections of cycles: models have none and live to the end; the interpreter's default of 700
takes a twentieth of a command's time."""

_THREADS_OF_NUMPY = "OPENBLAS_NUM_THREADS"
"""Set to 1: matrices here are too small for threads, and numpy's import starts one per core that waits busily, a
twentieth of a command's time on two cores."""


EXAMPLES = {
    "rewrite": "tflite-fuse rewrite model.tflite small.tflite --max-ram 64kB",
    "inspect": "tflite-fuse inspect model.tflite --board nano33ble",
    "verify": "tflite-fuse verify model.tflite small.tflite --inputs 100",
    "pareto": "tflite-fuse pareto model.tflite --plot front.svg",
    "report": "tflite-fuse report model.tflite -o report.html",
    "sweep": "tflite-fuse sweep models/ -o results --sets options.toml",
    "check": "tflite-fuse check *.tflite --max-ram 64kB",
    "export": "tflite-fuse export small.tflite project --format arduino",
    "boards": "tflite-fuse boards esp32",
    "split": "tflite-fuse split model.tflite --workers workers.toml -o parts",
}
"""Example of each command for its help."""


class Command(TyperCommand):
    """A command whose help groups options under their panels' headings, in plain text without markup."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then every panel in the order of its first option."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else "Other options"
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or usual, []).append(record)
        panels["Other options"] = panels.pop("Other options", [])
        for heading, records in panels.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write an example on a line of its own, for copying."""
        if self.name in EXAMPLES:
            formatter.write(f"\nExample:\n  {EXAMPLES[self.name]}\n")


class Commands(TyperGroup):
    """All commands; a command's module is imported on use, because all together take most of a second."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
            if not isinstance(command, typer.Typer):
                alone = typer.Typer(add_completion=False, rich_markup_mode=None)
                alone.command(cls=Command, context_settings={"max_content_width": 100})(command)
                command = alone
            self.commands[cmd_name] = typer.main.get_command(command)
            self.commands[cmd_name].name = cmd_name
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command; for a misspelt one import all, to suggest the nearest."""
        if args[0] not in COMMANDS:
            for name in COMMANDS:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="tflite-fuse",
    cls=Commands,
    help="Make TensorFlow Lite models fit microcontrollers: less RAM, the same bytes.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"tflite-fuse {tflite_fuse.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    log: Annotated[Path | None, typer.Option("--log", help="File for details of a defect, if one occurs.")] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    log_file.set(log)


def _open_streams() -> None:
    """Open the null device for streams that came closed; otherwise the next opened file would get their number and
    output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the least free number: this one
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def main() -> None:
    """Entry point of the ``tflite-fuse`` command."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    end_on_interrupts()
    gc.set_threshold(SELDOM)
    os.environ.setdefault(_THREADS_OF_NUMPY, "1")
    try:
        app()
    except OSError as error:  # from --help and --version; commands handle theirs
        print(f"tflite-fuse: {refusal(error)}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python writes the rest at exit
        sys.exit(2)
    finally:
        gc.freeze()  # skips the collection of cycles at exit


if __name__ == "__main__":
    main()
