"""What may stand between two cuts of a model: some nodes under one partition, over some workers.

    ONE       all of them on one worker, but operators that no block holds: those run at the coordinator
    ROWS      a fused block by rows: each worker computes its rows of the last value and, of all values before, what
              these need; only rows of the first value travel, wide ones inside are computed again at the seam
    CHANNELS  node by node by output channels: inputs are gathered, depthwise and elementwise nodes stay where they are

A cut is a place between two nodes where at most one value is alive that the coordinator does not have anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.axes import Ranges, needed, union
from tflite_fuse.fusion.block.kinds.table import accumulates, input_windows
from tflite_fuse.fusion.block.stages import StageKind
from tflite_fuse.split.cluster.devices import COORDINATOR, Cluster
from tflite_fuse.split.cut.holdings import transfers, with_transfers
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.pieces import can_be_cut, receptive_field
from tflite_fuse.split.cut.plan import Phase, Step, Task, Transfer
from tflite_fuse.split.cut.regions import Box, Range, Region, hull, whole
from tflite_fuse.split.cut.shares import evenly_loaded
from tflite_fuse.split.search.estimates import Estimates
from tflite_fuse.split.search.whole import leaves, whole_on


class Mode(Enum):
    """How an edge is cut."""

    ONE = "whole on one worker"
    ROWS = "by rows"
    CHANNELS = "by output channels"


@dataclass(frozen=True, eq=False)
class Edge:
    """Nodes ``first … last − 1`` under one partition.

    Attributes:
        first, last: cuts.
        mode: how.
        workers: who takes part; those with an empty share are left out.
        needs: of each value from before the edge, what each worker needs of it.
        build: what happens; the first phase's transfers of values from before are not in it.
        inside: what travels at once, time after time, in these phases.
        held: who holds what of each value that leaves, outputs of the model at the coordinator included.
        work: instructions of each worker.
        flash: bytes of each worker.
    """

    first: int
    last: int
    mode: Mode
    workers: tuple[int, ...]
    needs: Mapping[int, Mapping[int, Region]]
    build: Callable[[], tuple[Phase, ...]]
    inside: tuple[tuple[Transfer, ...], ...]
    held: Mapping[int, Mapping[int, Region]]
    work: Mapping[int, float]
    flash: Mapping[int, int]

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """What ``build`` says, built when it is first asked for."""
        return self.build()

    @cached_property
    def holding(self) -> frozenset[tuple[int, int, Region]]:
        """Equal for edges after which the same devices hold the same."""
        return frozenset((value, device, part) for value, parts in self.held.items() for device, part in parts.items())


def cuts(network: Network) -> tuple[int, ...]:
    """Places with at most one value alive, 0 and the end included.

    Where one stays alive over several places, the first of them: an edge between two would hand on what it neither
    reads nor writes, as behind a node whose output is the model's and nobody's else.
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
        """None where the nodes cannot be cut like this."""
        key = first, last, mode, workers
        if key not in self._made:
            make = {Mode.ONE: self._one, Mode.ROWS: self._rows, Mode.CHANNELS: self._channels}[mode]
            try:
                self._made[key] = make(first, last, workers)
            except BlockError:
                self._made[key] = None
        return self._made[key]

    def _one(self, first: int, last: int, workers: tuple[int, ...]) -> Edge:
        found = whole_on(self.network, workers[0], first, last)
        return self._edge(first, last, Mode.ONE, workers, found.needs, found.phases, found.held)

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
        flash = sum(self.estimates.weight_bytes[node] for node in nodes)
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
            return (Phase(network.nodes[last - 1].name, (), tuple(tasks.values()), _returned(self.network, tasks)),)

        held = {value: _with_coordinator(self.network, value, of_value) for value, of_value in parts.items()}
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
        """What a node asks of its inputs, all workers at once."""
        stage = self.network.nodes[node].stage
        assert stage is not None
        wanted = asked[stage.output]
        for value, windows in zip(stage.inputs, input_windows(stage, self.network.values), strict=True):
            for axis, window in enumerate(windows):
                found = needed(wanted.axes[axis], window, self.network.shape(value)[axis])
                if found.holes:
                    raise BlockError(f"a part of {self.network.nodes[node].name} would read nothing but padding")
                asked.setdefault(value, _Asked({})).widen(axis, found)

    def _channels(self, first: int, last: int, workers: tuple[int, ...]) -> Edge | None:
        network = self.network
        if any(not can_be_cut(network.nodes[node]) for node in range(first, last)):
            return None
        speeds = [self.cluster.workers[worker].mhz for worker in workers]
        needs: dict[int, dict[int, Region]] = {}
        known: dict[int, dict[int, Region]] = {}
        groups: list[tuple[list[Transfer], dict[int, list[Step]]]] = []
        for node in range(first, last):
            value = network.nodes[node].outputs[0]
            height, width, channels = network.shape(value)
            ranges = zip(workers, evenly_loaded(channels, speeds), strict=True)
            parts = {w: (Box((0, height), (0, width), part),) for w, part in ranges if part[0] < part[1]}
            moved: list[Transfer] = []
            fields = {worker: receptive_field(network, node, region) for worker, region in parts.items()}
            for source in dict.fromkeys(network.nodes[node].inputs):
                wanted = {worker: field[source] for worker, field in fields.items() if field[source]}
                if source not in known:
                    for worker, region in wanted.items():
                        before = needs.setdefault(source, {}).get(worker, ())
                        needs[source][worker] = (hull((*before, *region)),)
                    continue
                moved += transfers(self.cluster, source, known[source], wanted)
                known[source] = with_transfers(known[source], moved)
            if moved or not groups:
                groups.append((moved, {}))
            for worker, region in parts.items():
                groups[-1][1].setdefault(worker, []).append(Step(node, region))
            known[value] = dict(parts)
        phases = [self._group(steps, moved, last) for moved, steps in groups]
        held = {
            value: _with_coordinator(self.network, value, parts)
            for value, parts in known.items()
            if leaves(network, value, last - 1)
        }
        return self._edge(first, last, Mode.CHANNELS, workers, needs, phases, held)

    def _group(self, steps: Mapping[int, Sequence[Step]], moved: Sequence[Transfer], last: int) -> Phase:
        network = self.network
        tasks: dict[int, Task] = {}
        for worker, own in steps.items():
            nodes = {step.node for step in own}
            owned = [
                (network.nodes[step.node].outputs[0], step.region)
                for step in own
                if _read_outside(self.network, network.nodes[step.node].outputs[0], nodes)
            ]
            tasks[worker] = Task(worker, tuple(own), tuple(owned))
        final = max(step.node for own in steps.values() for step in own)
        return Phase(network.nodes[final].name, tuple(moved), tuple(tasks.values()), _returned(self.network, tasks))

    def _edge(
        self,
        first: int,
        last: int,
        mode: Mode,
        workers: tuple[int, ...],
        needs: Mapping[int, Mapping[int, Region]],
        phases: Sequence[Phase],
        held: Mapping[int, Mapping[int, Region]],
    ) -> Edge:
        work = dict.fromkeys(workers, 0.0)
        flash = dict.fromkeys(workers, 0)
        for phase in phases:
            for task in (task for task in phase.tasks if task.worker != COORDINATOR):
                target = self.cluster.workers[task.worker].target
                for step in task.steps:
                    box = hull(step.region)
                    work[task.worker] += self.estimates.instructions(step.node, box, target)
                    flash[task.worker] += self.estimates.flash(step.node, box)
        moved = tuple(each for phase in phases for each in (phase.transfers, phase.returned))
        return Edge(first, last, mode, workers, needs, lambda: tuple(phases), moved, held, work, flash)


class _Asked:
    """Which rows and columns of a value workers need, as arrays: one range of rows each, the same columns."""

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


def _read_outside(network: Network, value: int, nodes: set[int]) -> bool:
    return value in network.outputs or any(reader not in nodes for reader in network.readers[value])


def _returned(network: Network, tasks: Mapping[int, Task]) -> tuple[Transfer, ...]:
    """Outputs of the model go to the coordinator at once."""
    return tuple(
        Transfer(value, worker, COORDINATOR, region)
        for worker, task in tasks.items()
        for value, region in task.owned
        if value in network.outputs
    )


def _with_coordinator(network: Network, value: int, parts: dict[int, Region]) -> dict[int, Region]:
    everything: Region = (whole(network.shape(value)),)
    return {**parts, COORDINATOR: everything} if value in network.outputs else parts
