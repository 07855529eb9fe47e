"""Arguments that several commands have, and what becomes of their texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tflite_fuse
from tflite_fuse.boards.fit import default_reserve
from tflite_fuse.boards.table import Board
from tflite_fuse.errors import UsageError
from tflite_fuse.units import parse_bytes, parse_pair

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.", show_default=False)]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
InputCount = Annotated[int, typer.Option("--inputs", min=1, help="How many inputs to compare on.")]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, max=2**32 - 1, help="Of the random inputs; what was used is printed."),
]
DataFile = Annotated[
    Path | None, typer.Option("--data", help="Your own inputs: an .npz with an array per model input.")
]
SchemeName = Annotated[str, typer.Option(help=f"Which fused blocks are allowed: {', '.join(tflite_fuse.SCHEMES)}.")]
InputMode = Annotated[
    str,
    typer.Option(
        "--input",
        help="Where the model's inputs are on the device: resident (in the arena), streamed (handed out row by row, as "
        "by a camera) or external (in memory of yours, as PSRAM).",
    ),
]
Int8Flag = Annotated[
    bool,
    typer.Option(
        "--int8-io",
        help="Make float32 and uint8 inputs and outputs int8: drop the QUANTIZE and DEQUANTIZE at the ends.",
    ),
]
NoOverlap = Annotated[
    bool, typer.Option("--no-overlap", help="Keep outputs and scratch of fused blocks off input they need no more.")
]
NoStrips = Annotated[
    bool, typer.Option("--no-strips", help="Run every fused block over its full width: compute no column twice.")
]
TargetName = Annotated[
    str,
    typer.Option("--target", help=f"The core whose instructions are predicted: {', '.join(tflite_fuse.TARGETS)}."),
]
CostName = Annotated[
    str, typer.Option(help="What compute is counted in: macs, or instructions as predicted for --target.")
]
WeightsName = Annotated[
    str,
    typer.Option(
        "--weights",
        help="How weights are stored: 8bit, or for cores with the DSP extension (Cortex-M4, M7, M33), where they take "
        "fewer instructions, paired, or 16bit, which takes more flash; auto is paired for a --target that has it.",
    ),
]
Tiles = Annotated[
    str | None,
    typer.Option(
        help="Number of tiles along height and width of the scheme inverted-residual, like 4x4 (default 8x8).",
        show_default=False,
    ),
]
TileSize = Annotated[
    str | None,
    typer.Option(help="Height and width of such a tile in pixels, like 8x8, instead of their number."),
]


BoardName = Annotated[
    str | None,
    typer.Option(
        "--board", help="A board `tflite-fuse boards` lists, or the .toml that describes yours.", show_default=False
    ),
]
Reserve = Annotated[
    str | None,
    typer.Option(
        help="RAM of the board for everything but the tensor arena, like 40kB. Default: a quarter of it.",
        show_default=False,
    ),
]
MetricsFile = Annotated[
    Path | None,
    typer.Option("--metrics", help="Where to write the figures as one flat JSON object.", show_default=False),
]
StreamTime = Annotated[
    str | None,
    typer.Option(
        metavar="H[,axis=height|width]",
        help="Make a stream of a model over a window of steps, called again every H new ones: it takes only those.",
    ),
]
PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", help="Where to draw it, a .svg or .png (extra report).", show_default=False),
]


def stream_time_of(typed: str | None) -> tuple[int | None, str | None]:
    """The hop and the axis of ``H[,axis=...]``. Raises UsageError."""
    if typed is None:
        return None, None
    steps, _, rest = typed.partition(",")
    name, _, axis = rest.partition("=")
    if not steps.isdecimal() or len(steps) > 9 or (rest and name != "axis"):
        raise UsageError(f"--stream-time takes H or H,axis=height or H,axis=width, not {typed!r}")
    return int(steps), axis if rest else None


def tiles_of(text: str | None) -> tuple[int, int] | None:
    """Number of tiles along height and width, of a text like 4x4."""
    return None if text is None else parse_pair(text, "a number of tiles")


def tile_size_of(text: str | None) -> tuple[int, int] | None:
    """Height and width of a tile in pixels, of a text like 8x8."""
    return None if text is None else parse_pair(text, "a tile size")


def refuse_dash(path: Path) -> None:
    """Raise UsageError for "-": elsewhere it means standard output, here it would become a file of that name."""
    if str(path) == "-":
        raise UsageError("-: nothing is written to standard output; give a path with a name")


def reserved(board: Board, text: str | None) -> int:
    """Bytes of RAM a board keeps for what is not the arena. Raises UsageError."""
    size = default_reserve(board) if text is None else parse_bytes(text)
    if size >= board.ram_bytes:
        raise UsageError(f"--reserve {text} leaves no RAM: {board.name} has {board.ram_bytes:,} bytes")
    return size
