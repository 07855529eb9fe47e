"""`tflite-fuse cluster simulate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tflite_fuse.commands.arguments import JsonFlag, PlotFile
from tflite_fuse.commands.cluster.folder import Folder
from tflite_fuse.console import Status, answers_errors, console, print_json, say
from tflite_fuse.errors import UsageError
from tflite_fuse.files import require_writable, write_atomically
from tflite_fuse.report.printable import printable
from tflite_fuse.split.cluster.folder import Deployment, read_deployment
from tflite_fuse.split.cluster.simulation import simulated
from tflite_fuse.split.cluster.sweep import Point, draw_sweep, sweep
from tflite_fuse.split.simulate.devices import Course
from tflite_fuse.split.simulate.trace import chrome_trace
from tflite_fuse.split.splitting import STRATEGIES

SCHEMA = "tflite-fuse/cluster-simulation/1"
MOST_WORKERS = 120


@answers_errors
def simulate(
    folder: Folder,
    trace: Annotated[
        Path | None, typer.Option(help="Where the course goes, for Chrome's trace viewer or Perfetto.")
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="FROM..TO",
            help=f"Also split the model anew over so many workers, up to {MOST_WORKERS}: those of the file, in turns.",
            show_default=False,
        ),
    ] = None,
    inferences: Annotated[
        int, typer.Option(min=1, max=1000, help="How many, as many at a time as the workers can have.")
    ] = 1,
    strategy: Annotated[str, typer.Option(help=f"How --workers splits: {', '.join(STRATEGIES)}.")] = STRATEGIES[0],
    plot: PlotFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Follow inferences on predicted cores and links: where each second goes."""
    for path in (trace, plot):
        require_writable(path)
    counts = None if workers is None else _range(workers)
    if plot is not None and counts is None:
        raise UsageError("--plot draws time, bytes and RAM over the number of workers: give --workers, like 1..8")
    if strategy not in STRATEGIES:
        raise UsageError(f"{strategy!r} is no strategy; choose from {', '.join(STRATEGIES)}")
    deployment = read_deployment(folder)
    course = simulated(deployment, inferences)
    with Status("splitting", as_json) as show:
        points = (
            [] if counts is None else sweep(deployment, counts, strategy, lambda each: show(f"{each} workers", 0, 0))
        )
    if plot is not None:
        draw_sweep(points, plot)
    if trace is not None:
        write_atomically((json.dumps(chrome_trace(course, deployment.cluster)) + "\n").encode(), trace)
    if as_json:
        print_json(_json(deployment, course, points))
        return
    console().print(_table(deployment, course))
    say(
        f"{folder}: {course.seconds * 1000:.2f} ms predicted; {len(course.messages):,} messages, "
        f"{course.payload_bytes:,} bytes of payload, {course.frame_bytes:,} of frames"
    )
    if course.period is not None:
        first = course.ends[0] * 1000
        say(f"{inferences} inferences, one every {course.period * 1000:.2f} ms; the first takes {first:.2f} ms")
    if points:
        console().print(_sweep_table(points))


def _range(text: str) -> range:
    first, dots, last = text.partition("..")
    low, high = first, last if dots else first
    if not (low.isascii() and low.isdigit() and high.isascii() and high.isdigit()):
        raise UsageError(f"--workers is a range like 1..8, not {text!r}")
    if not 1 <= int(low) <= int(high) <= MOST_WORKERS:
        raise UsageError(f"--workers goes from 1 to {MOST_WORKERS}, not {text}")
    return range(int(low), int(high) + 1)


def _json(deployment: Deployment, course: Course, points: Sequence[Point]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "seconds": course.seconds,
        "inferences": len(course.ends),
        "period_s": course.period,
        "messages": len(course.messages),
        "payload_bytes": course.payload_bytes,
        "frame_bytes": course.frame_bytes,
        "devices": [
            {
                "name": deployment.cluster.device(device).name,
                "computes_s": each.computes,
                "waits_s": each.waits,
                "sends_s": each.sends,
                "receives_s": each.receives,
            }
            for device, each in course.usage.items()
        ],
        "sweep": [point.to_json() for point in points],
    }


def _table(deployment: Deployment, course: Course) -> Table:
    """Where each second goes: what a device does, and beside it how long its link is busy."""
    table = Table("device", "computes", "waits", "link sends", "link receives")
    for device, each in course.usage.items():
        figures = (each.computes, each.waits, each.sends, each.receives)
        cells = (f"{value * 1000:.2f} ms {value / course.seconds:.0%}" for value in figures)
        table.add_row(printable(deployment.cluster.device(device).name), *cells)
    return table


def _sweep_table(points: Sequence[Point]) -> Table:
    table = Table("workers", "with work", "time", "payload", "most RAM", "most flash")
    for each in points:
        if each.reason is not None:
            table.add_row(str(each.workers), "", printable(each.reason), "", "", "")
            continue
        table.add_row(
            str(each.workers),
            str(each.working),
            f"{each.seconds * 1000:.2f} ms",
            f"{each.payload_bytes:,} B",
            f"{each.ram_bytes:,} B",
            f"{each.flash_bytes:,} B",
        )
    return table
