"""What a plan needs of every worker: instructions, RAM and flash, from the program it really runs.

RAM is one buffer for all, in which everything has its place (``memory``), beside it the messages and what our worker
keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tflite_fuse.cost.instructions import Target, block_counts, expected_instructions, instruction_costs
from tflite_fuse.ops.weighted.sums import OF_SUMS
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Plan, Summed, Task
from tflite_fuse.split.cut.sums import extended
from tflite_fuse.split.devices import Cluster
from tflite_fuse.split.fragments.blocks import Part, Plans, task_parts
from tflite_fuse.split.fragments.buffer import DeviceBuffer
from tflite_fuse.split.fragments.encode import fragment_bytes
from tflite_fuse.split.fragments.program import device_program, parts_of
from tflite_fuse.split.protocol import HEADER_BYTES, PAYLOAD_BYTES, TAG_BYTES

STACK_BYTES = 2560
"""Of the device library's worker with its link, whatever they do: the tests measure it on an emulated Cortex-M7."""

STATE_BYTES = 512
"""What a worker remembers between two calls, its link and a serial line's packets of 48 bytes included."""

WORKER_BYTES = PAYLOAD_BYTES + HEADER_BYTES + TAG_BYTES + STACK_BYTES + STATE_BYTES
"""RAM of the worker itself: a message, which comes or goes, stack and state. What the board's network takes comes on
top."""

LIBRARY_BYTES = 46 * 1024
"""Flash of the library with worker, link and serial line; a test holds it there. The board's own code comes on top."""

SUMS_BYTES = 896
"""Flash of the kernels that only workers have whose layers are cut by input channels."""


@dataclass(frozen=True)
class Needs:
    """Of one worker.

    Attributes:
        ram_bytes, flash_bytes: the worker's own allowance included.
        instructions: of one inference.
        largest: the phase whose memory is the most.
        by_phase: instructions of each of its tasks, by phase.
        live_by_phase: most bytes of values, copies and scratch at once in each phase, nothing lying over anything.
    """

    ram_bytes: int
    flash_bytes: int
    instructions: float
    largest: str
    by_phase: Mapping[int, float]
    live_by_phase: tuple[int, ...]


class Accountant:
    """Remembers the blocks of tasks: many workers of many plans run the same ones."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._plans: Plans = {}
        self._counts: dict[tuple[int, Target], float] = {}
        self._parts: dict[tuple[object, ...], tuple[Part, ...]] = {}
        self._work: dict[tuple[tuple[object, ...], Target], float] = {}
        self._larger: dict[tuple[Summed, ...], Accountant] = {(): self}

    def over(self, sums: tuple[Summed, ...]) -> Accountant:
        """Of the network with layers cut by their input channels, as a plan says."""
        if sums not in self._larger:
            self._larger[sums] = Accountant(extended(self.network, sums).network)
        return self._larger[sums]

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
            self._work[key] = sum(self.part_instructions(part, target) for part in self.parts(task))
        return self._work[key]

    def part_instructions(self, part: Part, target: Target) -> float:
        """What one block takes."""
        key = id(part.plan), target
        if key not in self._counts:
            counts = block_counts(part.plan.block, part.plan.schedule, target.kernels)
            self._counts[key] = expected_instructions(counts, instruction_costs(target))
        return self._counts[key]

    def of_plan(self, plan: Plan, cluster: Cluster) -> tuple[Needs, ...]:
        """What each worker needs. Raises BlockError: a piece cannot be a block."""
        return tuple(self.of_worker(plan, cluster, worker) for worker in range(plan.workers))

    def ram_of(self, plan: Plan, worker: int) -> int:
        """The RAM of ``of_worker``, in a fraction of the time."""
        return DeviceBuffer(self.network, plan, worker, self.parts).placed().height + WORKER_BYTES

    def of_worker(self, plan: Plan, cluster: Cluster, worker: int) -> Needs:
        """What one worker needs. Raises BlockError: a piece cannot be a block."""
        memory = DeviceBuffer(self.network, plan, worker, self.parts)
        program = device_program(memory)
        work = {
            number: self.instructions(task, cluster.workers[worker].target)
            for number, phase in enumerate(plan.phases)
            for task in phase.tasks
            if task.worker == worker
        }
        ram, flash = program.buffer_bytes + WORKER_BYTES, fragment_bytes(program) + LIBRARY_BYTES
        if any(stage.kind in OF_SUMS for part in parts_of(program) for stage in part.plan.block.stages):
            flash += SUMS_BYTES
        return Needs(ram, flash, sum(work.values()), memory.fullest, work, memory.live_by_phase())


def _key(task: Task) -> tuple[object, ...]:
    kept = frozenset(value for value, _ in (*task.owned, *task.copies))
    return task.steps, kept, task.thrift
