"""The search: paths from the first cut to the last one, with their costs and distributions.

A label is a path to a cut: seconds, bytes moved, flash of every worker, the largest RAM, and the region that every
device holds of the live value. ``beam`` selects the labels to keep at a cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import add

import numpy as np
import numpy.typing as npt

from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Phase, Plan, Task, Transfer, transfers
from tflite_fuse.split.cut.regions import Region
from tflite_fuse.split.cut.sums import extended, renumbered
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.fragments.structs import LAYOUTS, FragmentStep, FragmentView
from tflite_fuse.split.protocol import HEADER_BYTES, PAYLOAD_BYTES
from tflite_fuse.split.search.edges import Edge
from tflite_fuse.split.search.walk import Parts, leaves

MESSAGE_BYTES = sum(LAYOUTS[each].size for each in (FragmentStep, FragmentView))
"""Flash of a step that sends or receives contiguous bytes; others need a few more steps for copies."""


@dataclass(frozen=True, eq=False)
class Label:
    """A path to a cut.

    Attributes:
        before: the path to the cut before, None at the start.
        edge: the last edge, None at the start.
        seconds: every edge's transfers, then its slowest worker; edges one after another.
        moved: bytes over all links.
        ram: the largest RAM of any worker, as far as requested.
        flash: of every worker.
        load: seconds of each worker from its first edge to the end of its last, then of each device's sends, then
            receives, the coordinator last of these, then of each shared medium.
        begun: when each worker's first edge began, infinity if none has.
    """

    before: Label | None
    edge: Edge | None
    seconds: float
    moved: int
    ram: int
    flash: tuple[int, ...]
    load: npt.NDArray[np.float64]
    begun: npt.NDArray[np.float64]

    @property
    def edges(self) -> list[Edge]:
        """Return the edges from the first cut on."""
        return [] if self.before is None or self.edge is None else [*self.before.edges, self.edge]

    @property
    def period(self) -> float:
        """Return the seconds of the busiest worker or link: the time between inferences if many overlap."""
        return float(self.load.max())

    @property
    def taken(self) -> npt.NDArray[np.float64]:
        """Return the seconds since each worker's first edge began."""
        return np.maximum(0.0, self.seconds - self.begun)


