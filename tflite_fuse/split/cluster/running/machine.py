"""What a device does, one event after the other: send, receive, compute. A machine knows no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np

from tflite_fuse.fusion.block.stages import Int8Array
from tflite_fuse.split.cluster.devices import COORDINATOR, PAYLOAD_BYTES
from tflite_fuse.split.costs.needs import Accountant
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Plan, Task, Transfer
from tflite_fuse.split.cut.regions import whole
from tflite_fuse.split.verify.against_tflm import LibraryRun, WholeOperators
from tflite_fuse.split.verify.execute import DeviceMemory


class Action(IntEnum):
    """Numbers as in ``tflite_fuse_event_kind``."""

    SEND = 1
    RECEIVE = 2
    COMPUTE = 3
    FINISHED = 4


@dataclass(frozen=True)
class Event:
    """What comes next, as ``tflite_fuse_event``.

    Attributes:
        kind: what.
        peer: SEND, RECEIVE: the other device.
        nbytes: SEND, RECEIVE: of the payload.
        sequence: SEND, RECEIVE: number among the messages from sender to receiver in one inference.
        step: for people.
    """

    kind: Action
    peer: int = COORDINATOR
    nbytes: int = 0
    sequence: int = 0
    step: int = 0


class Machine(Protocol):
    """A device of a plan. ``begin`` drops what is under way."""

    def begin(self) -> None: ...

    def next(self) -> Event: ...

    def payload(self) -> bytes: ...

    def sent(self) -> None: ...

    def received(self, payload: bytes) -> None: ...

    def compute(self) -> None: ...


class PlanMachine:
    """A device of a plan by the package's own execution of plans."""

    def __init__(self, network: Network, plan: Plan, device: int, accountant: Accountant) -> None:
        self.network, self.plan, self.device = network, plan, device
        self._run = _DeviceRun(network, plan, accountant, WholeOperators(network).run)
        self._steps = tuple(_steps(plan, device))
        self.begin()

    def begin(self) -> None:
        self._memory = self._run.fresh(self.device)
        self._step = self._done = 0
        self._counts: dict[tuple[Action, int], int] = {}
        self._open = bytearray()

    def set_inputs(self, inputs: Sequence[Int8Array]) -> None:
        """Of the coordinator, behind ``begin``: bytes of each input."""
        for value, array in zip(self.network.inputs, inputs, strict=True):
            shape = self.network.shape(value)
            self._memory.store(value, whole(shape), array.reshape(shape))

    def outputs(self) -> list[Int8Array]:
        """Of the coordinator at the end: bytes of each output."""
        shapes = [(value, whole(self.network.shape(value))) for value in self.network.outputs]
        return [self._memory.load(value, box).ravel() for value, box in shapes]

    def next(self) -> Event:
        if self._step == len(self._steps):
            return Event(Action.FINISHED, step=self._step)
        what = self._steps[self._step]
        if isinstance(what, Task):
            return Event(Action.COMPUTE, step=self._step)
        kind, peer = self._direction(what)
        size = min(PAYLOAD_BYTES, what.nbytes - self._done)
        return Event(kind, peer, size, self._counts.get((kind, peer), 0), self._step)

    def payload(self) -> bytes:
        what = self._transfer()
        if not self._done:
            self._open = bytearray(b"".join(self._memory.load(what.value, box).tobytes() for box in what.region))
        return bytes(self._open[self._done : self._done + PAYLOAD_BYTES])

    def sent(self) -> None:
        self._moved(self.next().nbytes)

    def received(self, payload: bytes) -> None:
        what = self._transfer()
        self._open = self._open + payload if self._done else bytearray(payload)
        if len(self._open) == what.nbytes:
            start, data = 0, np.frombuffer(bytes(self._open), np.int8)
            for box in what.region:
                self._memory.store(what.value, box, data[start : start + box.volume].reshape(box.shape))
                start += box.volume
        self._moved(len(payload))

    def compute(self) -> None:
        what = self._steps[self._step]
        assert isinstance(what, Task)
        self._run.compute(what)
        self._step += 1

    def _direction(self, what: Transfer) -> tuple[Action, int]:
        return (Action.SEND, what.target) if what.source == self.device else (Action.RECEIVE, what.source)

    def _transfer(self) -> Transfer:
        what = self._steps[self._step]
        assert isinstance(what, Transfer)
        return what

    def _moved(self, size: int) -> None:
        what, key = self._transfer(), self._direction(self._transfer())
        self._counts[key] = self._counts.get(key, 0) + 1
        self._done += size
        if self._done == what.nbytes:
            self._step, self._done = self._step + 1, 0


def _steps(plan: Plan, device: int) -> Iterator[Transfer | Task]:
    for phase in plan.phases:
        yield from (each for each in phase.transfers if device in (each.source, each.target))
        yield from (task for task in phase.tasks if task.worker == device)
        yield from (each for each in phase.returned if device in (each.source, each.target))


class _DeviceRun(LibraryRun):
    """Of one device."""

    def fresh(self, device: int) -> DeviceMemory:
        self._memory = {device: DeviceMemory(self.network)}
        return self._memory[device]

    def compute(self, task: Task) -> None:
        self._compute(task)
