"""Edges: nodes between two cuts under one partition; the order of a phase's messages; and plans on one worker.

Every device handles its messages in the plan's order, so its sends wait for earlier receives. Where workers exchange
parts, receiver after receiver, each waits for nearly all before it. In two halves no device waits within a half: first
all messages to higher numbers, the highest sender's first, then all to lower ones, the lowest sender's first; or the
other way round, which is better if the low ones finish later. Messages to the coordinator come before, those it
forwards behind.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property
from itertools import groupby
from math import prod

from tflite_fuse.cost.estimate.rings import row_of_runs
from tflite_fuse.cost.instructions import Target, expected_instructions, instruction_costs, stage_counts
from tflite_fuse.ir.block import BlockTensor, Stage
from tflite_fuse.ops.table import accumulates
from tflite_fuse.ops.weighted.sums import PartOf
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Phase, Plan, Step, Summed, Task, Transfer
from tflite_fuse.split.cut.regions import Box, Region, hull, intersect
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.fragments.blocks import CHUNK
from tflite_fuse.split.fragments.structs import LAYOUTS, FragmentBlock, FragmentStep

TASK_BYTES = sum(LAYOUTS[each].size for each in (FragmentStep, FragmentBlock)) + 80
"""Approximate flash of a block beside its stages: its step, its entry, and the header of its options."""


_TABLE_BYTES = 12
"""Bytes per output channel of a stage with weights: bias, multiplier, shift."""

_BLOCK_BYTES = 64
"""Approximate bytes of a stage and its tensor in a block's options."""


