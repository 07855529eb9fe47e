"""`tflite-fuse export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tflite_fuse.boards.table import find_board
from tflite_fuse.commands.arguments import ConfigFile, JsonFlag, ModelPath, refuse_dash
from tflite_fuse.console import answers_errors, print_json, say
from tflite_fuse.errors import UsageError
from tflite_fuse.export import FORMATS, export_model
from tflite_fuse.export.benchmark import OnBoard
from tflite_fuse.export.split.project import export_split
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS
from tflite_fuse.split.cluster.link.messages import read_key


@answers_errors
def export(
    model: ModelPath,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write.", show_default=False)],
    kind: Annotated[str, typer.Option("--format", help=f"Kind of project: {', '.join(FORMATS)}.", show_default=False)],
    kernels: Annotated[
        str | None,
        typer.Option(help=f"Kernels that the arena must suffice for: {', '.join(KERNEL_SETS)}.", show_default=False),
    ] = None,
    tflm: Annotated[
        str | None,
        typer.Option(help="Generation of TensorFlow Lite Micro, for the arena: 2024 or 2026.", show_default=False),
    ] = None,
    benchmark: Annotated[
        Path | None,
        typer.Option(
            metavar="ORIGINAL",
            help="Compare MODEL on the device with the file it was rewritten from: bytes, arena, time.",
            show_default=False,
        ),
    ] = None,
    board: Annotated[
        str | None, typer.Option(help="The board of a benchmark, as `tflite-fuse boards` lists it.", show_default=False)
    ] = None,
    two_arenas: Annotated[
        bool, typer.Option("--two-arenas", help="Runtime's own data and activations as two arrays, for two memories.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Write into DIR even if it is not empty.")] = False,
    key_file: Annotated[
        Path | None, typer.Option(help="For a split: a key for all devices, 16 bytes or more.", show_default=False)
    ] = None,
    as_json: JsonFlag = False,
    config: ConfigFile = None,
) -> None:
    """Write a project for a microcontroller: model, library, arena size, operator list, a main that compiles.

    MODEL may be the folder that `tflite-fuse split -o` wrote: the project then has a program for each of its devices.
    """
    refuse_dash(directory)
    if model.is_dir():
        if not (model / "plan.json").exists():
            raise UsageError(f"{model}: is a folder without a plan; give a .tflite or what `tflite-fuse split` wrote")
        if benchmark is not None:
            raise UsageError("a benchmark is of one model, and this is a split: leave out --benchmark")
        _export_split(model, directory, kind, force=force, runtime=kernels or tflm, key_file=key_file, as_json=as_json)
        return
    if key_file is not None:
        raise UsageError("a key is for the devices of a split, and this is one model: leave out --key-file")
    if board is not None and benchmark is None:
        raise UsageError("a board is for a benchmark: add --benchmark ORIGINAL, or leave --board out")
    chosen = None if board is None else find_board(board)
    written = export_model(
        model,
        directory,
        kind,
        force=force,
        kernels=kernels,
        tflm=tflm,
        benchmark=benchmark,
        two_arenas=two_arenas,
        board=None if chosen is None else OnBoard(chosen.name, chosen.mhz, chosen.target),
    )
    if as_json:
        print_json(written.to_json(kind, directory))
        return
    for note in written.notes:
        say(f"- {note}")
    say(f"- {written.flash.sentence()}")
    say(f"{directory}: {len(written.files)} files for {kind}, a tensor arena of {written.arena_bytes:,} bytes")


def _export_split(
    folder: Path, directory: Path, kind: str, *, force: bool, runtime: str | None, key_file: Path | None, as_json: bool
) -> None:
    if runtime:
        raise UsageError("a split has no TensorFlow Lite Micro: leave out which one")
    written = export_split(folder, directory, kind, force=force, key=None if key_file is None else read_key(key_file))
    if as_json:
        print_json(written.to_json(kind, directory))
        return
    for note in written.notes:
        say(f"- {note}")
    envs = ", ".join(each.env for each in written.places)
    say(f"{directory}: {len(written.files)} files for {kind}, an environment for each of {envs}")
