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

from collections.abc import Sequence

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.axes import Ranges, needed, union
from tflite_fuse.ir.block import StageKind
from tflite_fuse.ops.table import accumulates, input_windows
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.pieces import can_be_cut
from tflite_fuse.split.cut.plan import Phase, Step, Task, Transfer, evenly_loaded
from tflite_fuse.split.cut.regions import Box, Range, Region
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.search.by_channels import channels_edge, sums_edge
from tflite_fuse.split.search.edge import (
    TASK_BYTES,
    Edge,
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
        self._known_shares: dict[tuple[int, tuple[float, ...]], tuple[Range, ...]] = {}
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
        if mode is Mode.ONE:
            return self._one(first, last, workers)
        if mode is Mode.ROWS:
            return self._rows(first, last, workers)
        make = channels_edge if mode is Mode.CHANNELS else sums_edge
        return make(self.network, self.cluster, self.estimates, first, last, workers)

    def _one(self, first: int, last: int, workers: tuple[int, ...]) -> Edge:
        found = whole_on(self.network, workers[0], first, last)
        return edge_of(
            first, last, Mode.ONE, workers, found.needs, found.phases, found.held, self.cluster, self.estimates
        )

    def _rows(self, first: int, last: int, workers: tuple[int, ...]) -> Edge | None:
        network, nodes = self.network, range(first, last)
        if any(not _by_rows(self.network, node) for node in nodes):
            return None
        left = [value for node in nodes for value in network.nodes[node].outputs if leaves(network, value, last - 1)]
        speeds = tuple(self.cluster.workers[worker].mhz for worker in workers)
        shares = {value: self._shares(network.shape(value)[0], speeds) for value in left}
        busy = [at for at in range(len(workers)) if all(part[at][0] < part[at][1] for part in shares.values())]
        if len(busy) < 2 or any(sum(low < high for low, high in part) != len(busy) for part in shares.values()):
            return None
        asked = {value: _Asked.rows([shares[value][at] for at in busy], network.shape(value)[1]) for value in left}
        for node in reversed(nodes):
            self._ask(asked, node)
        members = tuple(workers[at] for at in busy)
        needs = {
            value: dict(zip(members, found.regions(network.shape(value)[2]), strict=True))
            for value, found in asked.items()
            if network.writer[value] < first
        }
        owned = {value: _Asked.rows([shares[value][at] for at in busy], network.shape(value)[1]) for value in left}
        parts = {
            value: dict(zip(members, found.regions(network.shape(value)[2]), strict=True))
            for value, found in owned.items()
        }
        work = dict.fromkeys(members, 0.0)
        flash = sum(self.estimates.weight_bytes[node] for node in nodes) + TASK_BYTES
        for node in nodes:
            rows = asked[network.nodes[node].outputs[0]].heights()
            height = network.shape(network.nodes[node].outputs[0])[0]
            for worker, count in zip(members, rows, strict=True):
                target = self.cluster.workers[worker].target
                work[worker] += self.estimates.whole_instructions(node, target) * count / height

        def build() -> tuple[Phase, ...]:
            boxes = {value: found.regions(network.shape(value)[2]) for value, found in asked.items()}
            tasks = {
                worker: Task(
                    worker,
                    tuple(Step(node, boxes[network.nodes[node].outputs[0]][at]) for node in nodes),
                    tuple((value, parts[value][worker]) for value in left),
                )
                for at, worker in enumerate(members)
            }
            return (Phase(network.nodes[last - 1].name, (), tuple(tasks.values()), returned_at_once(network, tasks)),)

        held = {value: with_coordinator(network, value, of_value) for value, of_value in parts.items()}
        returned = tuple(
            Transfer(value, worker, COORDINATOR, region)
            for value in left
            if value in network.outputs
            for worker, region in parts[value].items()
        )
        return Edge(
            first, last, Mode.ROWS, members, needs, build, (returned,), held, work, dict.fromkeys(members, flash)
        )

    def _shares(self, total: int, speeds: tuple[float, ...]) -> tuple[Range, ...]:
        if (total, speeds) not in self._known_shares:
            self._known_shares[total, speeds] = evenly_loaded(total, speeds)
        return self._known_shares[total, speeds]

    def _ask(self, asked: dict[int, _Asked], node: int) -> None:
        """Add the regions that a node needs of its inputs, for all workers at once."""
        stage = self.network.nodes[node].stage
        assert stage is not None
        wanted = asked[stage.output]
        for value, windows in zip(stage.inputs, input_windows(stage, self.network.values), strict=True):
            for axis, window in enumerate(windows):
                found = needed(wanted.axes[axis], window, self.network.shape(value)[axis])
                if found.holes:
                    raise BlockError(f"a part of {self.network.nodes[node].name} would read only padding")
                asked.setdefault(value, _Asked({})).widen(axis, found)


class _Asked:
    """Rows and columns of a value that workers need, as arrays: one range of rows each, the same columns."""

    def __init__(self, axes: dict[int, Ranges]) -> None:
        self.axes = axes

    @staticmethod
    def rows(parts: Sequence[Range], width: int) -> _Asked:
        low, high = np.array(parts, np.int64).T
        return _Asked({0: Ranges(low, high), 1: Ranges(np.zeros(1, np.int64), np.full(1, width, np.int64))})

    def widen(self, axis: int, more: Ranges) -> None:
        self.axes[axis] = union(self.axes[axis], more) if axis in self.axes else more

    def heights(self) -> list[int]:
        found: list[int] = (self.axes[0].high - self.axes[0].low).tolist()
        return found

    def regions(self, channels: int) -> list[Region]:
        rows, columns = self.axes[0], self.axes[1]
        across = int(columns.low[0]), int(columns.high[0])
        ranges = zip(rows.low.tolist(), rows.high.tolist(), strict=True)
        return [(Box((low, high), across, (0, channels)),) for low, high in ranges]


def _by_rows(network: Network, index: int) -> bool:
    node = network.nodes[index]
    if node.stage is None or not can_be_cut(node) or network.shape(node.outputs[0])[0] < 2:
        return False
    return node.stage.kind is not StageKind.FULLY_CONNECTED and not accumulates(node.stage, network.values)
