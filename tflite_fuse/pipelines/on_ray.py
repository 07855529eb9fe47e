"""A Ray cluster as executor of a sweep.

Ray runs in a process of its own: when a cluster goes away, Ray ends the process that uses it without an exception and
writes pages of output. The sweep's process survives and reports one sentence.
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
"""Bytes of shared memory of a Ray cluster that this process makes: enough for some hundred models."""

_NEXT = "next"
"""Request of the driving process for an item; the reply None means that no item is left."""

_PATIENCE = 20.0
"""Seconds for the driving process to shut its cluster down."""


def run_on_ray(items: Iterator[Item], jobs: int, address: str | None, work: Work = measure) -> Iterator[Row]:
    """Yield the rows of items as they are done, by the Ray cluster at an address, or one made here.

    Raises:
        RuntimeUnavailableError: the extra ``ray`` is not installed.
        UsageError: no cluster replies at the address, or it went away.
    """
    if importlib.util.find_spec("ray") is None:
        raise RuntimeUnavailableError(f"Ray is not installed: {how_to_install('ray')}")
    if address not in (None, "auto", "local"):
        _require_answer(str(address))
    context = multiprocessing.get_context("spawn")
    sweep_end, driver_end = context.Pipe()
    driver = context.Process(target=_drive, args=(driver_end, jobs, address, work), daemon=True)
    driver.start()
    driver_end.close()
    try:
        yield from rows_of(sweep_end, items, _named(address))
        driver.join(_PATIENCE)
    finally:
        sweep_end.close()
        driver.terminate()
        driver.join(_PATIENCE)
        driver.kill()


def _named(address: str | None) -> str:
    return address or "this machine"


def rows_of(driver: Connection, items: Iterator[Item], name: str) -> Iterator[Row]:
    """Yield the driving process's rows until it is done. Raises its error, or UsageError if it ended without one."""
    item: Item | None = None
    requested = False
    while True:
        try:
            if requested:
                driver.send(item)
            message = driver.recv()
        except (EOFError, OSError) as error:
            raise UsageError(f"{name}: {AWAY.format('Ray')}") from error
        requested = message == _NEXT
        if requested:
            item = next(items, None)
        elif isinstance(message, Row):
            yield message
        elif message is None:
            return
        else:
            raise message


def _drive(sweep: Connection, jobs: int, address: str | None, work: Work) -> None:
    """Run in the driving process: request items, send rows, finally None or the error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep's process receives it, and ends this one
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)

    def request() -> Item | None:
        sweep.send(_NEXT)
        item: Item | None = sweep.recv()
        return item

    try:
        for row in _in_cluster(iter(request, None), jobs, address, work):
            sweep.send(row)
        sweep.send(None)
    except UsageError as error:
        sweep.send(error)
    except (EOFError, BrokenPipeError):  # the sweep is over
        return
    except Exception:  # other exceptions may not unpickle in the sweep's process
        sweep.send(RuntimeError(traceback.format_exc()))


def _in_cluster(items: Iterator[Item], jobs: int, address: str | None, work: Work) -> Iterator[Row]:
    """Yield rows from a cluster that this process joins or makes. Raises UsageError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when it is imported
    import ray

    settings = {"num_cpus": jobs, "include_dashboard": False, "object_store_memory": OBJECTS}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            **({} if address else settings),
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
    """Raise UsageError if nothing listens at HOST:PORT or ray://HOST:PORT; Ray itself would try for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UsageError(f"{address}: no Ray cluster answers ({error})") from error


def _by_ray(ray: Any, items: Iterator[Item], work: Work) -> Iterator[Row]:
    """Yield the rows of a cluster's workers; it gives the tasks of a lost worker to others."""
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
