"""Who does the items of a sweep: processes of this machine or a Dask cluster; a Ray cluster is in ``on_ray``.

All are given a few items more than they can work on, so that memory does not grow with their number. An item whose
process died is done again, twice at most: then the item is what kills it.
"""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
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
"""Items handed out for each worker."""

FAR_AHEAD = 4
"""The same where handing out costs time: the scheduler of a Dask cluster keeps what its workers have not begun."""

MOST_TRIES = 3

_PREFIX = "tflite-fuse-"
"""Of the names our tasks have in a Dask cluster."""

AWAY = "the {} cluster went away; what was done is kept: started again, a sweep does the rest"

Work = Callable[[Item], Row]


def run_here(items: Iterator[Item], jobs: int, work: Work = measure) -> Iterator[Row]:
    """Rows of items in the order they are done, by so many processes.

    When a process dies, so does the pool: what was in flight is done again, one by one, so that the item at fault is
    known.
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
    """An item in a process of its own."""
    for _ in range(MOST_TRIES - 1):
        with _pool(1) as pool, suppress(BrokenProcessPool):
            return _submitted(pool, work, item).result()
    return Row(item.key, item.model, item.options, "the process that worked on it died")


def _submitted(pool: ProcessPoolExecutor, work: Work, item: Item) -> Future[Row]:
    """An item handed out. Processes that are begun for it inherit that Ctrl-C is not for them: before they can say so
    themselves they import modules, and would print how far they came."""
    if sys.platform == "win32":
        return pool.submit(work, item)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(work, item)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that know nothing of this one, and leave Ctrl-C to it: it ends them in the middle of their items."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            yield pool
        except (KeyboardInterrupt, GeneratorExit):
            end_processes([*pool._processes])
            raise


def run_on_dask(items: Iterator[Item], jobs: int, scheduler: str | None, work: Work = measure) -> Iterator[Row]:
    """Rows of items in the order they are done, by a cluster: the one at an address, or one made here.

    Raises:
        RuntimeUnavailableError: the extra ``dask`` is not installed.
        UsageError: nothing answers at the address, or no longer does.
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
    """Workers that are made inside wake seldom and keep memory they will need again: giving it back to the system all
    the time, a worker takes longer."""
    import dask

    alone = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), 1)
    settings: dict[str, Any] = {
        "distributed.admin.tick.interval": "1s",
        "distributed.nanny.pre-spawn-environ": alone,
    }
    made: AbstractContextManager[Any] = dask.config.set(settings)
    return made


def _by(client: Any, items: Iterator[Item], work: Work) -> Iterator[Row]:
    """What a client's workers do; the scheduler gives the tasks of a worker that went away to others."""
    from dask import config
    from distributed import as_completed

    many = FAR_AHEAD * max(1, sum(client.nthreads().values()))
    flight: dict[str, Item] = {}

    def handed_out() -> list[Any]:
        """Tasks for more items where half of those handed out are done: a graph costs as much as several tasks."""
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
    """An item that is done when it is unpickled, by a worker.

    A scheduler looks into what it hands on: it finds bytes and needs neither this package nor the time to import it.
    """

    work: Work
    item: Item

    def __reduce__(self) -> tuple[Callable[[Work, Item], Row], tuple[Work, Item]]:
        return _aside, (self.work, self.item)


def _aside(work: Work, item: Item) -> Row:
    """Does an item in a thread that the worker knows nothing of.

    A worker walks the stacks of the threads it gave work to a hundred times a second, and those of a search are deep:
    that would take a sixth of what an item takes.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work, item).result()
