"""`tflite-fuse sweep`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress
from rich.table import Table

import tflite_fuse
from tflite_fuse.commands.arguments import ConfigFile, JsonFlag
from tflite_fuse.console import answers_errors, console, print_json, say
from tflite_fuse.errors import UsageError
from tflite_fuse.passes.options import MetricsOptions
from tflite_fuse.pipelines.executors import EXECUTORS, run_here, run_on_dask
from tflite_fuse.pipelines.on_ray import run_on_ray
from tflite_fuse.pipelines.summary import SHOWN, shown_values, write_summary
from tflite_fuse.pipelines.sweep import Item, Results, Row, items_in, models_in, option_sets
from tflite_fuse.report.notebook import plain_table


@answers_errors
def sweep(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with .tflite files.", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")] = Path("sweep"),
    jobs: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes. Default: one per core.", show_default=False)
    ] = None,
    sets: Annotated[
        Path | None, typer.Option(help="A TOML file with a table for each set of options.", show_default=False)
    ] = None,
    effort: Annotated[str, typer.Option(help="Effort for each model: estimate or exact.", show_default=True)] = "exact",
    executor: Annotated[str, typer.Option(help=f"Where models are processed: {', '.join(EXECUTORS)}.")] = EXECUTORS[0],
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a Dask or Ray cluster; without it one is made here.", show_default=False),
    ] = None,
    as_json: JsonFlag = False,
    config: ConfigFile = None,
) -> None:
    """Rewrite every model of a folder, under every set of options; started again, continue where it stopped."""
    MetricsOptions(effort=effort)  # refuses other words
    if executor not in EXECUTORS:
        raise UsageError(f"executor is {', '.join(EXECUTORS[:-1])} or {EXECUTORS[-1]}, not {executor!r}")
    if scheduler is not None and executor == EXECUTORS[0]:
        raise UsageError("--scheduler is the address of a cluster: add --executor dask or --executor ray")
    named = option_sets(sets)
    total = len(models_in(folder)) * len(named)
    keys: list[str] = []
    with (
        closing(Results(output)) as results,
        Progress(console=console(stderr=True), disable=as_json or not sys.stderr.isatty()) as progress,
    ):
        bar = progress.add_task("sweeping", total=total)
        items = _new(
            items_in(folder, named, effort, tflite_fuse.__version__), results, keys, lambda: progress.advance(bar)
        )
        workers = jobs or os.cpu_count() or 1
        on_cluster = {"dask": run_on_dask, "ray": run_on_ray}.get(executor)
        rows = run_here(items, workers) if on_cluster is None else on_cluster(items, workers, scheduler)
        for row in rows:
            results.add(row)
            progress.advance(bar)
        stored = results.of(keys)
    written = write_summary(output, stored)
    broken = sum(row.broken for row in stored)
    if as_json:
        print_json(
            {"schema": "tflite-fuse/sweep/1", "rows": len(stored), "broken": broken, "files": list(map(str, written))}
        )
    else:
        console().print(_table(stored))
        for model, error in sorted({(row.model, row.error) for row in stored if row.broken}):
            say(error if error.startswith(model) else f"{model}: {error}")
        say(f"{output}: {len(stored):,} rows, {broken:,} broken")
    if broken:
        raise typer.Exit(1)


def _new(items: Iterator[Item], results: Results, keys: list[str], skipped: Callable[[], None]) -> Iterator[Item]:
    """Yield items without a row; append every item's key to ``keys``."""
    for item in items:
        keys.append(item.key)
        if item.key not in results.done:
            yield item
        else:
            skipped()


def _table(rows: Sequence[Row]) -> Table:
    metrics = [name.replace("_", " ") for name in SHOWN]
    table = plain_table("model", "options", *metrics, right=metrics)
    for row in rows:
        if row.broken:
            table.add_row(row.model, row.options, "broken", style="red")
        else:
            table.add_row(row.model, row.options, *shown_values(row))
    return table
