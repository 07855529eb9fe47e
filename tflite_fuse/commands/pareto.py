"""`tflite-fuse pareto`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import tflite_fuse
from tflite_fuse.commands.arguments import (
    CostName,
    InputMode,
    Int8Flag,
    JsonFlag,
    ModelPath,
    NoOverlap,
    NoStrips,
    PlotFile,
    SchemeName,
    StreamTime,
    TargetName,
    Tiles,
    TileSize,
    stream_time_of,
    tile_size_of,
    tiles_of,
)
from tflite_fuse.commands.config import ConfigFile
from tflite_fuse.console import Status, answers_errors, console, print_json
from tflite_fuse.errors import UsageError
from tflite_fuse.files import require_apart
from tflite_fuse.pages.charts import front_chart, require_plottable


@answers_errors
def pareto(
    model: ModelPath,
    input_mode: InputMode = "resident",
    scheme: SchemeName = "auto",
    tiles: Tiles = None,
    tile_size: TileSize = None,
    no_overlap: NoOverlap = False,
    no_strips: NoStrips = False,
    int8_io: Int8Flag = False,
    stream_time: StreamTime = None,
    core: TargetName = "generic",
    cost: CostName = "macs",
    as_json: JsonFlag = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    plot: PlotFile = None,
    config: ConfigFile = None,
) -> None:
    """Show every trade of RAM for compute that fused blocks offer for a model."""
    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other")
    require_apart((plot,), (model, config))
    require_plottable(plot)
    hop, axis = stream_time_of(stream_time)
    with Status("searching", as_json or as_csv):
        front = tflite_fuse.pareto(
            model,
            scheme=scheme,
            tiles=tiles_of(tiles),
            tile_size=tile_size_of(tile_size),
            input_mode=input_mode,
            overlap=not no_overlap,
            strips=not no_strips,
            int8_io=int8_io,
            stream_time=hop,
            stream_axis=axis,
            target=core,
            cost=cost,
        )
    if plot is not None:
        points = [(row.ram_bytes, row.compute_factor) for row in front.rows]
        front_chart(points, [("unfused", front.unfused_ram_bytes, 1.0)], unit=front.unit).save(plot)
    if as_json:
        print_json(front.to_json())
    elif as_csv:
        sys.stdout.write(front.to_csv())
    else:
        console().print(front.table())
