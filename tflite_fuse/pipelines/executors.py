"""Executors of a sweep's items: processes of this machine or a Dask cluster; a Ray cluster is in ``on_ray``.

Each receives a few items more than it can work on, so memory does not grow with their number. An item whose process
died is tried up to three times; then the item is taken as the cause.
"""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tflite_fuse.errors import RuntimeUnavailableError, UsageError, how_to_install
from tflite_fuse.interrupts import end_processes
from tflite_fuse.pipelines.sweep import Item, Row, measure

EXECUTORS = ("local", "dask", "ray")

AHEAD = 2
"""Items in flight for each worker."""

FAR_AHEAD = 4
"""The same for Dask clusters, where submission takes time; the scheduler keeps items that workers have not begun."""

MOST_TRIES = 3

_PREFIX = "tflite-fuse-"
"""Prefix of our tasks' names in a Dask cluster."""

AWAY = "the {} cluster went away; what was done is kept: started again, a sweep does the rest"

Work = Callable[[Item], Row]


def run_here(items: Iterator[Item], jobs: int, work: Work = measure) -> Iterator[Row]:
    """Yield the rows of items as they are done, by so many processes.

    When a process dies, the pool ends: the items in flight are repeated one by one to find the one at fault.
    """
    while True:
        queued: list[Item] = []
        flight: dict[Future[Row], Item] = {}
        try:
            with _pool(jobs) as pool:
                while True:
                    queued += islice(items, AHEAD * jobs - len(flight))
                    while queued:
                        flight[_submitted(pool, work, queued[0])] = queued[0]
                        del queued[0]
                    if not flight:
                        return
                    for future in wait(flight, return_when=FIRST_COMPLETED).done:
                        row = future.result()
                        del flight[future]
                        yield row
        except BrokenProcessPool:
            for item in (*flight.values(), *queued):
                yield _alone(item, work)


def _alone(item: Item, work: Work) -> Row:
    """Return the row of an item that runs in a process of its own."""
    for _ in range(MOST_TRIES - 1):
        with _pool(1) as pool, suppress(BrokenProcessPool):
            return _submitted(pool, work, item).result()
    return Row(item.key, item.model, item.options, "the process that worked on it died")


def _submitted(pool: ProcessPoolExecutor, work: Work, item: Item) -> Future[Row]:
    """Submit an item to processes that inherit a blocked Ctrl-C.

    They import modules before they could ignore it, and would print a traceback.
    """
    if sys.platform == "win32":
        return pool.submit(work, item)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(work, item)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Return a context with spawned processes that ignore Ctrl-C, which ends them from here."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            yield pool
        except (KeyboardInterrupt, GeneratorExit):
            end_processes([*pool._processes])
            raise


def run_on_dask(items: Iterator[Item], jobs: int, scheduler: str | None, work: Work = measure) -> Iterator[Row]:
    """Yield the rows of items as they are done, by the Dask cluster at an address, or one made here.

    Raises:
        RuntimeUnavailableError: the extra ``dask`` is not installed.
        UsageError: no scheduler replies at the address, or it went away.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise RuntimeUnavailableError(f"Dask is not installed: {how_to_install('dask')}") from error
    if scheduler is None:
        with _untuned():
            cluster = LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=":0")
        with cluster, Client(cluster) as client:
            yield from _by(client, items, work)
        return
    try:
        client = Client(scheduler, timeout="10s")
    except (OSError, ValueError) as error:
        raise UsageError(f"{scheduler}: no Dask scheduler answers ({error})") from error
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # the error is one sentence
    try:
        with client:
            yield from _by(client, items, work)
    except (OSError, CancelledError) as error:
        raise UsageError(f"{scheduler}: {AWAY.format('Dask')}") from error


def _untuned() -> AbstractContextManager[Any]:
    """Return a Dask configuration for local workers that wake seldom and keep freed memory.

    Its return to the system takes time.
    """
    import dask

    alone = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), 1)
    settings: dict[str, Any] = {"distributed.admin.tick.interval": "1s", "distributed.nanny.pre-spawn-environ": alone}
    configuration: AbstractContextManager[Any] = dask.config.set(settings)
    return configuration


def _by(client: Any, items: Iterator[Item], work: Work) -> Iterator[Row]:
    """Yield the rows of a client's workers; the scheduler gives the tasks of a lost worker to others."""
    from dask import config
    from distributed import as_completed

    many = FAR_AHEAD * max(1, sum(client.nthreads().values()))
    flight: dict[str, Item] = {}

    def handed_out() -> list[Any]:
        """Submit more items when half of those in flight are done: one submission costs as much as several tasks."""
        if len(flight) > many // 2:
            return []
        new = {item.key: item for item in islice(items, many - len(flight)) if item.key not in flight}
        flight.update(new)
        keys = [_PREFIX + key for key in new]
        orders = [pickle.dumps(_Order(work, item)) for item in new.values()]
        with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):  # models are meant to travel
            return list(client.map(pickle.loads, orders, key=keys, retries=MOST_TRIES - 1)) if new else []

    pending = as_completed(handed_out(), with_results=True, raise_errors=False)
    for future, row in pending:
        item = flight.pop(future.key.removeprefix(_PREFIX))
        if future.cancelled():
            raise CancelledError(future.key)
        error = future.exception()
        yield row if error is None else Row(item.key, item.model, item.options, f"not done: {error}")
        pending.update(handed_out())


@dataclass(frozen=True)
class _Order:
    """An item that a worker processes by unpickling it.

    A scheduler unpickles its tasks: it finds bytes, and needs neither this package nor the time to import it.
    """

    work: Work
    item: Item

    def __reduce__(self) -> tuple[Callable[[Work, Item], Row], tuple[Work, Item]]:
        return _aside, (self.work, self.item)


def _aside(work: Work, item: Item) -> Row:
    """Process an item in a thread that the Dask worker does not profile.

    A worker samples the stacks of its task threads a hundred times a second; for the deep stacks of a search that would
    take a sixth of an item's time.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work, item).result()
