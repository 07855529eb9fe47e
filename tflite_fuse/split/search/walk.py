"""Tasks and transfers of nodes in order, given which device computes which part of each; and plans on one worker."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.pieces import receptive_field
from tflite_fuse.split.cut.plan import Phase, Plan, Step, Task, Transfer, transfers, with_transfers
from tflite_fuse.split.cut.regions import Region, hull
from tflite_fuse.split.devices import COORDINATOR, Cluster

Parts = Mapping[int, Region]
"""Device → the region of a value that it computes, holds or needs."""


class Walk:
    """The phases so far.

    Attributes:
        needs: value from before → device → region that it needs.
        holders: value computed so far → device → region that it holds.
    """

    def __init__(self, network: Network, cluster: Cluster) -> None:
        self.network, self.cluster = network, cluster
        self.needs: dict[int, dict[int, Region]] = {}
        self.holders: dict[int, Parts] = {}
        self._groups: list[tuple[list[Transfer], dict[int, list[Step]]]] = []

    def go(self, node: int, parts: Parts, together: bool = False) -> None:
        """Add a node; with ``together``, its transfers are sent as early as those of the node before."""
        fields = {worker: receptive_field(self.network, node, region) for worker, region in parts.items()}
        moved = self._brought(fields)
        self._add(node, parts, moved, not together and bool(moved))

    def go_whole(self, worker: int, nodes: range) -> None:
        """Add nodes that a worker computes whole.

        Operators without stage run at the coordinator, which forwards their outputs to the worker.
        """
        before = COORDINATOR
        for index in nodes:
            node, network = self.network.nodes[index], self.network
            device = COORDINATOR if node.stage is None else worker
            moved = self._brought({device: {value: network.region(value) for value in node.inputs}})
            self._add(index, {device: network.region(node.outputs[0])}, moved, COORDINATOR in (before, device))
            for value in node.outputs:
                self.holders[value] = with_coordinator(network, value, self.holders[value])
            before = device

    def phases(self) -> tuple[Phase, ...]:
        return tuple(self._phase(moved, steps) for moved, steps in self._groups)

    def held(self, network: Network, last: int) -> dict[int, Parts]:
        """Return, for each value of the model's network that leaves, device → region that it holds."""
        return {
            value: with_coordinator(network, value, parts)
            for value, parts in self.holders.items()
            if value < len(network.values) and leaves(network, value, range(last))
        }

    def _brought(self, fields: Mapping[int, Mapping[int, Region]]) -> list[Transfer]:
        """Return the transfers after which each device holds its regions, and note its needs of values from before.

        Args:
            fields: device → value → region.
        """
        moved: list[Transfer] = []
        for source in dict.fromkeys(value for field in fields.values() for value in field):
            regions = {worker: field[source] for worker, field in fields.items() if field[source]}
            if source not in self.holders:
                for worker, region in regions.items():
                    before = self.needs.setdefault(source, {}).get(worker, ())
                    self.needs[source][worker] = (hull((*before, *region)),)
                continue
            travels = transfers(self.cluster, source, self.holders[source], regions)
            self.holders[source] = with_transfers(self.holders[source], travels)
            moved += travels
        return moved

    def _add(self, node: int, parts: Parts, moved: Sequence[Transfer], begins: bool) -> None:
        """Add a node to the current phase, or to the next one, which begins with its transfers."""
        if begins or not self._groups:
            self._groups.append(([], {}))
        self._groups[-1][0].extend(moved)
        for worker, region in parts.items():
            self._groups[-1][1].setdefault(worker, []).append(Step(node, region))
        for value in self.network.nodes[node].outputs:
            self.holders[value] = {worker: self._written(Step(node, region), value) for worker, region in parts.items()}

    def _written(self, step: Step, value: int) -> Region:
        return step.region if self.network.nodes[step.node].stage else self.network.region(value)

    def _phase(self, moved: Sequence[Transfer], steps: Mapping[int, Sequence[Step]]) -> Phase:
        network = self.network
        tasks: dict[int, Task] = {}
        for worker, own in steps.items():
            nodes = {step.node for step in own}
            written = ((step, value) for step in own for value in network.nodes[step.node].outputs)
            owned = [(value, self._written(step, value)) for step, value in written if leaves(network, value, nodes)]
            tasks[worker] = Task(worker, tuple(own), tuple(owned))
        final = max(step.node for own in steps.values() for step in own)
        return Phase(network.nodes[final].name, tuple(moved), tuple(tasks.values()), returned_at_once(network, tasks))


def leaves(network: Network, value: int, nodes: Container[int]) -> bool:
    """Return whether a value is read by other nodes than these, or is the model's output."""
    return value in network.outputs or any(reader not in nodes for reader in network.readers[value])


def returned_at_once(network: Network, tasks: Mapping[int, Task]) -> tuple[Transfer, ...]:
    """Return transfers of the model's outputs to the coordinator."""
    return tuple(
        Transfer(value, worker, COORDINATOR, region)
        for worker, task in tasks.items()
        for value, region in task.owned
        if value in network.outputs and worker != COORDINATOR
    )


def with_coordinator(network: Network, value: int, parts: Parts) -> Parts:
    """Return device → region of a value, with all of an output at the coordinator."""
    return {**parts, COORDINATOR: network.region(value)} if value in network.outputs else parts


def one_worker(network: Network, cluster: Cluster, worker: int) -> Plan:
    """Return the plan in which one worker of a cluster computes everything."""
    walk = Walk(network, cluster)
    walk.go_whole(worker, range(len(network.nodes)))
    moved = [
        Transfer(value, COORDINATOR, worker, parts[worker]) for value, parts in walk.needs.items() if worker in parts
    ]
    phases = Phase("the input", tuple(moved)), *walk.phases()
    return Plan(len(cluster.workers), phases, f"all on worker {worker}")