class TransferCosts:
    """Approximate cost of the transfers between consecutive edges; the same for all paths that end alike.

    Bytes are exact where workers are joined directly. A part that goes through the coordinator to several workers is
    sent to it once but counted for each. Selected plans are counted exactly.
    """

    def __init__(self, network: Network, cluster: Cluster) -> None:
        self.network, self.cluster = network, cluster
        self._costs: dict[tuple[int, int], Cost] = {}
        self._numbers: dict[object, int] = {}
        self.inside, self._ends = cache(self._of_edge), cache(self._numbered_ends)
        devices = (*cluster.workers, cluster.coordinator)
        count = len(devices)
        self._per_byte = np.array([device.link.seconds(1000) / 1000 for device in devices])
        self._per_byte -= np.array([device.link.occupancy_ms_per_message / 1e6 for device in devices])
        self._per_message = np.array([device.link.occupancy_ms_per_message / 1000 for device in devices])
        self._latency = np.array([device.link.latency for device in devices])
        self._relayed = np.ones((count, count), np.bool_)
        for a, b in cluster.direct:
            self._relayed[a, b] = self._relayed[b, a] = False
        self._relayed[-1, :] = self._relayed[:, -1] = False
        self._media = np.zeros((len(cluster.media), count, count), np.bool_)
        for number, joined in enumerate(cluster.media):
            members = np.array(sorted(each % count for each in joined))
            self._media[number][np.ix_(members, members)] = True

    def start(self) -> Label:
        """Return the path to the first cut."""
        count = len(self.cluster.workers)
        return Label(None, None, 0.0, 0, 0, (0,) * count, self._nothing().load, np.full(count, np.inf))

    def extended(self, label: Label, edge: Edge, ram: int) -> Label:
        """Return the path continued by an edge."""
        between, inside = self.between(label.edge, edge), self.inside(edge)
        stored = (between.stored + inside.stored).tolist()
        for worker, nbytes in edge.flash.items():
            stored[worker] += nbytes
        flash = tuple(map(add, label.flash, stored))
        seconds = label.seconds + between.seconds + inside.seconds
        moved, load = label.moved + between.moved + inside.moved, label.load + between.load + inside.load
        begun, at_work = label.begun.copy(), list(edge.work)
        begun[at_work] = np.minimum(begun[at_work], label.seconds + between.seconds)
        load[at_work] = seconds - begun[at_work]
        return Label(label, edge, seconds, moved, max(label.ram, ram), flash, load, begun)

    def holding(self, edge: Edge | None) -> int:
        """Return a number, equal for edges with the same distribution behind them; for None that of the start."""
        return 0 if edge is None else self._ends(edge)[0]

    def between(self, before: Edge | None, edge: Edge) -> Cost:
        """Return the cost of the transfers from the end of an edge, or the start, to the beginning of another one."""
        key = self.holding(before), self._ends(edge)[1]
        if key not in self._costs:
            self._costs[key] = self._between(before, edge)
        return self._costs[key]

    def _numbered_ends(self, edge: Edge) -> tuple[int, int]:
        """Return the numbers of an edge's distribution behind, and of its needs before."""
        held, needed = (self._numbers.setdefault(each, len(self._numbers) + 1) for each in edge.ends)
        return held, needed

    def _nothing(self, seconds: float = 0.0) -> Cost:
        """Return the cost of no transfer, in so many seconds."""
        count = len(self._per_byte)
        return Cost(seconds, 0, np.zeros(3 * count - 1 + len(self._media)), np.zeros(count - 1, np.int64))

    def _between(self, before: Edge | None, edge: Edge) -> Cost:
        """Return the cost of an edge's needs of values from before it."""
        pairs = [
            (_Boxes(_held_before(before, value, self.network)), _Boxes(needed)) for value, needed in edge.needs.items()
        ]
        # Only devices that take part: with many devices most pairs have no transfer.
        count = len(self._per_byte)
        numbers = [boxes.devices % count for pair in pairs for boxes in pair]
        everyone = np.unique(np.concatenate([*numbers, [count - 1]]))
        nbytes = np.zeros((len(everyone), len(everyone)), np.int64)
        for have, want in pairs:
            places = [np.searchsorted(everyone, boxes.devices % count) for boxes in (have, want)]
            np.add.at(nbytes, (places[0][:, None], places[1][None, :]), have.common(want))
        np.fill_diagonal(nbytes, 0)
        through = np.where(self._relayed[np.ix_(everyone, everyone)], nbytes, 0)
        nbytes -= through
        nbytes[:-1, -1] += through.sum(axis=1)[:-1]
        nbytes[-1, :-1] += through.sum(axis=0)[:-1]
        return self._of_bytes(nbytes, everyone)

    def _of_bytes(self, nbytes: npt.NDArray[np.int64], everyone: npt.NDArray[np.int64]) -> Cost:
        """Return the cost of transfers of so many bytes between all pairs of devices, the coordinator last.

        Transfers to the coordinator come first, then those to higher numbers, to lower ones, and the coordinator's: in
        this order no device waits within a step (``message_order``).
        """
        if not nbytes.any():
            return self._nothing()
        count, load = len(self._per_byte), self._nothing().load
        per_byte, per_message, latency = (each[everyone] for each in (self._per_byte, self._per_message, self._latency))
        steps = np.zeros((4, *nbytes.shape), np.int64)
        steps[0, :, -1], steps[3, -1] = nbytes[:, -1], nbytes[-1]
        steps[1, :-1, :-1], steps[2, :-1, :-1] = np.triu(nbytes[:-1, :-1]), np.tril(nbytes[:-1, :-1])
        messages = -(-steps // PAYLOAD_BYTES)
        frames = steps + messages * HEADER_BYTES
        ends = messages.sum(axis=1) + messages.sum(axis=2) > 0
        largest = np.minimum(frames.max(axis=(1, 2)), PAYLOAD_BYTES + HEADER_BYTES)
        last = largest * (ends * per_byte).max(axis=1) + (ends * per_message).max(axis=1)
        longest = np.zeros(len(steps))
        if len(self._media):
            media = self._media[:, everyone[:, None], everyone]
            slower = [np.maximum.outer(each, each) for each in (per_byte, per_message)]
            spent = ((frames[:, None] * slower[0] + messages[:, None] * slower[1]) * media).sum(axis=(2, 3))
            load[-len(media) :] = spent.sum(axis=0)
            longest = spent.max(axis=1)
            own = ~media.any(axis=0)
            frames, messages = frames * own, messages * own
        for lane, axis in enumerate((2, 1)):
            spent = frames.sum(axis=axis) * per_byte + messages.sum(axis=axis) * per_message
            load[count - 1 + lane * count + everyone] = spent.sum(axis=0)
            longest = np.maximum(longest, spent.max(axis=1))
        seconds = longest + (ends * latency).max(axis=1) + last
        stored = np.zeros(count, np.int64)
        stored[everyone] = MESSAGE_BYTES * ((nbytes > 0).sum(axis=0) + (nbytes > 0).sum(axis=1))
        return Cost(float(seconds.sum()), int(nbytes.sum()), load, stored[:-1])

    def _of_edge(self, edge: Edge) -> Cost:
        """Return the cost of an edge: transfers, and the slowest worker."""
        cluster, count = self.cluster, len(self._per_byte)
        slowest = max((cluster.workers[w].seconds(work) for w, work in edge.work.items()), default=0.0)
        cost = self._nothing(slowest)
        for moved in (group for phase in edge.phases for group in (phase.transfers, phase.returned)):
            ends = np.array([(each.source, each.target) for each in moved], np.int64).reshape(-1, 2) % count
            everyone = np.unique(np.append(ends, count - 1))
            nbytes = np.zeros((len(everyone), len(everyone)), np.int64)
            places = np.searchsorted(everyone, ends)
            np.add.at(nbytes, (places[:, 0], places[:, 1]), [each.nbytes for each in moved])
            cost += self._of_bytes(nbytes, everyone)
        return cost


@dataclass(frozen=True, eq=False)
class Cost:
    """Seconds, bytes moved, load of devices and links, and flash for the steps that send and receive."""

    seconds: float
    moved: int
    load: npt.NDArray[np.float64]
    stored: npt.NDArray[np.int64]

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.seconds + other.seconds, self.moved + other.moved, self.load + other.load, self.stored + other.stored
        )


