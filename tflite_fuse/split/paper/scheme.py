"""The published scheme: every layer cut by flattened output positions, everything through the coordinator.

Algorithm 1 and 2 give each worker the next share of a layer's outputs, in proportion to its rating; Algorithm 3's marks
are the receptive fields of these ranges; Algorithm 4 is one phase per layer, in which the coordinator sends every
worker all it needs and gets all outputs back. A worker keeps nothing from one layer to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.stages import StageKind
from tflite_fuse.split.cluster.devices import COORDINATOR
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.pieces import can_be_cut, receptive_field
from tflite_fuse.split.cut.plan import Phase, Plan, Step, Task, Transfer
from tflite_fuse.split.cut.regions import Region, flat_range, volume, whole
from tflite_fuse.split.cut.shares import by_ratings


def paper_plan(network: Network, ratings: Sequence[float], strategy: str) -> Plan:
    """The plan of Algorithms 1 to 4.

    Args:
        network: what to cut.
        ratings: of each worker.
        strategy: how the ratings came about, in words.
    """
    phases = [_layer(network, index, ratings) for index in range(len(network.nodes))]
    return Plan(len(ratings), tuple(phases), strategy)


def travelling_share(plan: Plan, network: Network) -> float:
    """Kc of a plan: bytes moved over bytes of all outputs."""
    produced = sum(volume((whole(network.shape(value)),)) for node in network.nodes for value in node.outputs)
    return plan.moved / produced if produced else 0.0


def _layer(network: Network, index: int, ratings: Sequence[float]) -> Phase:
    node = network.nodes[index]
    shares = _shares(network, index, ratings)
    needs = {worker: receptive_field(network, index, region) for worker, region in shares.items()}
    sent = [
        Transfer(value, COORDINATOR, worker, region)
        for worker, fields in needs.items()
        if worker != COORDINATOR
        for value, region in fields.items()
        if region
    ]
    tasks, returned = [], []
    for worker, region in shares.items():
        outputs = tuple((value, region if node.stage else (whole(network.shape(value)),)) for value in node.outputs)
        tasks.append(Task(worker, (Step(index, region),), outputs))
        if worker != COORDINATOR:
            returned += [Transfer(value, worker, COORDINATOR, part) for value, part in outputs]
    return Phase(node.name, tuple(sent), tuple(tasks), tuple(returned))


def _shares(network: Network, index: int, ratings: Sequence[float]) -> Mapping[int, Region]:
    """What each worker computes of a layer; workers with nothing are left out."""
    node = network.nodes[index]
    shape = network.shape(node.outputs[0])
    if node.stage is None:
        return {COORDINATOR: (whole(shape),)}
    if not can_be_cut(node) or not _reads_something(network, index):
        return {max(range(len(ratings)), key=lambda worker: ratings[worker]): (whole(shape),)}
    ranges = by_ratings(volume((whole(shape),)), ratings)
    return {worker: flat_range(shape, *part) for worker, part in enumerate(ranges) if part[0] < part[1]}


def _reads_something(network: Network, index: int) -> bool:
    """Whether every position of a layer can be computed by itself: of a PAD, some would read nothing."""
    stage = network.nodes[index].stage
    if stage is None or stage.kind is StageKind.PAD:
        return False
    try:
        receptive_field(network, index, (whole(network.shape(stage.output)),))
        height, width, channels = network.shape(stage.output)
        receptive_field(network, index, flat_range((height, width, channels), 0, 1))
    except BlockError:
        return False
    return True
