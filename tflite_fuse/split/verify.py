"""Checks a plan without running it, and compares a split with the whole model in TFLM.

Workers run in C and the coordinator in Python, in this process. The check follows every element independently of the
search: a transfer carries only elements that its source holds, a task reads only elements that its worker holds or has
just computed, every stored or transferred element has exactly one declared owner, a layer cut by its input channels is
one exact set of partial sums whose ranges are disjoint and complete, and the coordinator has all outputs in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.errors import BlockError, PlanError
from tflite_fuse.ir.block import Int8Array, StageKind
from tflite_fuse.model.file import serialize_model
from tflite_fuse.ops.entry import parameters_of
from tflite_fuse.ops.weighted.sums import PartOf
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.comparison import first_difference
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.runtime.library.worker import Event, EventKind, HostWorker
from tflite_fuse.runtime.processes.worker import Array
from tflite_fuse.split.cut.network import Network, Node
from tflite_fuse.split.cut.pieces import receptive_field
from tflite_fuse.split.cut.plan import Plan, Task, Transfer
from tflite_fuse.split.cut.regions import Region, intersect, subtract, union
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.fragments.encode import Fragments, decode, encode_plan
from tflite_fuse.split.fragments.machine import Machine, WholeOperators, operators_of
from tflite_fuse.split.needs import Accountant


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
        everything = {value: network.region(value) for value in network.inputs}
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
        results = []
        for task in tasks:
            self._device(task.worker)
            for node in (self.network.nodes[step.node] for step in task.steps):
                if node.stage is not None and task.worker == COORDINATOR:
                    raise BlockError(f"the coordinator is to compute {node.name}, which is for workers")
                if node.stage is None and task.worker != COORDINATOR:
                    raise BlockError(f"worker {task.worker} is to run {node.name}, which no block holds")
            results.append(self._run(task))
        for task, computed in zip(tasks, results, strict=True):
            for value, region in task.owned:
                if intersect(self.owned.get(value, ()), region):
                    raise BlockError(f"parts of {self._name(value)} have two producers")
                self.owned[value] = union(self.owned.get(value, ()), region)
                if subtract(region, computed.get(value, ())):
                    raise BlockError(f"worker {task.worker} declares parts of {self._name(value)} it does not compute")
                self._give(task.worker, value, region)

    def finish(self) -> None:
        for value in self.network.outputs:
            if subtract(self.network.region(value), self._held(COORDINATOR, value)):
                raise PlanError(f"parts of the output {self._name(value)} never reach the coordinator")

    def _run(self, task: Task) -> dict[int, Region]:
        computed: dict[int, Region] = {}
        for step in task.steps:
            node = self.network.nodes[step.node]
            for value, needed in receptive_field(self.network, step.node, step.region).items():
                if subtract(subtract(needed, self._held(task.worker, value)), computed.get(value, ())):
                    raise BlockError(f"worker {task.worker} lacks parts of {self._name(value)} for {node.name}")
            for value in node.outputs:
                region = step.region if node.stage else self.network.region(value)
                self._inside(value, region)
                computed[value] = union(computed.get(value, ()), region)
        return computed

    def _inside(self, value: int, region: Region) -> None:
        if subtract(region, self.network.region(value)):
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


_WITNESS = "the device library's worker"


@dataclass(frozen=True)
class Verified:
    """Results of the comparison.

    Attributes:
        runtime, version: of the whole model's run.
        inputs: number of inferences.
        witnesses: implementations that ran the plan.
        first_difference: None exactly if all bytes of all outputs are equal.
    """

    runtime: str
    version: str
    inputs: int
    witnesses: tuple[str, ...]
    first_difference: str | None

    @property
    def bit_exact(self) -> bool:
        return self.first_difference is None


def verify_plan(
    network: Network,
    plan: Plan,
    accountant: Accountant,
    *,
    inputs: int = 4,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Verified:
    """Check the plan's declarations, run it on generated inputs and compare with TFLM, byte by byte.

    Every worker's fragment runs in the device library's worker, compiled for this machine; messages are passed within
    this process.

    Raises:
        BlockError: a worker refuses its fragment (a defect of this package).
        PlanError: the plan contradicts itself or the network.
        RuntimeUnavailableError: TFLM or a C compiler is not installed.
        ModelError: TFLM refuses the model.
    """
    check_plan(network, plan)
    samples = generate_inputs(network.model, inputs, seed)
    expected = tflm.run(serialize_model(network.model), samples).outputs
    names = [network.values[value].name for value in network.outputs]
    devices = LocalDevices(encode_plan(network, plan, accountant.parts), operators_of(network))
    difference = None
    for index, (arrays, references) in enumerate(zip(samples, expected, strict=True)):
        pair = devices.outputs(list(map(_flat, arrays))), list(map(_flat, references))
        difference = difference or first_difference(pair, names, index, False, len(names))
        if progress is not None:
            progress(index + 1, len(samples))
    version = tflm.runtime_version() or "unknown"
    words = None if difference is None else str(difference)
    return Verified(tflm.RUNTIME_NAME, version, len(samples), (_WITNESS,), words)


def _flat(array: Array) -> Int8Array:
    """Return an array's bytes."""
    return np.frombuffer(array.tobytes(), np.int8)


