"""How much each of several workers gets.

A plan: phase by phase, what travels and who computes what.

    phase 1: the coordinator sends rows 0 … 19 of the image to worker 0, …; worker 0 computes rows 0 … 18 of block 1
    phase 2: worker 1 sends row 19 of block 1's output to worker 0; …

A worker computes its task of a phase as soon as what the phase sends to it is there and its own tasks before are done;
there is no other waiting. Every element a task stores has one owner: the first task in the plan that declares it.
Elements other tasks compute as well (halos, replicated layers) are declared as their copies.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tflite_fuse.split.cut.regions import Range, Region, volume


def by_ratings(total: int, ratings: Sequence[float]) -> tuple[Range, ...]:
    """``total`` things in ranges in proportion to ratings, each bound rounded down, as the published scheme does.

    Raises:
        ZeroDivisionError: no rating is above 0.
    """
    share = sum(ratings)
    bounds = [0, *(int(total * part / share + 1e-9) for part in accumulate(ratings))]
    return tuple(pairwise([*bounds[:-1], total]))


def evenly_loaded(total: int, speeds: Sequence[float]) -> tuple[Range, ...]:
    """``total`` equal things in ranges such that the last worker is done as early as possible.

    The next thing always goes to the worker that would be done first with one more, which is optimal for equal things;
    of workers equally early, the one with fewer. A worker may get none.
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
    """Parts of a value on their way.

    Attributes:
        value: which.
        source, target: devices.
        region: what of it, one byte per element.
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
    """A node, and what of each value it writes is computed."""

    node: int
    region: Region


@dataclass(frozen=True)
class Task:
    """What a worker computes in one go, its steps in topological order.

    Attributes:
        worker: who; the coordinator for operators that no block holds.
        steps: what, values between them included.
        owned: for each value that leaves the task, the part this worker is the one producer of.
        copies: the part it computes as well although another worker owns it.
        thrift: 0 for blocks that are quick, up to ``MOST_THRIFT`` for blocks that need less RAM and compute more.
    """

    worker: int
    steps: tuple[Step, ...]
    owned: tuple[tuple[int, Region], ...]
    copies: tuple[tuple[int, Region], ...] = ()
    thrift: int = 0


@dataclass(frozen=True)
class Phase:
    """What travels first, what is computed then, one task per worker at most, and what is handed back at once.

    A transfer from the coordinator may hand on what one before it in the same phase brings.
    """

    name: str
    transfers: tuple[Transfer, ...]
    tasks: tuple[Task, ...] = ()
    returned: tuple[Transfer, ...] = ()

    @property
    def moved(self) -> int:
        """Bytes."""
        return sum(transfer.nbytes for transfer in (*self.transfers, *self.returned))


@dataclass(frozen=True)
class Summed:
    """A layer that is cut by its input channels: a node of the model's network, and ranges of channels, in order."""

    node: int
    parts: tuple[Range, ...]


@dataclass(frozen=True)
class Plan:
    """Who does what, from the inputs at the coordinator to the outputs at the coordinator.

    Attributes:
        workers: how many there are; some may have nothing to do.
        phases: in order. Their numbers are of the network in which layers are cut as ``sums`` says.
        strategy: what made it, and why this one, in words.
        sums: layers cut by what they read, ascending.
    """

    workers: int
    phases: tuple[Phase, ...]
    strategy: str
    sums: tuple[Summed, ...] = ()

    @property
    def moved(self) -> int:
        """Bytes of values that travel. What goes through the coordinator is two transfers."""
        return sum(phase.moved for phase in self.phases)
