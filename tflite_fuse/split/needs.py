"""Instructions, RAM and flash that a plan needs of every worker, from its actual program.

RAM is one buffer in which everything is placed (``memory``), the messages, and the state of our worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tflite_fuse.cost.instructions import Target, block_counts, expected_instructions, instruction_costs
from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Plan, Summed, Task
from tflite_fuse.split.cut.sums import extended, has_sums
from tflite_fuse.split.devices import Cluster
from tflite_fuse.split.fragments.blocks import Part, Plans, task_parts
from tflite_fuse.split.fragments.buffer import DeviceBuffer
from tflite_fuse.split.fragments.encode import encode
from tflite_fuse.split.fragments.program import DeviceProgram
from tflite_fuse.split.protocol import HEADER_BYTES, PAYLOAD_BYTES, TAG_BYTES

STACK_BYTES = 2816
"""Most stack bytes of the device library's worker with its link, measured by the tests on an emulated Cortex-M7."""

STATE_BYTES = 512
"""Bytes of a worker's state between two calls, including its link and a serial line's packets of 48 bytes."""

WORKER_BYTES = PAYLOAD_BYTES + HEADER_BYTES + TAG_BYTES + STACK_BYTES + STATE_BYTES
"""RAM of the worker itself: one message, stack and state, without the board's network."""

LIBRARY_BYTES = 46 * 1024
"""Most flash of the library with worker, link and serial line, checked by a test, without the board's own code."""

SUMS_BYTES = 896
"""Flash of the kernels for layers cut by input channels."""


@dataclass(frozen=True)
class Needs:
    """Resources that a plan needs of one worker.

    Attributes:
        ram_bytes, flash_bytes: including the worker's own.
        instructions: of one inference.
        largest: the phase with most memory.
        by_phase: instructions of each of its tasks, by phase.
        live_by_phase: most bytes of values, copies and scratch live at once in each phase, without overlaps.
    """

    ram_bytes: int
    flash_bytes: int
    instructions: float
    largest: str
    by_phase: Mapping[int, float]
    live_by_phase: tuple[int, ...]


class Accountant:
    """Computes resources of tasks; keeps their blocks, because many workers of many plans run the same ones."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._plans: Plans = {}
        self._parts: dict[tuple[object, ...], tuple[Part, ...]] = {}
        self.over, self._of_block = cache(self._over), cache(_block_instructions)

    def _over(self, sums: tuple[Summed, ...]) -> Accountant:
        """Return the accountant of the network with layers cut by input channels as a plan says."""
        return Accountant(extended(self.network, sums).network) if sums else self

    def parts(self, task: Task) -> tuple[Part, ...]:
        """Return a task's blocks. Raises BlockError if a piece cannot be one."""
        key = task.steps, frozenset(value for value, _ in task.owned), task.thrift
        if key not in self._parts:
            self._parts[key] = task_parts(self.network, task, self._plans)
        return self._parts[key]

    def instructions(self, task: Task, target: Target) -> float:
        """Return a task's instructions, without operators that only run whole, whose work is unknown."""
        return sum(self.part_instructions(part, target) for part in self.parts(task))

    def part_instructions(self, part: Part, target: Target) -> float:
        """Return the instructions of one block."""
        return self._of_block(part.plan, target)

    def of_plan(self, plan: Plan, cluster: Cluster) -> tuple[Needs, ...]:
        """Return the needs of each worker. Raises BlockError if a piece cannot be a block."""
        return tuple(self.of_worker(plan, cluster, worker) for worker in range(plan.workers))

    def ram_of(self, plan: Plan, worker: int) -> int:
        """Return the RAM bytes of ``of_worker``, in a fraction of the time."""
        return DeviceBuffer(self.network, plan, worker, self.parts).placed().height + WORKER_BYTES

    def of_worker(self, plan: Plan, cluster: Cluster, worker: int) -> Needs:
        """Return the needs of one worker. Raises BlockError if a piece cannot be a block."""
        memory = DeviceBuffer(self.network, plan, worker, self.parts)
        program = DeviceProgram(memory)
        tasks, target = plan.tasks_of(worker), cluster.workers[worker].target
        work = {number: self.instructions(task, target) for number, task in tasks.items()}
        ram, flash = program.buffer_bytes + WORKER_BYTES, len(encode(program)) + LIBRARY_BYTES
        if has_sums(self.network, tasks.values()):
            flash += SUMS_BYTES
        return Needs(ram, flash, sum(work.values()), memory.fullest, work, memory.live_by_phase())


def _block_instructions(plan: BlockPlan, target: Target) -> float:
    return expected_instructions(block_counts(plan.block, plan.schedule, target.kernels), instruction_costs(target))
