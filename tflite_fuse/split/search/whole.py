"""Everything on one worker: what a split is measured against."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from tflite_fuse.split.cluster.devices import COORDINATOR
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Phase, Plan, Step, Task, Transfer
from tflite_fuse.split.cut.regions import whole


def one_worker(network: Network, workers: int, worker: int) -> Plan:
    """The plan in which one of so many workers does it all."""
    phases = [
        Phase("the input", tuple(Transfer(v, COORDINATOR, worker, (whole(network.shape(v)),)) for v in network.inputs))
    ]
    for nodes in runs_of_nodes(network, range(len(network.nodes))):
        phases.append(Phase(network.nodes[nodes[-1]].name, (), (whole_task(network, worker, nodes),)))
    written = [v for v in network.outputs if v not in network.inputs]
    last = tuple(Transfer(v, worker, COORDINATOR, (whole(network.shape(v)),)) for v in dict.fromkeys(written))
    phases.append(Phase("the output", last))
    return Plan(workers, tuple(phases), f"all on worker {worker}")


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
