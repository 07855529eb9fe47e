"""Compares a split with the whole model in TFLM: workers run in C and the coordinator in Python, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.errors import PlanError
from tflite_fuse.ir.block import Int8Array
from tflite_fuse.model.file import serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.runtime.library import worker as library
from tflite_fuse.runtime.library.worker import HostWorker
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Plan
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.fragments.decode import decode
from tflite_fuse.split.fragments.encode import Fragments, encode_plan
from tflite_fuse.split.fragments.machine import EventKind, Machine, Operators
from tflite_fuse.split.fragments.operators import operators_of
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.verify.validate import check_plan

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
    devices = LocalDevices(encode_plan(network, plan, accountant.parts), operators_of(network))
    difference = None
    for index, (arrays, wanted) in enumerate(zip(samples, expected, strict=True)):
        given = [np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8) for array in arrays]
        difference = difference or _difference(network, devices.outputs(given), wanted, f"input {index}")
        if progress is not None:
            progress(index + 1, len(samples))
    version = tflm.runtime_version() or "unknown"
    return Verified(tflm.RUNTIME_NAME, version, len(samples), (_WITNESS,), difference)


def _difference(network: Network, found: Sequence[Int8Array], wanted: Sequence[object], where: str) -> str | None:
    for value, ours, theirs in zip(network.outputs, found, wanted, strict=True):
        other = np.frombuffer(np.ascontiguousarray(theirs).tobytes(), np.int8)
        different = np.flatnonzero(ours != other)
        if len(different):
            first = int(different[0])
            name = network.values[value].name
            return (
                f"byte {first} of output {name} is {ours[first]} instead of {other[first]} "
                f"({len(different)} bytes differ) for {where}"
            )
    return None


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
