"""`tflite-fuse cluster`: run a split model on its workers, or simulate it."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from tflite_fuse.commands.arguments import JsonFlag, PlotFile
from tflite_fuse.console import Status, answers_errors, console, print_json, say
from tflite_fuse.errors import UsageError
from tflite_fuse.files import require_writable, write_atomically
from tflite_fuse.ir.block import Int8Array
from tflite_fuse.pages.charts import require_plottable, sweep_chart
from tflite_fuse.report.notebook import printable
from tflite_fuse.runtime.inputs import Array, load_inputs, output_arrays
from tflite_fuse.split.cluster.folder import Deployment, addresses, read_deployment
from tflite_fuse.split.cluster.link.messages import read_key
from tflite_fuse.split.cluster.link.streams import parse_address
from tflite_fuse.split.cluster.running.coordinator import Answer, Contact, Coordinator, Progress, ask_all
from tflite_fuse.split.cluster.running.worker import Worker
from tflite_fuse.split.cluster.simulation import Point, simulated, sweep
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.search.auto import OBJECTIVES
from tflite_fuse.split.simulate import Course, chrome_trace
from tflite_fuse.split.splitting import STRATEGIES, SplitOptions, require_known

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder that tflite-fuse split -o wrote.", show_default=False)
]


SIMULATION_SCHEMA = "tflite-fuse/cluster-simulation/1"
MOST_WORKERS = 120


@answers_errors
def simulate(
    folder: Folder,
    trace: Annotated[
        Path | None, typer.Option(help="File for the timeline, for Chrome's trace viewer or Perfetto.")
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="FROM..TO",
            help=f"Also split the model over so many workers, up to {MOST_WORKERS}: the file's, repeated in turn.",
            show_default=False,
        ),
    ] = None,
    inferences: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of inferences; they overlap as far as the workers allow.")
    ] = 1,
    strategy: Annotated[str, typer.Option(help=f"How --workers splits: {', '.join(STRATEGIES)}.")] = STRATEGIES[0],
    objective: Annotated[str, typer.Option(help=f"What auto minimises then: {', '.join(OBJECTIVES)}.")] = "time",
    plot: PlotFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Simulate inferences on predicted cores and links, and show the time of each device and link."""
    require_writable(trace)
    require_plottable(plot)
    counts = None if workers is None else _range(workers)
    if plot is not None and counts is None:
        raise UsageError("--plot draws time, bytes and RAM over the number of workers: give --workers, like 1..8")
    options = SplitOptions(strategy, objective)
    require_known(options)
    deployment = read_deployment(folder)
    course = simulated(deployment, inferences)
    with Status("splitting", as_json) as show:
        points = sweep(deployment, counts or (), options, lambda each: show(f"{each} workers", 0, 0))
    if plot is not None:
        sweep_chart(points).save(plot)
    if trace is not None:
        write_atomically((json.dumps(chrome_trace(course, deployment.cluster)) + "\n").encode(), trace)
    if as_json:
        print_json(_json(deployment, course, points))
        return
    console().print(_simulated_table(deployment, course))
    say(
        f"{folder}: {course.seconds * 1000:.2f} ms predicted; {course.payload_bytes:,} bytes moved in "
        f"{len(course.values):,} messages, {course.frame_bytes:,} with their headers; beside them "
        f"{len(course.messages) - len(course.values):,} messages that start inferences and report steps"
    )
    if course.spacing is not None:
        first = course.ends[0] * 1000
        say(f"{inferences} inferences, one every {course.spacing * 1000:.2f} ms; the first takes {first:.2f} ms")
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
        "schema": SIMULATION_SCHEMA,
        "seconds": course.seconds,
        "inferences": len(course.ends),
        "period_s": course.spacing,
        "messages": len(course.values),
        "payload_bytes": course.payload_bytes,
        "frame_bytes": course.frame_bytes,
        "control_messages": len(course.messages) - len(course.values),
        "control_frame_bytes": sum(each.frame_bytes for each in course.messages) - course.frame_bytes,
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
        "sweep": [asdict(point) for point in points],
    }


def _simulated_table(deployment: Deployment, course: Course) -> Table:
    """Return the time of each device, and beside it the time that its link is busy."""
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


cluster = typer.Typer(
    help="Run a split model on its workers.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
cluster.command()(simulate)

SCHEMA = "tflite-fuse/cluster-run/1"
STATUS_SCHEMA = "tflite-fuse/cluster-status/1"

At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="NAME=ADDRESS", help="A worker's host:port or serial line, if workers.toml has none."),
]

KeyFile = Annotated[
    Path | None, typer.Option(help="A key that all devices have, 16 bytes or more: devices without it are refused.")
]
NO_KEY = "without --key-file any device that reaches a worker can use it; messages are only checked for damage"


