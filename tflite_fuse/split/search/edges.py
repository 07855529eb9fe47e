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

from dataclasses import replace

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import StageKind
from tflite_fuse.ops.table import accumulates
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.pieces import box_needs, can_be_cut
from tflite_fuse.split.cut.plan import Phase, Step, Task, evenly_loaded
from tflite_fuse.split.cut.regions import hull, whole
from tflite_fuse.split.devices import Cluster
from tflite_fuse.split.search.by_channels import channels_edge, sums_edge
from tflite_fuse.split.search.edge import (
    Edge,
    Holders,
    Mode,
    edge_of,
    leaves,
    returned_at_once,
    whole_on,
    with_coordinator,
)
from tflite_fuse.split.search.estimates import Estimates


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
    found, before = list[int](), list[int]()
    for place, values in enumerate(live):
        if len(values) <= 1 and (not values or values != before):
            found.append(place)
            before = values
    return tuple(found)


class EdgeMaker:
    """Makes edges of a network over a cluster, each once."""

    def __init__(self, network: Network, cluster: Cluster, estimates: Estimates) -> None:
        self.network, self.cluster, self.estimates = network, cluster, estimates
        self._made: dict[tuple[int, int, Mode, tuple[int, ...]], Edge | None] = {}

    def edge(self, first: int, last: int, mode: Mode, workers: tuple[int, ...]) -> Edge | None:
        """Return an edge; None if the nodes cannot be cut like this."""
        key = first, last, mode, workers
        if key not in self._made:
            try:
                self._made[key] = self._make(first, last, mode, workers)
            except BlockError:
                self._made[key] = None
        return self._made[key]

    def _make(self, first: int, last: int, mode: Mode, workers: tuple[int, ...]) -> Edge | None:
        make = {Mode.ONE: _one_edge, Mode.ROWS: _rows_edge, Mode.CHANNELS: channels_edge, Mode.SUMS: sums_edge}[mode]
        return make(self.network, self.cluster, self.estimates, first, last, workers)


def _one_edge(
    network: Network, cluster: Cluster, estimates: Estimates, first: int, last: int, workers: tuple[int, ...]
) -> Edge:
    found = whole_on(network, workers[0], first, last)
    return edge_of(first, last, Mode.ONE, workers, found.needs, found.phases, found.held, cluster, estimates)


def _rows_edge(
    network: Network, cluster: Cluster, estimates: Estimates, first: int, last: int, workers: tuple[int, ...]
) -> Edge | None:
    """Return the edge by rows; None if the nodes cannot be cut like this, or only one worker would have rows."""
    nodes = range(first, last)
    if any(not _by_rows(network, node) for node in nodes):
        return None
    left = [value for node in nodes for value in network.nodes[node].outputs if leaves(network, value, last - 1)]
    speeds = tuple(cluster.workers[worker].mhz for worker in workers)
    shares = {value: evenly_loaded(network.shape(value)[0], speeds) for value in left}
    busy = [at for at in range(len(workers)) if all(part[at][0] < part[at][1] for part in shares.values())]
    if len(busy) < 2 or any(sum(low < high for low, high in part) != len(busy) for part in shares.values()):
        return None
    needs: Holders = {}
    held: Holders = {value: {} for value in left}
    tasks = dict[int, Task]()
    for at in busy:
        worker = workers[at]
        boxes = {value: replace(whole(network.shape(value)), rows=shares[value][at]) for value in left}
        owned = tuple((value, (box,)) for value, box in boxes.items())
        for node in reversed(nodes):
            for value, box in box_needs(network, node, boxes[network.nodes[node].outputs[0]]):
                boxes[value] = hull((boxes[value], box)) if value in boxes else box
        for value, box in boxes.items():
            if network.writer[value] < first:
                needs.setdefault(value, {})[worker] = (box,)
        for value, region in owned:
            held[value][worker] = region
        tasks[worker] = Task(
            worker, tuple(Step(node, (boxes[network.nodes[node].outputs[0]],)) for node in nodes), owned
        )
    phase = Phase(network.nodes[last - 1].name, (), tuple(tasks.values()), returned_at_once(network, tasks))
    held = {value: with_coordinator(network, value, parts) for value, parts in held.items()}
    return edge_of(first, last, Mode.ROWS, tuple(tasks), needs, (phase,), held, cluster, estimates)


def _by_rows(network: Network, index: int) -> bool:
    node = network.nodes[index]
    if node.stage is None or not can_be_cut(node) or network.shape(node.outputs[0])[0] < 2:
        return False
    return node.stage.kind is not StageKind.FULLY_CONNECTED and not accumulates(node.stage, network.values)