class LocalDevices:
    """Devices that run their fragments, each with its own buffer that begins as junk."""

    def __init__(self, fragments: Fragments, operators: WholeOperators) -> None:
        self.workers = [HostWorker(fragment) for fragment in fragments.workers]
        self.coordinator = Machine(decode(fragments.coordinator), operators)
        self.order: list[tuple[int, int, int, int]] = []

    def outputs(self, inputs: Sequence[Int8Array]) -> list[Int8Array]:
        """Return the model's outputs as bytes, flat; ``order`` then lists (sender, receiver, sequence, bytes).

        Raises:
            PlanError: a deadlock: the fragments do not fit each other.
        """
        self.order = []
        self.coordinator.begin([each.ravel() for each in inputs])
        for worker in self.workers:
            worker.begin()
        while self._go_on():
            pass
        return self.coordinator.outputs()

    def _go_on(self) -> bool:
        """Let every device compute, then pass messages that both ends are ready for; return False when all is done."""
        devices = (COORDINATOR, *range(len(self.workers)))
        sending: dict[tuple[int, int], tuple[int, int]] = {}
        receiving: dict[tuple[int, int], tuple[int, int]] = {}
        waiting = False
        for device in devices:
            event = self._until_message(device)
            waiting |= event.kind is not EventKind.FINISHED
            if event.kind is EventKind.SEND:
                sending[device, event.peer] = event.sequence, event.nbytes
            elif event.kind is EventKind.RECEIVE:
                receiving[event.peer, device] = event.sequence, event.nbytes
        met = sending.keys() & receiving.keys()
        if waiting and not met:
            raise PlanError(f"the devices wait for each other: {sorted(sending)} send, {sorted(receiving)} receive")
        for source, target in sorted(met):
            if sending[source, target] != receiving[source, target]:
                raise PlanError(f"device {source} sends another message than device {target} awaits")
            self._hand_over(source, target)
            self.order.append((source, target, *sending[source, target]))
        return waiting

    def _until_message(self, device: int) -> Event:
        """Return a device's next message, or its end, after it has computed."""
        machine = self._device(device)
        while (event := machine.next()).kind is EventKind.COMPUTE:
            machine.compute()
        return event

    def _hand_over(self, source: int, target: int) -> None:
        sender, receiver = self._device(source), self._device(target)
        receiver.received(sender.payload())
        sender.sent()

    def _device(self, number: int) -> HostWorker | Machine:
        return self.coordinator if number == COORDINATOR else self.workers[number]