class _Boxes:
    """Boxes of a value by device, as arrays."""

    def __init__(self, parts: Mapping[int, Region]) -> None:
        pairs = [(device, box) for device, region in parts.items() for box in region]
        self.devices = np.array([device for device, _ in pairs], np.int64)
        ranges = [box.ranges for _, box in pairs]
        self.ranges = np.array(ranges, np.int64).reshape(len(pairs), 3, 2)

    def common(self, other: _Boxes) -> npt.NDArray[np.int64]:
        """Return the number of common elements of each pair of boxes."""
        low = np.maximum(self.ranges[:, None, :, 0], other.ranges[None, :, :, 0])
        high = np.minimum(self.ranges[:, None, :, 1], other.ranges[None, :, :, 1])
        elements: npt.NDArray[np.int64] = np.maximum(high - low, 0).prod(axis=2)
        return elements


def _incoming(before: Edge | None, edge: Edge, network: Network, cluster: Cluster) -> tuple[Transfer, ...]:
    """Return the transfers of values from before that an edge needs."""
    moves: list[Transfer] = []
    for value, needed in edge.needs.items():
        moves += transfers(cluster, value, _held_before(before, value, network), needed)
    return tuple(moves)


def _held_before(before: Edge | None, value: int, network: Network) -> Parts:
    """Return device → region of a value behind an edge; all of it at the coordinator unless other devices have it."""
    held = None if before is None or value in network.inputs else before.held.get(value)
    return {COORDINATOR: network.region(value)} if held is None else held


def _merged(phases: list[Phase], network: Network) -> Iterator[Phase]:
    """Yield the phases, with consecutive tasks of one worker in one, unless it receives values between them.

    The steps of one task can be fused.
    """
    waiting: Phase | None = None
    for phase in phases:
        if waiting is not None and _one_after_other(waiting, phase, network):
            first, second = waiting.tasks[0], phase.tasks[0]
            steps = (*first.steps, *second.steps)
            until = range(second.steps[-1].node + 1)
            owned = tuple(
                (value, region) for value, region in (*first.owned, *second.owned) if leaves(network, value, until)
            )
            returned = (*waiting.returned, *phase.returned)
            waiting = Phase(phase.name, waiting.transfers, (Task(first.worker, steps, owned),), returned)
            continue
        if waiting is not None:
            yield waiting
        waiting = phase
    if waiting is not None:
        yield waiting


def _one_after_other(first: Phase, second: Phase, network: Network) -> bool:
    tasks = (*first.tasks, *second.tasks)
    if len(first.tasks) != 1 or len(second.tasks) != 1 or second.transfers or tasks[0].worker != tasks[1].worker:
        return False
    steps = [step for task in tasks for step in task.steps]
    return all(network.nodes[step.node].stage is not None for step in steps)


def plans_of(label: Label, network: Network, cluster: Cluster, strategy: str) -> Iterator[Plan]:
    """Yield the plans of a path to the last cut: consecutive tasks of one worker merged, and, if different, separate.

    A merged task may fuse more, but then holds more rows at once: separate tasks may need less memory, or be faster.
    """
    edges = label.edges
    sums = tuple(sorted((each for edge in edges for each in edge.sums), key=lambda each: each.node))
    larger = extended(network, sums)
    phases: list[Phase] = []
    for before, edge in zip((None, *edges), edges, strict=False):
        moved = _incoming(before, edge, network, cluster)
        first, *rest = renumbered(edge.phases, extended(network, edge.sums), larger) if sums else edge.phases
        phases.append(Phase(first.name, (*moved, *first.transfers), first.tasks, first.returned))
        phases += rest
    merged = tuple(_merged(phases, larger.network))
    for each in (merged, tuple(phases)) if len(merged) < len(phases) else (merged,):
        yield Plan(len(cluster.workers), each, strategy, sums)