class Estimates:
    """Estimates for the nodes of one network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.whole_instructions = cache(self._whole_instructions)

    def instructions(self, node: int, box: Box, target: Target) -> float:
        """Return the instructions of a box of a node's output."""
        value = self.network.nodes[node].outputs[0]
        return self.whole_instructions(node, target) * box.volume / max(1, prod(self.network.shape(value)))

    def _whole_instructions(self, node: int, target: Target) -> float:
        """Return the instructions of a whole node; 0 for an operator without stage, whose work is unknown."""
        stage = self.network.nodes[node].stage
        if stage is None:
            return 0.0
        tensors = _as_read(stage, self.network.values)
        output = tensors[stage.output]
        runs: dict[int, int] = {1: 1}
        if not accumulates(stage, tensors):
            ends = row_of_runs(output.width, CHUNK)
            runs = {}
            for start, end in zip((0, *ends), ends, strict=False):
                runs[end - start] = runs.get(end - start, 0) + output.height
        return expected_instructions(stage_counts(stage, tensors, runs, target.kernels), instruction_costs(target))

    @cached_property
    def weight_bytes(self) -> tuple[int, ...]:
        """Return the bytes of weights, tables and options of each node."""
        sizes = []
        for node in self.network.nodes:
            weights = 0 if node.stage is None or node.stage.weights is None else int(node.stage.weights.size)
            table = _TABLE_BYTES * self.network.shape(node.outputs[0])[2] if weights else 0
            sizes.append(weights + table + _BLOCK_BYTES)
        return tuple(sizes)

    def flash(self, node: int, box: Box) -> int:
        """Return the flash bytes for a box of a node's output: the weights of its channels."""
        channels = self.network.shape(self.network.nodes[node].outputs[0])[2]
        return -(-self.weight_bytes[node] * box.shape[2] // max(1, channels))


def _as_read(stage: Stage, tensors: Sequence[BlockTensor]) -> Sequence[BlockTensor]:
    """Return the tensors of a stage's block: one that sums over some channels reads only these."""
    if not isinstance(stage.parameters, PartOf):
        return tensors
    low, high = stage.parameters.channels
    source = stage.inputs[0]
    return [*tensors[:source], replace(tensors[source], channels=high - low), *tensors[source + 1 :]]


Holders = dict[int, dict[int, Region]]
"""Value → device → region that it holds or needs."""


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
        work: instructions of each worker.
        flash: bytes of each worker.
        sums: layers that are cut by their input channels; the numbers in ``phases`` are of the network extended by
            them.
    """

    first: int
    last: int
    mode: Mode
    workers: tuple[int, ...]
    needs: Mapping[int, Mapping[int, Region]]
    phases: tuple[Phase, ...]
    held: Mapping[int, Mapping[int, Region]]
    work: Mapping[int, float]
    flash: Mapping[int, int]
    sums: tuple[Summed, ...] = ()

    @property
    def ends(self) -> tuple[frozenset[object], frozenset[object]]:
        """Return keys of the values held behind it, and of those needed before it."""
        held, needed = (
            frozenset((value, device, part) for value, parts in of_values.items() for device, part in parts.items())
            for of_values in (self.held, self.needs)
        )
        return held, needed


def edge_of(
    first: int,
    last: int,
    mode: Mode,
    workers: tuple[int, ...],
    needs: Mapping[int, Mapping[int, Region]],
    phases: Sequence[Phase],
    held: Mapping[int, Mapping[int, Region]],
    cluster: Cluster,
    estimates: Estimates,
    sums: tuple[Summed, ...] = (),
) -> Edge:
    """Return the edge of existing phases; ``estimates`` is of the network of their numbers."""
    work = dict.fromkeys(workers, 0.0)
    flash = dict.fromkeys(workers, 0)
    for phase in phases:
        for task in (task for task in phase.tasks if task.worker != COORDINATOR):
            for step in task.steps:
                box = hull(step.region)
                work[task.worker] += estimates.instructions(step.node, box, cluster.workers[task.worker].target)
                flash[task.worker] += estimates.flash(step.node, box)
            flash[task.worker] += TASK_BYTES
    return Edge(first, last, mode, workers, needs, tuple(phases), held, work, flash, sums)


def returned_at_once(network: Network, tasks: Mapping[int, Task]) -> tuple[Transfer, ...]:
    """Return transfers of the model's outputs to the coordinator."""
    return tuple(
        Transfer(value, worker, COORDINATOR, region)
        for worker, task in tasks.items()
        for value, region in task.owned
        if value in network.outputs
    )


def with_coordinator(network: Network, value: int, parts: dict[int, Region]) -> dict[int, Region]:
    """Return device → region of a value, with all of an output at the coordinator."""
    return {**parts, COORDINATOR: network.region(value)} if value in network.outputs else parts


Seconds = Callable[[Plan], float]
"""Plan → its seconds on simulated devices."""


def soonest(plan: Plan, seconds: Seconds, by_phase: bool) -> Plan:
    """Return the plan with its messages in the quickest order.

    Args:
        plan: with messages in any valid order.
        seconds: the cost to minimise.
        by_phase: whether each phase may have an order of its own, found phase by phase.
    """
    orders = list(zip(*(_orders(phase) for phase in plan.phases), strict=True))
    best = min((replace(plan, phases=phases) for phases in orders), key=seconds)
    least = seconds(best)
    for number, choices in enumerate(zip(*orders, strict=True)) if by_phase else ():
        for phase in choices:
            if phase != best.phases[number]:
                other = replace(best, phases=(*best.phases[:number], phase, *best.phases[number + 1 :]))
                if (cost := seconds(other)) < least:
                    best, least = other, cost
    return best


def _orders(phase: Phase) -> Iterator[Phase]:
    """Yield the phase in each order; unchanged if an order would forward values before they arrive."""
    moves = phase.transfers
    after = _waits(moves)
    yield phase
    for upwards in (True, False):
        numbers = sorted(range(len(moves)), key=lambda number: _place(moves[number], upwards))
        places = {number: place for place, number in enumerate(numbers)}
        sound = all(places[first] < places[second] for first, second in after)
        yield replace(phase, transfers=tuple(moves[number] for number in numbers)) if sound else phase


def _place(each: Transfer, upwards: bool) -> tuple[int, ...]:
    """Return the sort key of a transfer."""
    side = 0 if each.target == COORDINATOR else 2 if each.source == COORDINATOR else 1
    if each.source < each.target:
        return side, not upwards, -each.source, each.target
    return side, upwards, each.source, -each.target


def _waits(moved: Sequence[Transfer]) -> list[tuple[int, int]]:
    """Return pairs of transfers of which the second forwards values of the first."""
    brought: dict[tuple[int, int], list[int]] = {}
    pairs: list[tuple[int, int]] = []
    for number, each in enumerate(moved):
        sooner = brought.get((each.source, each.value), ())
        pairs += [(other, number) for other in sooner if intersect(moved[other].region, each.region)]
        brought.setdefault((each.target, each.value), []).append(number)
    return pairs


@dataclass(frozen=True)
class Whole:
    """Nodes on one worker; those without stage at the coordinator.

    Attributes:
        phases: without transfers of values from before.
        needs: value from before → devices that need it.
        held: value that leaves → devices that hold it.
    """

    phases: tuple[Phase, ...]
    needs: Holders
    held: Holders


def whole_on(network: Network, worker: int, first: int, last: int) -> Whole:
    """Return nodes ``first … last − 1`` on a worker.

    Operators without stage run at the coordinator, which forwards their outputs to the worker.
    """
    phases = list[Phase]()
    needs, held = Holders(), Holders()
    for nodes in runs_of_nodes(network, range(first, last)):
        device = worker if network.nodes[nodes[0]].stage is not None else COORDINATOR
        written = {value for node in nodes for value in network.nodes[node].outputs}
        moved = list[Transfer]()
        for value in dict.fromkeys(value for node in nodes for value in network.nodes[node].inputs):
            region = network.region(value)
            if network.writer[value] < first:
                needs.setdefault(value, {})[device] = region
            elif value not in written and device not in held[value]:
                moved.append(Transfer(value, next(iter(held[value])), device, region))
                held[value][device] = region
        held.update({value: {device: network.region(value)} for value in written})
        task = whole_task(network, device, nodes)
        returned = returned_at_once(network, {device: task} if device != COORDINATOR else {})
        for each in returned:
            held[each.value][COORDINATOR] = each.region
        phases.append(Phase(network.nodes[nodes[-1]].name, tuple(moved), (task,), returned))
    leaving = {value: parts for value, parts in held.items() if leaves(network, value, range(last))}
    return Whole(tuple(phases), needs, leaving)


def one_worker(network: Network, workers: int, worker: int) -> Plan:
    """Return the plan in which one of so many workers computes everything."""
    whole = whole_on(network, worker, 0, len(network.nodes))
    moved = [
        Transfer(value, COORDINATOR, worker, parts[worker]) for value, parts in whole.needs.items() if worker in parts
    ]
    return Plan(workers, (Phase("the input", tuple(moved)), *whole.phases), f"all on worker {worker}")


def runs_of_nodes(network: Network, nodes: range) -> Iterator[list[int]]:
    """Yield runs of nodes with stages, and each node without one alone."""
    for staged, run in groupby(nodes, lambda node: network.nodes[node].stage is not None):
        if staged:
            yield list(run)
        else:
            yield from ([node] for node in run)


def whole_task(network: Network, worker: int, nodes: list[int]) -> Task:
    """Return the task of some nodes on one worker; values that others read leave it."""
    steps = tuple(Step(node, network.region(network.nodes[node].outputs[0])) for node in nodes)
    written = [value for node in nodes for value in network.nodes[node].outputs]
    leaving = [value for value in written if leaves(network, value, nodes)]
    return Task(worker, steps, tuple((value, network.region(value)) for value in leaving))


def leaves(network: Network, value: int, nodes: Container[int]) -> bool:
    """Return whether a value is read by other nodes than these, or is the model's output."""
    return value in network.outputs or any(reader not in nodes for reader in network.readers[value])
