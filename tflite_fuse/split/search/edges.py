"""Candidate edges between two cuts of a model: nodes under one partition, over some workers.

    ONE       all on one worker, except operators that no block holds: those run at the coordinator
    ROWS      a fused block by rows: each worker computes its rows of the last value and the rows of earlier values that
              these need; only rows of the first value travel, and halos inside are computed twice
    CHANNELS  node by node by output channels: inputs are gathered, depthwise and elementwise nodes stay in place
    SUMS      the same, but a convolution's input that is distributed by channels stays in place: each worker sums over
              its channels, and int32 sums travel to the owners of output channels

A cut is a place between two nodes with at most one live value that the coordinator does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import StageKind
from tflite_fuse.ops.table import accumulates
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.pieces import box_needs, can_be_cut
from tflite_fuse.split.cut.plan import Phase, Step, Summed, Task, evenly_loaded
from tflite_fuse.split.cut.regions import Box, Range, Region, hull
from tflite_fuse.split.cut.sums import Extended, can_be_summed, extended
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.search.estimates import TASK_BYTES, Estimates
from tflite_fuse.split.search.walk import Parts, Walk, leaves, returned_at_once, with_coordinator


class Mode(Enum):
    """The partition of an edge."""

    ONE = "whole on one worker"
    ROWS = "by rows"
    CHANNELS = "by output channels"
    SUMS = "by input channels"


@dataclass(frozen=True, eq=False)
class Edge:
    """Nodes ``first … last − 1`` under one partition.

    Attributes:
        first, last: cuts.
        mode: the partition.
        workers: those that take part; workers with an empty share are left out.
        needs: value from before the edge → worker → region that it needs.
        phases: the first one lacks the transfers of values from before.
        held: value that leaves → device → region that it holds, including outputs of the model at the coordinator.
        sums: layers that are cut by their input channels; the numbers in ``phases`` are of the network extended by
            them.
        work: instructions of each worker.
        flash: bytes of each worker.
    """

    first: int
    last: int
    mode: Mode
    workers: tuple[int, ...]
    needs: Mapping[int, Parts]
    phases: tuple[Phase, ...]
    held: Mapping[int, Parts]
    sums: tuple[Summed, ...] = ()
    work: Mapping[int, float] = field(default_factory=dict)
    flash: Mapping[int, int] = field(default_factory=dict)

    @property
    def ends(self) -> tuple[frozenset[object], frozenset[object]]:
        """Return keys of the values held behind it, and of those needed before it."""
        held, needed = (
            frozenset((value, device, part) for value, parts in of_values.items() for device, part in parts.items())
            for of_values in (self.held, self.needs)
        )
        return held, needed


class EdgeMaker:
    """Makes edges of a network over a cluster: ``edge`` makes each once."""

    def __init__(self, network: Network, cluster: Cluster, estimates: Estimates) -> None:
        self.network, self.cluster, self.estimates = network, cluster, estimates
        self.edge = cache(self._edge)

    def _edge(self, first: int, last: int, mode: Mode, workers: tuple[int, ...]) -> Edge | None:
        """Return an edge; None if the nodes cannot be cut like this."""
        nodes = range(first, last)
        if mode is Mode.ONE:
            walk = Walk(self.network, self.cluster)
            walk.go_whole(workers[0], nodes)
            return self._of_walk(nodes, mode, workers, walk)
        if not all(can_be_cut(self.network.nodes[node]) for node in nodes):
            return None
        make = {Mode.ROWS: self._by_rows, Mode.CHANNELS: self._by_channels, Mode.SUMS: self._by_sums}[mode]
        try:
            return make(nodes, workers)
        except BlockError:
            return None

    def _of_walk(
        self, nodes: range, mode: Mode, workers: tuple[int, ...], walk: Walk, sums: tuple[Summed, ...] = ()
    ) -> Edge:
        held = walk.held(self.network, nodes.stop)
        edge = Edge(nodes.start, nodes.stop, mode, workers, walk.needs, walk.phases(), held, sums)
        return self._with_costs(edge, Estimates(walk.network) if sums else self.estimates)

    def _with_costs(self, edge: Edge, estimates: Estimates) -> Edge:
        """Return an edge with its work and flash; ``estimates`` is of the network of its phases' numbers."""
        work = dict.fromkeys(edge.workers, 0.0)
        flash = dict.fromkeys(edge.workers, 0)
        for task in (task for phase in edge.phases for task in phase.tasks if task.worker != COORDINATOR):
            for step in task.steps:
                box = hull(step.region)
                work[task.worker] += estimates.instructions(step.node, box, self.cluster.workers[task.worker].target)
                flash[task.worker] += estimates.flash(step.node, box)
            flash[task.worker] += TASK_BYTES
        return replace(edge, work=work, flash=flash)

    def _by_channels(self, nodes: range, workers: tuple[int, ...]) -> Edge:
        """Return the edge by output channels."""
        walk = Walk(self.network, self.cluster)
        for node in nodes:
            walk.go(node, self._outputs(node, workers))
        return self._of_walk(nodes, Mode.CHANNELS, workers, walk)

    def _by_sums(self, nodes: range, workers: tuple[int, ...]) -> Edge | None:
        """Return the edge with convolutions of distributed inputs, or the only one, cut by input channels."""
        if not (sums := tuple(self._sums(nodes, workers))):
            return None
        larger = extended(self.network, sums)
        walk = Walk(larger.network, self.cluster)
        summed = {each.node: each.parts for each in sums}
        for node in nodes:
            outputs = self._outputs(node, workers)
            if node in summed:
                _go_over_sums(walk, larger, node, summed[node], self._shares(node, workers), outputs)
            else:
                walk.go(larger.nodes[node][0], outputs)
        return self._of_walk(nodes, Mode.SUMS, workers, walk, sums)

    def _sums(self, nodes: range, workers: tuple[int, ...]) -> Iterator[Summed]:
        written = {value for node in nodes for value in self.network.nodes[node].outputs}
        for index in nodes:
            node = self.network.nodes[index]
            if can_be_summed(node) and (node.inputs[0] in written or len(nodes) == 1):
                parts = tuple(self._shares(index, workers).values())
                if len(parts) > 1:
                    yield Summed(index, parts)

    def _by_rows(self, nodes: range, workers: tuple[int, ...]) -> Edge | None:
        """Return the edge by rows; None if the nodes cannot be cut like this, or only one worker would have rows."""
        network, last = self.network, nodes[-1]
        if not all(_has_rows(network, node) for node in nodes):
            return None
        left = [value for node in nodes for value in network.nodes[node].outputs if leaves(network, value, nodes)]
        shares = {value: evenly_loaded(network.shape(value)[0], self._speeds(workers)) for value in left}
        busy = [at for at in range(len(workers)) if all(part[at][0] < part[at][1] for part in shares.values())]
        if len(busy) < 2 or any(sum(low < high for low, high in part) != len(busy) for part in shares.values()):
            return None
        needs = dict[int, dict[int, Region]]()
        held: dict[int, dict[int, Region]] = {value: {} for value in left}
        tasks = dict[int, Task]()
        for at in busy:
            worker = workers[at]
            boxes = {value: replace(network.box(value), rows=shares[value][at]) for value in left}
            owned = tuple((value, (box,)) for value, box in boxes.items())
            for node in reversed(nodes):
                for value, box in box_needs(network, node, boxes[network.nodes[node].outputs[0]]):
                    boxes[value] = hull((boxes[value], box)) if value in boxes else box
            for value, box in boxes.items():
                if network.writer[value] < nodes.start:
                    needs.setdefault(value, {})[worker] = (box,)
            for value, region in owned:
                held[value][worker] = region
            steps = tuple(Step(node, (boxes[network.nodes[node].outputs[0]],)) for node in nodes)
            tasks[worker] = Task(worker, steps, owned)
        phase = Phase(network.nodes[last].name, (), tuple(tasks.values()), returned_at_once(network, tasks))
        everywhere = {value: with_coordinator(network, value, parts) for value, parts in held.items()}
        edge = Edge(nodes.start, nodes.stop, Mode.ROWS, tuple(tasks), needs, (phase,), everywhere)
        return self._with_costs(edge, self.estimates)

    def _shares(self, node: int, workers: Sequence[int]) -> dict[int, Range]:
        """Return worker → range of a node's input channels."""
        return self._ranges(self.network.shape(self.network.nodes[node].inputs[0])[2], workers)

    def _outputs(self, node: int, workers: Sequence[int]) -> Parts:
        """Return worker → region of its output channels of a node."""
        height, width, channels = self.network.shape(self.network.nodes[node].outputs[0])
        ranges = self._ranges(channels, workers)
        return {worker: (Box((0, height), (0, width), part),) for worker, part in ranges.items()}

    def _ranges(self, channels: int, workers: Sequence[int]) -> dict[int, Range]:
        ranges = zip(workers, evenly_loaded(channels, self._speeds(workers)), strict=True)
        return {worker: part for worker, part in ranges if part[0] < part[1]}

    def _speeds(self, workers: Sequence[int]) -> tuple[float, ...]:
        return tuple(self.cluster.workers[worker].mhz for worker in workers)


