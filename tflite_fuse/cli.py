"""The command line: its commands (`commands/`, a file each) and how it ends.

Exit codes: 0 done; 1 the model does not meet what was asked (differs, does not fit); 2 bad usage or input; 3 a defect
of this package; 130 interrupted. Names out of a model or a path are shown with their control characters escaped.
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
from typer.core import TyperGroup

import tflite_fuse
from tflite_fuse.console import log_file, refusal
from tflite_fuse.interrupts import end_on_interrupts

ALONE = ("rewrite", "inspect", "verify", "pareto", "report", "sweep", "check", "export", "boards", "split")
COMMANDS = {name: f"tflite_fuse.commands.{name}" for name in ALONE} | {"cluster": "tflite_fuse.commands.cluster"}
"""Where the function, or the ``typer.Typer``, of a command's name is."""

SELDOM = 200_000
"""Objects between two looks for cycles: models have none and live to the end, so that the interpreter's own 700 cost a
twentieth of a command's time."""

_THREADS_OF_NUMPY = "OPENBLAS_NUM_THREADS"
"""Nothing here multiplies matrices large enough for threads, and numpy starts one a core as it is imported: they wait
busily for work, a twentieth of a command's time on two cores."""


class Commands(TyperGroup):
    """All commands; the module of one is imported when it is asked for, because all together take most of a second."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            found = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
            if not isinstance(found, typer.Typer):
                alone = typer.Typer(add_completion=False)
                alone.command()(found)
                found = alone
            self.commands[cmd_name] = typer.main.get_command(found)
            self.commands[cmd_name].name = cmd_name
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant. Of a misspelt one all others are looked at, to say which is near."""
        if args[0] not in COMMANDS:
            for name in COMMANDS:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="tflite-fuse",
    cls=Commands,
    help="Make TensorFlow Lite models fit microcontrollers: less RAM, the same bytes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"tflite-fuse {tflite_fuse.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    log: Annotated[
        Path | None, typer.Option("--log", help="Where to write what is needed to repair a defect, should one show.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    log_file.set(log)


def _open_streams() -> None:
    """Puts nothing in place of streams that came closed: else the next file opened would get their number, and be
    printed into."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the least number that is free: this one
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
    except OSError as error:  # of --help and --version: commands answer theirs
        print(f"tflite-fuse: {refusal(error)}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or what is left is written as Python ends
        sys.exit(2)
    finally:
        gc.freeze()  # The interpreter ends with a look for cycles in all that is left, which dies with it anyway.


if __name__ == "__main__":
    main()
