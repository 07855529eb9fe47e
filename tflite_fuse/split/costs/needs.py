"""What a plan needs of every worker: instructions, RAM and flash, from the blocks it really runs.

RAM is one buffer for all: whatever of a value a worker reads or writes in a task lies in one piece (the hull of the
boxes), from the phase it comes until the last phase that needs it; beside it the scratch of the block that runs, the
messages, and what our worker keeps. Places are not planned yet: this is the largest sum of what is alive at once,
rounded up to 16 bytes each, which a plan of places may exceed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tflite_fuse.fusion.instructions.counts import block_counts, expected_instructions
from tflite_fuse.fusion.instructions.targets import Target, instruction_costs
from tflite_fuse.split.cluster.devices import COORDINATOR, PAYLOAD_BYTES, Cluster
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.pieces import receptive_field
from tflite_fuse.split.cut.plan import Plan, Task, Transfer
from tflite_fuse.split.cut.regions import Box, Region, hull, union
from tflite_fuse.split.fragments.blocks import Part, Plans, task_parts
from tflite_fuse.units import round_up

HEADER_BYTES = 32
"""Of a message: version, plan, inference, number, length, checksum."""

WORKER_BYTES = 2 * (PAYLOAD_BYTES + HEADER_BYTES) + 2048 + 512
"""RAM of the worker itself: a message that comes and one that goes, the stack, its state. An allowance, not measured:
there is no worker to measure yet. The board's network stack comes on top."""

LIBRARY_BYTES = 26 * 1024
"""Flash of the device library's code; the project's tests hold it to this."""


@dataclass(frozen=True)
class Needs:
    """Of one worker.

    Attributes:
        ram_bytes, flash_bytes: the worker's own allowance included.
        instructions: of one inference.
        largest: the phase whose memory is the most.
        by_phase: instructions of each of its tasks, by phase.
    """

    ram_bytes: int
    flash_bytes: int
    instructions: float
    largest: str
    by_phase: Mapping[int, float]


