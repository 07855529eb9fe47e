"""What stands between two cuts of a model.

In which order the messages of a phase are sent.

Every device goes through its messages in the plan's order, so what it sends waits for what it is to receive before.
Where workers exchange what they have, receiver after receiver, each waits for nearly all before it. In two halves
no device waits within a half: first all messages to higher numbers, the highest sender's first, then all to lower ones,
the lowest sender's first; or the other way about, which is better where the low ones are done later. What goes to the
coordinator comes before, what it hands on comes behind.

Everything on one worker: what a split is measured against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import groupby

from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Phase, Plan, Step, Summed, Task, Transfer
from tflite_fuse.split.cut.regions import Region, hull, intersect, whole
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.fragments.structs import LAYOUTS, FragmentBlock, FragmentStep
from tflite_fuse.split.search.estimates import Estimates

TASK_BYTES = sum(LAYOUTS[each].size for each in (FragmentStep, FragmentBlock)) + 80
"""Flash of a block beside its stages: its step, where it is, and the header of its options, about."""


class Mode(Enum):
    """How an edge is cut."""

    ONE = "whole on one worker"
    ROWS = "by rows"
    CHANNELS = "by output channels"
    SUMS = "by input channels"


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
        sums: layers that are cut by their input channels; the numbers in ``phases`` and ``inside`` are of the network
            extended by them.
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
    sums: tuple[Summed, ...] = ()

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """What ``build`` says, built when it is first asked for."""
        return self.build()

    @property
    def ends(self) -> tuple[frozenset[object], frozenset[object]]:
        """What is held behind it, and what is asked before it: equal for edges whose devices hold, or ask, the same."""
        held, asked = (
            frozenset((value, device, part) for value, parts in of_values.items() for device, part in parts.items())
            for of_values in (self.held, self.needs)
        )
        return held, asked


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
    """The edge of phases that are there; ``estimates`` of the network their numbers are of."""
    work = dict.fromkeys(workers, 0.0)
    flash = dict.fromkeys(workers, 0)
    for phase in phases:
        for task in (task for task in phase.tasks if task.worker != COORDINATOR):
            for step in task.steps:
                box = hull(step.region)
                work[task.worker] += estimates.instructions(step.node, box, cluster.workers[task.worker].target)
                flash[task.worker] += estimates.flash(step.node, box)
            flash[task.worker] += TASK_BYTES
    moved = tuple(each for phase in phases for each in (phase.transfers, phase.returned))
    return Edge(first, last, mode, workers, needs, lambda: tuple(phases), moved, held, work, flash, sums)


def is_read_outside(network: Network, value: int, nodes: set[int]) -> bool:
    """Whether others than these nodes read a value, or it is the model's output."""
    return value in network.outputs or any(reader not in nodes for reader in network.readers[value])


def returned_at_once(network: Network, tasks: Mapping[int, Task]) -> tuple[Transfer, ...]:
    """Outputs of the model go to the coordinator at once."""
    return tuple(
        Transfer(value, worker, COORDINATOR, region)
        for worker, task in tasks.items()
        for value, region in task.owned
        if value in network.outputs
    )


def with_coordinator(network: Network, value: int, parts: dict[int, Region]) -> dict[int, Region]:
    """Who holds what of a value: the coordinator has all of an output."""
    everything: Region = (whole(network.shape(value)),)
    return {**parts, COORDINATOR: everything} if value in network.outputs else parts


Seconds = Callable[[Plan], float]
"""How long a plan takes on simulated devices."""


def soonest(plan: Plan, seconds: Seconds, by_phase: bool) -> Plan:
    """The plan with its messages in the order in which it takes least.

    Args:
        plan: with messages in any order that works.
        seconds: what to make small.
        by_phase: whether each phase may have an order of its own, found phase by phase.
    """
    orders = list(zip(*(_orders(phase) for phase in plan.phases), strict=True))
    best = min((replace(plan, phases=phases) for phases in orders), key=seconds)
    least = seconds(best)
    for number, choices in enumerate(zip(*orders, strict=True)) if by_phase else ():
        for phase in choices:
            if phase != best.phases[number]:
                other = replace(best, phases=(*best.phases[:number], phase, *best.phases[number + 1 :]))
                if (found := seconds(other)) < least:
                    best, least = other, found
    return best


def _orders(phase: Phase) -> Iterator[Phase]:
    """The phase in each order, or as it is where what is handed on would be sent too early."""
    given = phase.transfers
    after = _waits(given)
    yield phase
    for upwards in (True, False):
        numbers = sorted(range(len(given)), key=lambda number: _place(given[number], upwards))
        places = {number: place for place, number in enumerate(numbers)}
        sound = all(places[first] < places[second] for first, second in after)
        yield replace(phase, transfers=tuple(given[number] for number in numbers)) if sound else phase


def _place(each: Transfer, upwards: bool) -> tuple[int, ...]:
    """What transfers are sorted by."""
    side = 0 if each.target == COORDINATOR else 2 if each.source == COORDINATOR else 1
    if each.source < each.target:
        return side, not upwards, -each.source, each.target
    return side, upwards, each.source, -each.target


def _waits(moved: Sequence[Transfer]) -> list[tuple[int, int]]:
    """Pairs of which the second hands on what the first brings."""
    brought: dict[tuple[int, int], list[int]] = {}
    found: list[tuple[int, int]] = []
    for number, each in enumerate(moved):
        sooner = brought.get((each.source, each.value), ())
        found += [(other, number) for other in sooner if intersect(moved[other].region, each.region)]
        brought.setdefault((each.target, each.value), []).append(number)
    return found


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
