"""All devices of a split in this process: workers in C, the coordinator in Python, messages passed in memory."""

from __future__ import annotations

from collections.abc import Sequence

from tflite_fuse.errors import PlanError
from tflite_fuse.ir.block import Int8Array
from tflite_fuse.runtime.library import worker as library
from tflite_fuse.runtime.library.worker import HostWorker
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.fragments.decode import decode
from tflite_fuse.split.fragments.encode import Fragments
from tflite_fuse.split.fragments.machine import EventKind, Machine, Operators


class LocalDevices:
    """Devices that run their fragments, each with its own buffer that begins as junk."""

    def __init__(self, fragments: Fragments, operators: Operators | None = None) -> None:
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
        """Let every device compute, then pass the messages that both ends are ready for; return False when all is
        done."""
        devices = (COORDINATOR, *range(len(self.workers)))
        sending: dict[tuple[int, int], tuple[int, int]] = {}
        receiving: dict[tuple[int, int], tuple[int, int]] = {}
        waiting = False
        for device in devices:
            kind, peer, message = self._until_message(device)
            waiting |= kind != library.FINISHED
            if kind == library.SEND:
                sending[device, peer] = message
            elif kind == library.RECEIVE:
                receiving[peer, device] = message
        met = sending.keys() & receiving.keys()
        if waiting and not met:
            raise PlanError(f"the devices wait for each other: {sorted(sending)} send, {sorted(receiving)} receive")
        for source, target in sorted(met):
            if sending[source, target] != receiving[source, target]:
                raise PlanError(f"device {source} sends another message than device {target} awaits")
            self._hand_over(source, target)
            self.order.append((source, target, *sending[source, target]))
        return waiting

    def _until_message(self, device: int) -> tuple[int, int, tuple[int, int]]:
        """Return kind, peer, sequence and bytes of a device's next message, after it has computed."""
        if device == COORDINATOR:
            while (event := self.coordinator.next()).kind is EventKind.COMPUTE:
                self.coordinator.compute()
            return event.kind.value, event.peer, (event.sequence, event.nbytes)
        worker = self.workers[device]
        while (found := worker.next()).kind == library.COMPUTE:
            worker.compute()
        return found.kind, found.peer, (found.sequence, found.nbytes)

    def _hand_over(self, source: int, target: int) -> None:
        sender, receiver = self._device(source), self._device(target)
        receiver.received(sender.payload())
        sender.sent()

    def _device(self, number: int) -> HostWorker | Machine:
        return self.coordinator if number == COORDINATOR else self.workers[number]