class Accountant:
    """Remembers the blocks of tasks: many workers of many plans run the same ones."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._plans: Plans = {}
        self._counts: dict[tuple[int, Target], float] = {}
        self._stored: dict[int, int] = {}
        self._parts: dict[tuple[object, ...], tuple[Part, ...]] = {}
        self._work: dict[tuple[tuple[object, ...], Target], float] = {}

    def parts(self, task: Task) -> tuple[Part, ...]:
        """Its blocks. Raises BlockError: a piece cannot be one."""
        key = _key(task)
        if key not in self._parts:
            self._parts[key] = task_parts(self.network, task, self._plans)
        return self._parts[key]

    def instructions(self, task: Task, target: Target) -> float:
        """What a task takes, operators that only run whole counted as nothing: their work is not known."""
        key = _key(task), target
        if key not in self._work:
            self._work[key] = sum(self._of_part(part, target) for part in self.parts(task))
        return self._work[key]

    def _of_part(self, part: Part, target: Target) -> float:
        key = id(part.plan), target
        if key not in self._counts:
            counts = block_counts(part.plan.block, part.plan.schedule, target.conv_at_once)
            self._counts[key] = expected_instructions(counts, instruction_costs(target))
        return self._counts[key]

    def _flash(self, part: Part) -> int:
        if id(part.plan) not in self._stored:
            self._stored[id(part.plan)] = part.flash_bytes
        return self._stored[id(part.plan)]

    def of_plan(self, plan: Plan, cluster: Cluster) -> tuple[Needs, ...]:
        """What each worker needs. Raises BlockError: a piece cannot be a block."""
        return tuple(self.of_worker(plan, cluster, worker) for worker in range(plan.workers))

    def inputs_of(self, task: Task) -> tuple[Transfer, ...]:
        """What a task needs, as if the coordinator sent it."""
        network, found = self.network, dict[int, Region]()
        written = {value for step in task.steps for value in network.nodes[step.node].outputs}
        for step in task.steps:
            for value, region in receptive_field(network, step.node, step.region).items():
                if value not in written:
                    found[value] = union(found.get(value, ()), region)
        return tuple(Transfer(value, COORDINATOR, task.worker, region) for value, region in found.items())

    def of_worker(self, plan: Plan, cluster: Cluster, worker: int) -> Needs:
        """What one worker needs. Raises BlockError: a piece cannot be a block."""
        memory = _Memory(self.network, plan, worker)
        flash, work, largest = 0, dict[int, float](), (0, "")
        stored = set[int]()
        for number, phase in enumerate(plan.phases):
            most = memory.resting(number)
            for task in (task for task in phase.tasks if task.worker == worker):
                parts = self.parts(task)
                work[number] = self.instructions(task, cluster.workers[worker].target)
                flash += sum(self._flash(part) for part in parts if id(part.plan) not in stored)
                stored.update(id(part.plan) for part in parts)
                most = max(most, memory.while_running(number, task, parts))
            largest = max(largest, (most, phase.name))
        busy = sum(work.values())
        return Needs(largest[0] + WORKER_BYTES, flash + LIBRARY_BYTES, busy, largest[1], work)


def _key(task: Task) -> tuple[object, ...]:
    kept = frozenset(value for value, _ in (*task.owned, *task.copies))
    return task.steps, kept


class _Memory:
    """From when to when a worker keeps what of each value."""

    def __init__(self, network: Network, plan: Plan, worker: int) -> None:
        self.network = network
        self._boxes: dict[int, list[Box]] = {}
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        for number, phase in enumerate(plan.phases):
            for each in (*phase.transfers, *phase.returned):
                if worker in (each.source, each.target):
                    self._note(each.value, number, each.region)
            for task in phase.tasks:
                if task.worker == worker:
                    self._note_task(task, number)

    def _note_task(self, task: Task, number: int) -> None:
        written = {value for step in task.steps for value in self.network.nodes[step.node].outputs}
        for step in task.steps:
            for value in self.network.nodes[step.node].inputs:
                if value not in written:
                    self._note(value, number, ())
        for value, region in (*task.owned, *task.copies):
            self._note(value, number, region)

    def _note(self, value: int, number: int, region: tuple[Box, ...]) -> None:
        self._boxes.setdefault(value, []).extend(region)
        self._first.setdefault(value, number)
        self._last[value] = number

    def _size(self, value: int) -> int:
        boxes = self._boxes[value]
        return round_up(hull(boxes).volume, 16) if boxes else 0

    def _alive(self, number: int) -> list[int]:
        return [value for value in self._first if self._first[value] <= number <= self._last[value]]

    def resting(self, number: int) -> int:
        """Bytes of all that is there in a phase."""
        return sum(map(self._size, self._alive(number)))

    def while_running(self, number: int, task: Task, parts: tuple[Part, ...]) -> int:
        """The most bytes alive while a task's blocks run one after another."""
        stored = set(self._alive(number))
        written = {value for value, _ in (*task.owned, *task.copies)}
        inner = {value: box for part in parts for value, box in part.outputs if value not in written}
        before = sum(self._size(value) for value in stored - written)
        most, made = 0, set[int]()
        for index, part in enumerate(parts):
            made |= {value for value, _ in part.outputs}
            needed = {value for later in parts[index:] for value, _ in later.inputs}
            live = sum(self._size(value) for value in made & written)
            live += sum(
                round_up(box.volume, 16)
                for value, box in inner.items()
                if value in made and (value in needed or value in {v for v, _ in part.outputs})
            )
            copies = sum(round_up(box.volume, 16) for value, box in part.inputs if not self._in_one_piece(value, box))
            most = max(most, before + live + copies + round_up(part.plan.schedule.scratch_bytes, 16))
        return most

    def _in_one_piece(self, value: int, box: Box) -> bool:
        """Whether a block can read a box where it lies: whole rows of what is held."""
        if not self._boxes.get(value):
            return True
        held = hull(self._boxes[value])
        rows_alone = box.columns == held.columns and box.channels == held.channels
        return rows_alone or box == held
