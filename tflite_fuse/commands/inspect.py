"""`tflite-fuse inspect`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import tflite_fuse
from tflite_fuse.boards.fit import BoardVerdict, fit_board, forecast, forecast_of
from tflite_fuse.commands.arguments import (
    BoardName,
    ConfigFile,
    JsonFlag,
    MetricsFile,
    ModelPath,
    PlotFile,
    Reserve,
    RuntimeName,
    board_of,
)
from tflite_fuse.console import Status, answers_errors, console, print_json, say, write_json
from tflite_fuse.explorer.node_data import write_node_data
from tflite_fuse.files import require_apart, require_writable
from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME
from tflite_fuse.model.file import load_model, read_source
from tflite_fuse.pages.charts import arena_chart, require_plottable
from tflite_fuse.pages.trace import arena_trace
from tflite_fuse.passes.options import Progress
from tflite_fuse.pipelines.flat import figures_metrics
from tflite_fuse.report.arena_map import arena_map
from tflite_fuse.report.inspection import Inspection
from tflite_fuse.report.sentences import inspection_headline, int8_lines
from tflite_fuse.report.tables import inspection_table
from tflite_fuse.report.wording import grouped
from tflite_fuse.rewriting.advice import about_inputs


@answers_errors
def inspect(
    model: ModelPath,
    board: BoardName = None,
    reserve: Reserve = None,
    runtime: RuntimeName = DEFAULT_RUNTIME,
    metrics: MetricsFile = None,
    plot: PlotFile = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="File for the arena over time, for Perfetto.", show_default=False)
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option("--node-data", help="Folder for files of node data for Model Explorer.", show_default=False),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Show no figures after a rewrite, which take as long as one.")
    ] = False,
    as_json: JsonFlag = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Print every operator, all tried options, and why operators are in no block."),
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Show how much RAM a model needs, which operator is the bottleneck, and whether it fits a board."""
    require_plottable(plot)
    require_apart((metrics, plot, trace), (model, config))
    for path in (metrics, trace):
        require_writable(path)
    chosen, kept = board_of(board, reserve)
    with Status("inspecting", as_json) as progress:
        data = read_source(model)  # once: it may be a pipe
        inspection = tflite_fuse.inspect(data, name=str(model), runtime=runtime)
        verdict = None
        if chosen is not None:
            show = partial(_show_options, progress)
            verdict = fit_board(data, chosen, kept, show, runtime, quick=quick)
        elif not quick:
            progress("a rewrite", 0, 0)
        forecasted = (
            forecast(data, inspection.figures, runtime, quick=quick) if verdict is None else forecast_of(verdict)
        )
    write_json(figures_metrics(inspection.figures), metrics)
    if nodes is not None:
        write_node_data(inspection, nodes)
    if plot is not None or trace is not None:
        shown = arena_map(load_model(data))
        write_json(arena_trace(shown, str(model)), trace)
        if plot is not None:
            arena_chart(shown, model.name, legend=True).save(plot)
    if as_json:
        rewritten = {"rewritten": None if forecasted.best is None else forecasted.best.to_json()}
        print_json(inspection.to_json() | rewritten | ({} if verdict is None else {"board": verdict.to_json()}))
        return
    arena = None if forecasted.best is None else forecasted.best.arena_bytes
    fits = None if verdict is None else verdict.fitting is not None
    tried = None if quick else (forecasted.report, arena)
    inputs = about_inputs(load_model(data), forecasted.report) if verdict is None and forecasted.report else ""
    for line in inspection_headline(inspection, tried, forecasted.options, forecasted.fit, fits=fits, inputs=inputs):
        say(line)
    if verbose:
        _say_details(inspection, verdict)


def _show_options(progress: Progress, options: str) -> None:
    progress(f"rewrite {options}", 0, 0)


def _say_details(inspection: Inspection, verdict: BoardVerdict | None) -> None:
    """Print every operator, the reason why it is in no block, and the rewrites tried for the board."""
    say(f"- {inspection.verdict()}")
    console().print(inspection_table(inspection))
    for text in grouped((*inspection.records, *inspection.unfused())):
        say(f"- {text}")
    for line in int8_lines(inspection.records):
        say(line)
    if verdict is None:
        return
    for fit in verdict.tried:
        say(f"- {fit.how()}: an arena of {fit.arena_bytes:,} bytes, a file of {fit.file_bytes:,}")
        if fit.time is not None:
            say(f"- that takes {fit.time}")
    if sentence := verdict.also_fits():
        say(f"- {sentence}")
