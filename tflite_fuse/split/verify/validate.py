"""Checks a plan against its network: who holds and who produces every element, without computing values.

Independently of the search, every element is followed: a transfer carries only elements that its source holds, a task
reads only elements that its worker holds or has just computed, every stored or transferred element has exactly one
declared owner, copies are declared as such, a layer cut by its input channels is one exact set of partial sums whose
ranges are disjoint and complete, and the coordinator has all outputs in the end.
"""

from __future__ import annotations

from collections.abc import Iterable

from tflite_fuse.errors import BlockError, PlanError
from tflite_fuse.ir.block import StageKind
from tflite_fuse.ops.entry import parameters_of
from tflite_fuse.ops.weighted.sums import PartOf
from tflite_fuse.split.cut.network import Network, Node
from tflite_fuse.split.cut.pieces import receptive_field
from tflite_fuse.split.cut.plan import Plan, Task, Transfer
from tflite_fuse.split.cut.regions import Region, intersect, subtract, union, whole
from tflite_fuse.split.devices import COORDINATOR


def check_plan(network: Network, plan: Plan) -> None:
    """Check a plan. Raises PlanError in the words of the network."""
    _check_sums(network, plan)
    follower = _Follower(network, plan.workers)
    for number, phase in enumerate(plan.phases):
        try:
            follower.move(phase.transfers)
            follower.compute(phase.tasks)
            follower.move(phase.returned)
        except BlockError as error:
            raise PlanError(f"phase {number} ({phase.name}): {error}") from error
    follower.finish()


class _Follower:
    """Region of every value by device, and by owner."""

    def __init__(self, network: Network, workers: int) -> None:
        self.network, self.workers = network, workers
        everything = {value: (whole(network.shape(value)),) for value in network.inputs}
        self.held: dict[tuple[int, int], Region] = {(COORDINATOR, value): all_ for value, all_ in everything.items()}
        self.owned: dict[int, Region] = dict(everything)

    def move(self, transfers: Iterable[Transfer]) -> None:
        for each in transfers:
            self._device(each.source)
            self._device(each.target)
            if each.source == each.target or not each.region:
                raise BlockError(f"a transfer of {self._name(each.value)} leads nowhere or carries nothing")
            self._inside(each.value, each.region)
            if subtract(each.region, self._held(each.source, each.value)):
                raise BlockError(f"device {each.source} sends parts of {self._name(each.value)} it does not hold")
            self._give(each.target, each.value, each.region)

    def compute(self, tasks: tuple[Task, ...]) -> None:
        if len({task.worker for task in tasks}) != len(tasks):
            raise BlockError("a worker has two tasks")
        made = []
        for task in tasks:
            self._device(task.worker)
            for node in (self.network.nodes[step.node] for step in task.steps):
                if node.stage is not None and task.worker == COORDINATOR:
                    raise BlockError(f"the coordinator is to compute {node.name}, which is for workers")
                if node.stage is None and task.worker != COORDINATOR:
                    raise BlockError(f"worker {task.worker} is to run {node.name}, which no block holds")
            made.append(self._run(task))
        for task in tasks:
            for value, region in task.owned:
                if intersect(self.owned.get(value, ()), region):
                    raise BlockError(f"parts of {self._name(value)} have two producers")
                self.owned[value] = union(self.owned.get(value, ()), region)
        for task, computed in zip(tasks, made, strict=True):
            for value, region in (*task.owned, *task.copies):
                if subtract(region, computed.get(value, ())):
                    raise BlockError(f"worker {task.worker} declares parts of {self._name(value)} it does not compute")
                if subtract(region, self.owned.get(value, ())):
                    raise BlockError(f"worker {task.worker} keeps copies of {self._name(value)} that have no producer")
                self._give(task.worker, value, region)

    def finish(self) -> None:
        for value in self.network.outputs:
            if subtract((whole(self.network.shape(value)),), self._held(COORDINATOR, value)):
                raise PlanError(f"parts of the output {self._name(value)} never reach the coordinator")

    def _run(self, task: Task) -> dict[int, Region]:
        computed: dict[int, Region] = {}
        for step in task.steps:
            node = self.network.nodes[step.node]
            for value, needed in receptive_field(self.network, step.node, step.region).items():
                if subtract(subtract(needed, self._held(task.worker, value)), computed.get(value, ())):
                    raise BlockError(f"worker {task.worker} lacks parts of {self._name(value)} for {node.name}")
            for value in node.outputs:
                region = step.region if node.stage else (whole(self.network.shape(value)),)
                self._inside(value, region)
                computed[value] = union(computed.get(value, ()), region)
        return computed

    def _inside(self, value: int, region: Region) -> None:
        if subtract(region, (whole(self.network.shape(value)),)):
            raise BlockError(f"a part of {self._name(value)} lies outside of it")
        if any(intersect((box,), region[:index]) for index, box in enumerate(region)):
            raise BlockError(f"a part of {self._name(value)} is there twice")

    def _held(self, device: int, value: int) -> Region:
        return self.held.get((device, value), ())

    def _give(self, device: int, value: int, region: Region) -> None:
        self.held[device, value] = union(self._held(device, value), region)

    def _device(self, device: int) -> None:
        if device != COORDINATOR and not 0 <= device < self.workers:
            raise BlockError(f"there is no device {device}")

    def _name(self, value: int) -> str:
        return self.network.values[value].name


def _check_sums(network: Network, plan: Plan) -> None:
    """Check each layer that is cut by its input channels: parts are disjoint and complete, each added once."""
    lasts = [index for index, node in enumerate(network.nodes) if _is_addition(node) and _is_last(node)]
    if len(lasts) != len(plan.sums):
        raise PlanError(f"{len(plan.sums)} layers are cut by input channels, and {len(lasts)} are summed")
    for last in lasts:
        parts, waiting = list[Node](), [last]
        while waiting:
            node = network.nodes[waiting.pop()]
            if _is_addition(node):
                waiting += [network.writer[value] for value in node.inputs]
            else:
                parts.append(node)
        read = {value for part in parts for value in part.inputs}
        if len(read) != 1 or any(part.stage is None or part.stage.kind is not StageKind.CONV_SUMS for part in parts):
            raise PlanError(f"{network.nodes[last].name} adds what are no parts of one layer")
        ranges = sorted(parameters_of(part.stage, PartOf).channels for part in parts if part.stage is not None)
        bounds = [0, *(high for _, high in ranges)]
        exact = all(low == before for before, (low, _) in zip(bounds, ranges, strict=False))
        if not exact or bounds[-1] != network.shape(read.pop())[2]:
            raise PlanError(f"the parts that {network.nodes[last].name} adds overlap or leave channels out")


def _is_addition(node: Node) -> bool:
    return node.stage is not None and node.stage.kind is StageKind.ADD_SUMS


def _is_last(node: Node) -> bool:
    return node.stage is not None and node.stage.requantization is not None