def _go_over_sums(
    walk: Walk, larger: Extended, node: int, parts: Sequence[Range], shares: Mapping[int, Range], outputs: Parts
) -> None:
    """Let each worker sum over its channels, then the owners of output channels add."""
    nodes = larger.nodes[node]
    network = larger.network
    for of_part, worker in zip(nodes, shares, strict=False):
        walk.go(of_part, {worker: network.region(network.nodes[of_part].outputs[0])}, of_part != nodes[0])
    additions = nodes[len(parts) :]
    for addition in additions:
        stage = network.nodes[addition].stage
        assert stage is not None
        regions = outputs
        if stage.requantization is None:
            regions = {worker: tuple(_as_sums(box) for box in region) for worker, region in outputs.items()}
        walk.go(addition, regions, addition != additions[0])


def _as_sums(box: Box) -> Box:
    low, high = box.channels
    return Box(box.rows, box.columns, (4 * low, 4 * high))


def cuts(network: Network) -> tuple[int, ...]:
    """Return the places with at most one live value, including 0 and the end.

    Where one value stays live over several places, only the first counts: an edge between two of them would forward a
    value that it neither reads nor writes, as behind a node whose output is only the model's.
    """
    count = len(network.nodes)
    live: list[list[int]] = [[] for _ in range(count + 1)]
    for value, readers in enumerate(network.readers):
        if value not in network.inputs and readers:
            for place in range(network.writer[value] + 1, readers[-1] + 1):
                live[place].append(value)
    places, before = list[int](), list[int]()
    for place, values in enumerate(live):
        if len(values) <= 1 and (not values or values != before):
            places.append(place)
            before = values
    return tuple(places)


def _has_rows(network: Network, index: int) -> bool:
    node = network.nodes[index]
    if node.stage is None or network.shape(node.outputs[0])[0] < 2:
        return False
    return node.stage.kind is not StageKind.FULLY_CONNECTED and not accumulates(node.stage, network.values)
