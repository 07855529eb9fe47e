"""A Ray cluster that does the items of a sweep.

Ray is driven by a process of its own: where a cluster goes away, Ray ends the process that uses it, without a word to
it, and writes pages about that to its output. The sweep's process lives on and says it in a sentence.
"""

from __future__ import annotations

import importlib.util
import logging
import multiprocessing
import os
import signal
import socket
import traceback
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from tflite_fuse.errors import RuntimeUnavailableError, UsageError, how_to_install
from tflite_fuse.pipelines.executors import AHEAD, AWAY, MOST_TRIES, Work
from tflite_fuse.pipelines.sweep import Item, Row, measure

if TYPE_CHECKING:
    import sys

    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection as Connection
    else:
        from multiprocessing.connection import Connection

OBJECTS = 1 << 28
"""Bytes of shared memory for a Ray cluster that is made here: some hundred models."""

_NEXT = "next"
"""What the driving process says when it wants an item; None answers that there is none."""

_PATIENCE = 20.0
"""Seconds the driving process has to shut its cluster down."""


def run_on_ray(items: Iterator[Item], jobs: int, address: str | None, work: Work = measure) -> Iterator[Row]:
    """Rows of items in the order they are done, by a Ray cluster: the one at an address, or one made here.

    Raises:
        RuntimeUnavailableError: the extra ``ray`` is not installed.
        UsageError: nothing answers at the address, or no longer does.
    """
    if importlib.util.find_spec("ray") is None:
        raise RuntimeUnavailableError(f"Ray is not installed: {how_to_install('ray')}")
    if address not in (None, "auto", "local"):
        _require_answer(str(address))
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    driver = context.Process(target=_drive, args=(there, jobs, address, work), daemon=True)
    driver.start()
    there.close()
    try:
        yield from told_by(here, items, _named(address))
        driver.join(_PATIENCE)
    finally:
        here.close()
        driver.terminate()
        driver.join(_PATIENCE)
        driver.kill()


def _named(address: str | None) -> str:
    return address or "this machine"


def told_by(driver: Connection, items: Iterator[Item], name: str) -> Iterator[Row]:
    """What the driving process says, until it is done. Raises what ended it, UsageError if nothing is known of that."""
    item: Item | None = None
    asked = False
    while True:
        try:
            if asked:
                driver.send(item)
            told = driver.recv()
        except (EOFError, OSError) as error:
            raise UsageError(f"{name}: {AWAY.format('Ray')}") from error
        asked = told == _NEXT
        if asked:
            item = next(items, None)
        elif isinstance(told, Row):
            yield told
        elif told is None:
            return
        else:
            raise told


def _drive(sweep: Connection, jobs: int, address: str | None, work: Work) -> None:
    """The driving process: asks for items, tells rows, then None or what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep's process receives it, and ends this one
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)

    def asked() -> Item | None:
        sweep.send(_NEXT)
        item: Item | None = sweep.recv()
        return item

    try:
        for row in _in_cluster(iter(asked, None), jobs, address, work):
            sweep.send(row)
        sweep.send(None)
    except UsageError as error:
        sweep.send(error)
    except (EOFError, BrokenPipeError):  # the sweep is over
        return
    except Exception:  # others may be classes that the sweep's process does not know
        sweep.send(RuntimeError(traceback.format_exc()))


def _in_cluster(items: Iterator[Item], jobs: int, address: str | None, work: Work) -> Iterator[Row]:
    """Rows from a cluster this process joins or makes. Raises UsageError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when it is imported
    import ray

    made_here = {"num_cpus": jobs, "include_dashboard": False, "object_store_memory": OBJECTS}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            **({} if address else made_here),
        )
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise UsageError(f"{_named(address)}: no Ray cluster answers ({reason})") from error
    try:
        yield from _by_ray(ray, items, work)
    except ray.exceptions.RaySystemError as error:
        raise UsageError(f"{_named(address)}: {AWAY.format('Ray')}") from error
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Ray itself asks for minutes. Raises UsageError: nothing listens at HOST:PORT or ray://HOST:PORT."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UsageError(f"{address}: no Ray cluster answers ({error})") from error


def _by_ray(ray: Any, items: Iterator[Item], work: Work) -> Iterator[Row]:
    """What a cluster's workers do; it gives the tasks of a worker that died to others."""
    many = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    remote = ray.remote(num_cpus=1, max_retries=MOST_TRIES - 1)(work)
    flight: dict[Any, Item] = {}
    while True:
        flight |= {remote.remote(item): item for item in islice(items, many - len(flight))}
        if not flight:
            return
        for reference in ray.wait(list(flight), num_returns=1)[0]:
            item = flight.pop(reference)
            try:
                yield ray.get(reference)
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.RayTaskError) as error:
                reason = str(error).strip().rpartition("\n")[2]
                yield Row(item.key, item.model, item.options, f"not done: {reason or type(error).__name__}")
