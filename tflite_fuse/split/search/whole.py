"""Everything on one worker: what a split is measured against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from tflite_fuse.split.cluster.devices import COORDINATOR
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Phase, Plan, Step, Task, Transfer
from tflite_fuse.split.cut.regions import Region, whole

Holders = dict[int, dict[int, Region]]
"""Of each value, all of it at some devices."""


@dataclass(frozen=True)
class Whole:
    """Nodes on one worker; those without stage at the coordinator.

    Attributes:
        phases: what happens; values from before are there.
        needs: of each value from before, who needs it.
        held: of each value that leaves, who holds it.
    """

    phases: tuple[Phase, ...]
    needs: Holders
    held: Holders


def whole_on(network: Network, worker: int, first: int, last: int) -> Whole:
    """Nodes ``first … last − 1`` on a worker. No device library holds an operator without stage: it runs at the
    coordinator, which hands on what the worker reads of it."""
    phases = list[Phase]()
    needs, held = Holders(), Holders()
    for nodes in runs_of_nodes(network, range(first, last)):
        device = worker if network.nodes[nodes[0]].stage is not None else COORDINATOR
        written = {value for node in nodes for value in network.nodes[node].outputs}
        moved = list[Transfer]()
        for value in dict.fromkeys(value for node in nodes for value in network.nodes[node].inputs):
            region = (whole(network.shape(value)),)
            if network.writer[value] < first:
                needs.setdefault(value, {})[device] = region
            elif value not in written and device not in held[value]:
                moved.append(Transfer(value, next(iter(held[value])), device, region))
                held[value][device] = region
        held.update({value: {device: (whole(network.shape(value)),)} for value in written})
        task = whole_task(network, device, nodes)
        returned = tuple(
            Transfer(value, device, COORDINATOR, region)
            for value, region in task.owned
            if value in network.outputs and device != COORDINATOR
        )
        for each in returned:
            held[each.value][COORDINATOR] = each.region
        phases.append(Phase(network.nodes[nodes[-1]].name, tuple(moved), (task,), returned))
    leaving = {value: parts for value, parts in held.items() if leaves(network, value, last - 1)}
    return Whole(tuple(phases), needs, leaving)


def one_worker(network: Network, workers: int, worker: int) -> Plan:
    """The plan in which one of so many workers does it all."""
    found = whole_on(network, worker, 0, len(network.nodes))
    moved = [
        Transfer(value, COORDINATOR, worker, parts[worker]) for value, parts in found.needs.items() if worker in parts
    ]
    return Plan(workers, (Phase("the input", tuple(moved)), *found.phases), f"all on worker {worker}")


def runs_of_nodes(network: Network, nodes: range) -> Iterator[list[int]]:
    """Consecutive nodes with stages together, each node without one by itself."""
    for staged, run in groupby(nodes, lambda node: network.nodes[node].stage is not None):
        if staged:
            yield list(run)
        else:
            yield from ([node] for node in run)


def whole_task(network: Network, worker: int, nodes: list[int]) -> Task:
    """All of some nodes on one worker; what others read leaves the task."""
    steps = tuple(Step(node, (whole(network.shape(network.nodes[node].outputs[0])),)) for node in nodes)
    written = [value for node in nodes for value in network.nodes[node].outputs]
    leaving = [value for value in written if leaves(network, value, nodes[-1])]
    return Task(worker, steps, tuple((value, (whole(network.shape(value)),)) for value in leaving))


def leaves(network: Network, value: int, last: int) -> bool:
    """Whether a value is read behind a node, or is an output."""
    return value in network.outputs or any(reader > last for reader in network.readers[value])
