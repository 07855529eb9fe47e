"""Plans: phase by phase, the transfers and each worker's task; shares of several workers; and missing transfers.

    phase 1: the coordinator sends rows 0 … 19 of the image to worker 0, …; worker 0 computes rows 0 … 18 of block 1
    phase 2: worker 1 sends row 19 of block 1's output to worker 0; …

A worker computes its task of a phase as soon as the phase's transfers to it have arrived and its earlier tasks are
done; it waits for nothing else. Every stored element has one owner: the task that declares it. The same elements
computed by other tasks (halos) stay inside these.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise

from tflite_fuse.split.cut.regions import NOTHING, Range, Region, intersect, subtract, union, volume
from tflite_fuse.split.devices import COORDINATOR, Cluster


def by_ratings(total: int, ratings: Sequence[float]) -> tuple[Range, ...]:
    """Divide ``total`` items into ranges in proportion to ratings, bounds rounded down, as the published scheme does.

    Raises:
        ZeroDivisionError: no rating is above 0.
    """
    share = sum(ratings)
    bounds = [0, *(int(total * part / share + 1e-9) for part in accumulate(ratings))]
    return tuple(pairwise([*bounds[:-1], total]))


@cache
def evenly_loaded(total: int, speeds: tuple[float, ...]) -> tuple[Range, ...]:
    """Divide ``total`` equal items into ranges so that the last worker finishes as early as possible.

    The next item goes to the worker that would finish first with it, which is optimal for equal items; ties go to the
    worker with fewer items. A worker may get none.
    """
    counts = [0] * len(speeds)
    queue = [(1 / speed, 0, index) for index, speed in enumerate(speeds) if speed > 0]
    heapq.heapify(queue)
    for _ in range(total):
        _, count, index = heapq.heappop(queue)
        counts[index] = count + 1
        heapq.heappush(queue, ((count + 2) / speeds[index], count + 1, index))
    return tuple(pairwise((0, *accumulate(counts))))


MOST_THRIFT = 3


@dataclass(frozen=True)
class Transfer:
    """A transfer of parts of a value.

    Attributes:
        value: its number.
        source, target: devices.
        region: the parts, one byte per element.
    """

    value: int
    source: int
    target: int
    region: Region

    @property
    def nbytes(self) -> int:
        return volume(self.region)


@dataclass(frozen=True)
class Step:
    """A node, and the region of its outputs that is computed."""

    node: int
    region: Region


@dataclass(frozen=True)
class Task:
    """The steps that a worker computes at once, in topological order.

    Attributes:
        worker: the worker; the coordinator for operators that no block holds.
        steps: including those of values that do not leave the task.
        owned: for each value that leaves the task, the region whose owner is this worker.
        thrift: 0 for the quickest blocks, up to ``MOST_THRIFT`` for blocks of less RAM and more work.
    """

    worker: int
    steps: tuple[Step, ...]
    owned: tuple[tuple[int, Region], ...]
    thrift: int = 0


@dataclass(frozen=True)
class Phase:
    """Transfers, then at most one task per worker, then transfers that return results.

    A transfer from the coordinator may forward values of an earlier one in the same phase.
    """

    name: str
    transfers: tuple[Transfer, ...]
    tasks: tuple[Task, ...] = ()
    returned: tuple[Transfer, ...] = ()

    @property
    def moved(self) -> int:
        """Return the bytes of all transfers."""
        return sum(transfer.nbytes for transfer in (*self.transfers, *self.returned))


@dataclass(frozen=True)
class Summed:
    """A layer that is cut by its input channels: a node of the model's network, and ranges of channels, in order."""

    node: int
    parts: tuple[Range, ...]


@dataclass(frozen=True)
class Plan:
    """All transfers and tasks, from the inputs at the coordinator to the outputs at the coordinator.

    Attributes:
        workers: their number; some may have nothing to do.
        phases: in order. Their numbers are of the network in which layers are cut as ``sums`` says.
        strategy: the method and its reason, in words.
        sums: layers cut by input channels, ascending.
    """

    workers: int
    phases: tuple[Phase, ...]
    strategy: str
    sums: tuple[Summed, ...] = ()

    @property
    def moved(self) -> int:
        """Return the bytes of all transfers. A value through the coordinator is two transfers."""
        return sum(phase.moved for phase in self.phases)

    def tasks_of(self, device: int) -> dict[int, Task]:
        """Return the tasks of one device, by phase."""
        tasks = ((number, task) for number, phase in enumerate(self.phases) for task in phase.tasks)
        return {number: task for number, task in tasks if task.worker == device}


Held = Mapping[int, Region]
"""Device → the region of one value that it holds; devices without any may be missing."""


def transfers(cluster: Cluster, value: int, held: Held, needed: Mapping[int, Region]) -> tuple[Transfer, ...]:
    """Return the transfers, in order, after which every device holds the region of a value that it needs.

    Each missing part comes from a directly joined device that holds it, the one that has sent least so far. Parts that
    only others hold go through the coordinator, once for all devices that need them.

    Raises:
        ValueError: no device holds a part.
    """
    sent: dict[int, int] = {}
    holders = dict(held)
    moves: list[Transfer] = []

    def send(source: int, target: int, region: Region) -> None:
        moves.append(Transfer(value, source, target, region))
        sent[source] = sent.get(source, 0) + moves[-1].nbytes

    for target, need in needed.items():
        missing = subtract(need, held.get(target, NOTHING))
        for source in _sources(target, holders, sent):
            part = intersect(missing, holders[source])
            if part and not cluster.is_direct(source, target):
                send(source, COORDINATOR, part)
                holders[COORDINATOR] = union(holders.get(COORDINATOR, NOTHING), part)
            elif part:
                send(source, target, part)
                missing = subtract(missing, part)
        if missing and (part := intersect(missing, holders.get(COORDINATOR, NOTHING))):
            send(COORDINATOR, target, part)
            missing = subtract(missing, part)
        if missing:
            raise ValueError(f"no device holds {missing} of value {value}")
    return tuple(moves)


def _sources(target: int, held: Held, sent: Mapping[int, int]) -> Iterable[int]:
    """Return the devices that may hold a part: the coordinator first, because it needs no other device between."""
    devices = [device for device in held if device != target and held[device]]
    return sorted(devices, key=lambda each: (each != COORDINATOR, sent.get(each, 0), each))


def with_transfers(held: Held, moved: Iterable[Transfer]) -> dict[int, Region]:
    """Return device → region after some transfers of a value."""
    after = dict(held)
    for transfer in moved:
        after[transfer.target] = union(after.get(transfer.target, NOTHING), transfer.region)
    return after
