"""`tflite-fuse pareto`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

import tflite_fuse
from tflite_fuse.commands.arguments import ConfigFile, JsonFlag, ModelPath, PlotFile, with_options
from tflite_fuse.console import Status, answers_errors, console, print_json
from tflite_fuse.errors import UsageError
from tflite_fuse.files import require_apart
from tflite_fuse.pages.charts import Dot, front_chart, require_plottable
from tflite_fuse.passes.options import FuseOptions


@answers_errors
@with_options("pareto", FuseOptions)
def pareto(
    model: ModelPath,
    as_json: JsonFlag = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    plot: PlotFile = None,
    config: ConfigFile = None,
    *,
    options: dict[str, Any],
) -> None:
    """Show every trade of RAM for compute that fused blocks offer for a model."""
    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other")
    if plot is not None and options.get("memory") is not None:
        raise UsageError("--plot draws RAM against compute: leave it out with --memory, which --csv and --json support")
    require_apart((plot,), (model, config))
    require_plottable(plot)
    with Status("searching", as_json or as_csv):
        front = tflite_fuse.pareto(model, **options)
    if plot is not None:
        points = [Dot(row.ram_bytes, row.compute_factor, ", ".join(row.marks[:1])) for row in front.rows]
        front_chart(points, [Dot(front.unfused_ram_bytes, 1.0, "unfused")], unit=front.unit).save(plot)
    if as_json:
        print_json(front.to_json())
    elif as_csv:
        sys.stdout.write(front.to_csv())
    else:
        console().print(front.table())
