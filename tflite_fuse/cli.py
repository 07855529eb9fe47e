"""The command line: its commands (`commands/`, a file each) and how it ends.

Exit codes: 0 done; 1 the model does not meet what was asked (differs, does not fit); 2 bad usage or input; 3 a defect
of this package; 130 interrupted. Names out of a model or a path are shown with their control characters escaped.
"""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

import tflite_fuse
from tflite_fuse.commands.boards import boards
from tflite_fuse.commands.check import check
from tflite_fuse.commands.cluster.app import cluster
from tflite_fuse.commands.export import export
from tflite_fuse.commands.inspect import inspect
from tflite_fuse.commands.pareto import pareto
from tflite_fuse.commands.report import report
from tflite_fuse.commands.rewrite import rewrite
from tflite_fuse.commands.split import split
from tflite_fuse.commands.sweep import sweep
from tflite_fuse.commands.verify import verify
from tflite_fuse.console import log_file

app = typer.Typer(
    name="tflite-fuse",
    help="Make TensorFlow Lite models fit microcontrollers: less RAM, the same bytes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for _command in (rewrite, inspect, verify, pareto, report, sweep, check, export, boards, split):
    app.command()(_command)
app.add_typer(cluster, name="cluster")


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


def main() -> None:
    """Entry point of the ``tflite-fuse`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()


if __name__ == "__main__":
    main()