@cluster.command()
@answers_errors
def run(
    folder: Folder,
    data: Annotated[Path, typer.Option("--input", help="An .npy, or an .npz with an array per input.")],
    output: Annotated[Path | None, typer.Option("--output", help="File for the outputs, .npy or .npz.")] = None,
    at: At = None,
    retries: Annotated[int, typer.Option(min=0, help="How often a failed inference is tried again.")] = 0,
    timeout: Annotated[float, typer.Option(min=0.001, help="Limit of an inference in seconds.")] = 60.0,
    key_file: KeyFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Run inferences with the workers."""
    require_writable(output)
    deployment = read_deployment(folder)
    key = _key(key_file)
    samples = load_inputs(data, deployment.network.model)
    if output is not None and output.suffix == ".npy" and len(deployment.network.outputs) > 1:
        raise UsageError(f"{output}: the model has {len(deployment.network.outputs)} outputs; write an .npz")
    contacts = _contacts(deployment, at)
    coordinator = Coordinator(deployment.coordinator(), deployment.number, contacts, deployment.dials, timeout, key)
    computed = dict.fromkeys((COORDINATOR, *contacts), 0.0)
    with Status("running", as_json) as show:

        def progress(each: Progress) -> None:
            computed[each.device] += each.seconds
            name = contacts[each.device].name if each.device in contacts else "the coordinator"
            show(f"{name} has computed step {each.done}", 0, 0)

        coordinator.progress = progress
        coordinator.failed = lambda why, seconds: say(f"{why}; tried again in {seconds:g} s", stderr=True)
        outputs, seconds = asyncio.run(_infer_all(coordinator, samples, retries))
    if output is not None:
        write_atomically(_file(deployment, outputs, output.suffix), output)
    if as_json:
        workers = [{"name": each.name, "computed_s": computed[device]} for device, each in contacts.items()]
        print_json({"schema": SCHEMA, "inferences": len(outputs), "seconds": seconds, "workers": workers})
        return
    shares = ", ".join(f"{each.name} computed {computed[device]:.3f} s" for device, each in contacts.items())
    say(f"{folder}: {len(outputs)} inferences in {sum(seconds):.3f} s; {shares}")


@cluster.command()
@answers_errors
def status(
    folder: Folder,
    at: At = None,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds to wait for each worker.")] = 5.0,
    key_file: KeyFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Request the state of every worker. Exit code 1 if one does not reply as it should."""
    deployment = read_deployment(folder)
    key = _key(key_file)
    contacts = _contacts(deployment, at)
    answers = asyncio.run(ask_all(deployment.number, contacts, timeout, key))
    if as_json:
        print_json({"schema": STATUS_SCHEMA, "workers": [asdict(answer) for answer in answers]})
    else:
        console().print(_table(answers))
    if not all(answer.fault is None for answer in answers):
        raise typer.Exit(1)


@cluster.command()
@answers_errors
def worker(
    folder: Folder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the worker in the plan.", show_default=False)],
    listen: Annotated[str, typer.Option(help="host:port to listen at; port 0 for any.")] = "127.0.0.1:0",
    key_file: KeyFile = None,
) -> None:
    """Run a worker of the plan on this machine, until interrupted."""
    deployment = read_deployment(folder)
    key = _key(key_file)
    device = deployment.worker(name)
    host, port = parse_address(listen, "--listen")
    process = Worker(deployment.machine(device), deployment.number, device, deployment.peers(device), key)

    async def serve() -> None:
        say(f"{name} listens at {await process.listen(host, port)}")
        await asyncio.Event().wait()

    asyncio.run(serve())


def _key(path: Path | None) -> bytes | None:
    if path is None:
        say(NO_KEY, stderr=True)
        return None
    return read_key(path)


def _contacts(deployment: Deployment, at: Sequence[str] | None) -> dict[int, Contact]:
    by_name = {}
    for text in at or ():
        name, equals, address = text.rpartition("=")
        if not equals:
            raise UsageError(f"--at is NAME=ADDRESS, like left=127.0.0.1:7001 or left=/dev/ttyACM0, not {text!r}")
        by_name[name] = address
    names = deployment.cluster.workers
    return {device: Contact(names[device].name, address) for device, address in addresses(deployment, by_name).items()}


async def _infer_all(
    coordinator: Coordinator, samples: Sequence[Sequence[Array]], retries: int
) -> tuple[list[list[Int8Array]], list[float]]:
    """Return outputs and seconds of every sample."""
    outputs, seconds = [], []
    try:
        for arrays in samples:
            began = time.perf_counter()
            operands = [np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8) for array in arrays]
            outputs.append(await coordinator.infer(operands, retries))
            seconds.append(time.perf_counter() - began)
    finally:
        coordinator.close()
    return outputs, seconds


def _file(deployment: Deployment, outputs: Sequence[Sequence[Int8Array]], suffix: str) -> bytes:
    """Return all outputs as a file, samples first: .npy of a single one, .npz with arr_0, arr_1, … of several."""
    model = deployment.network.model
    samples = [output_arrays(model, [array.tobytes() for array in each]) for each in outputs]
    arrays = [np.stack(each) for each in zip(*samples, strict=True)]
    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez(buffer, *arrays)
    else:
        np.save(buffer, arrays[0])
    return buffer.getvalue()


def _table(answers: Sequence[Answer]) -> Table:
    table = Table("worker", "address", "answers", "inferences")
    for each in answers:
        done = "" if each.inferences is None else f"{each.inferences:,}"
        table.add_row(printable(each.name), printable(each.address), printable(each.fault or "yes"), done)
    return table
