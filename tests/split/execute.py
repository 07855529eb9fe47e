"""Runs a plan on this machine in numpy: every device has its own memory, and values move only by transfers.

A device can read only what it received or computed, so a plan with a missing transfer fails. A value's memory begins as
junk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tflite_fuse.errors import PlanError
from tflite_fuse.ir.block import BlockTensor, ElementType, Int8Array
from tflite_fuse.runtime.reference import run_stage
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.pieces import Piece, pieces_of
from tflite_fuse.split.cut.plan import Plan, Task, Transfer
from tflite_fuse.split.cut.regions import Box, whole
from tflite_fuse.split.devices import COORDINATOR

RunWhole = Callable[[int, Sequence[Int8Array]], list[Int8Array]]
"""(node without stage, its inputs' bytes, flat) → its outputs, flat."""

_JUNK = 0x5A


def reference(piece: Piece, inputs: Sequence[Int8Array]) -> Int8Array:
    """Return a piece's output by the numpy reference of its kind."""
    arrays = [_inside(tensor, array) for tensor, array in zip(piece.tensors, inputs, strict=False)]
    operands = [(piece.tensors[index], array.astype(np.int64)) for index, array in enumerate(arrays)]
    return _inside(piece.tensors[-1], run_stage(piece.stage, operands, piece.tensors[-1]))


def _inside(tensor: BlockTensor, array: Int8Array) -> Int8Array:
    """Return a tensor's bytes as its stage reads them, or back: uint8 with 128 subtracted."""
    flipped: Int8Array = array ^ np.int8(-128) if tensor.element_type is ElementType.UINT8 else array
    return flipped


def no_whole_operators(node: int, inputs: Sequence[Int8Array]) -> list[Int8Array]:
    """Raise PlanError; for networks without operators that only run whole."""
    raise PlanError("the network has operators that only run whole, and nothing was given to run them")


class PlanRun:
    """One inference of a plan."""

    def __init__(self, network: Network, plan: Plan, operator: RunWhole = no_whole_operators) -> None:
        self.network, self.plan, self._operator = network, plan, operator
        self._memory: dict[int, DeviceMemory] = {}

    def outputs(self, inputs: Sequence[Int8Array]) -> list[Int8Array]:
        """Return the model's outputs as bytes, flat.

        Args:
            inputs: one int8 array per input of the network, of any shape with as many bytes.

        Raises:
            PlanError: a device reads values that it does not hold.
        """
        devices = (COORDINATOR, *range(self.plan.workers))
        self._memory = {device: DeviceMemory(self.network) for device in devices}
        for value, array in zip(self.network.inputs, inputs, strict=True):
            shape = self.network.shape(value)
            self._memory[COORDINATOR].store(value, whole(shape), array.reshape(shape))
        for phase in self.plan.phases:
            self._move(phase.transfers)
            for task in phase.tasks:
                self._compute(task)
            self._move(phase.returned)
        end = self._memory[COORDINATOR]
        return [end.load(value, self.network.box(value)).ravel() for value in self.network.outputs]

    def _move(self, transfers: Iterable[Transfer]) -> None:
        for each in transfers:
            for box in each.region:
                self._memory[each.target].store(each.value, box, self._memory[each.source].load(each.value, box))

    def _compute(self, task: Task) -> None:
        memory = self._memory[task.worker]
        own = DeviceMemory(self.network, memory)
        self._run_task(task, own)
        for value, region in task.owned:
            for box in region:
                memory.store(value, box, own.load(value, box))

    def _run_task(self, task: Task, memory: DeviceMemory) -> None:
        """Compute all steps of a task, stage by stage."""
        for step in task.steps:
            if self.network.nodes[step.node].stage is None:
                self._run_whole(step.node, memory)
                continue
            for piece in pieces_of(self.network, step.node, step.region):
                arrays = [memory.load(value, box) for value, box in piece.reads]
                memory.store(*piece.writes, reference(piece, arrays))

    def _run_whole(self, node: int, memory: DeviceMemory) -> None:
        arrays = [self._all(memory, value).ravel() for value in self.network.nodes[node].inputs]
        for value, array in zip(self.network.nodes[node].outputs, self._operator(node, arrays), strict=True):
            shape = self.network.shape(value)
            memory.store(value, whole(shape), array.reshape(shape))

    def _all(self, memory: DeviceMemory, value: int) -> Int8Array:
        return memory.load(value, self.network.box(value))


class DeviceMemory:
    """Values that one device holds, or one task in addition to its device."""

    def __init__(self, network: Network, below: DeviceMemory | None = None) -> None:
        self._network, self._below = network, below
        self._values: dict[int, tuple[Int8Array, np.typing.NDArray[np.bool_]]] = {}

    def store(self, value: int, box: Box, array: Int8Array) -> None:
        if value not in self._values:
            shape = self._network.shape(value)
            self._values[value] = np.full(shape, _JUNK, np.int8), np.zeros(shape, np.bool_)
            if self._below is not None and value in self._below._values:
                values, known = self._below._values[value]
                self._values[value] = values.copy(), known.copy()
        values, known = self._values[value]
        values[_slices(box)] = array
        known[_slices(box)] = True

    def load(self, value: int, box: Box) -> Int8Array:
        if value not in self._values:
            if self._below is None:
                raise PlanError(f"{self._network.values[value].name} is read by a device that holds nothing of it")
            return self._below.load(value, box)
        values, known = self._values[value]
        if not known[_slices(box)].all():
            raise PlanError(f"a part of {self._network.values[value].name} is read by a device that does not hold it")
        return values[_slices(box)].copy()


def _slices(box: Box) -> tuple[slice, slice, slice]:
    return slice(*box.rows), slice(*box.columns), slice(*box.channels)
