"""Fragments run: the right bytes, the order of events, and refusals."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from scripts.zoo import ModelBuilder
from tests.split.fragments.cases import fragments, large_end, planned, without_operators
from tests.split.networks import branching_model, network
from tflite_fuse.errors import BlockError, PlanError
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.runtime.library.worker import EventKind, HostWorker
from tflite_fuse.split.cut.network import network_of
from tflite_fuse.split.fragments.encode import decode
from tflite_fuse.split.fragments.machine import Machine, WholeOperators, operators_of
from tflite_fuse.split.verify import LocalDevices, verify_plan

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def operator_inside() -> Model:
    """An operator no block holds between convolutions, and read again behind them; at the end one that is never cut."""
    builder = ModelBuilder(5)
    x = builder.conv(builder.input((1, 8, 8, 3), name="input"), 4, 3, 1, "SAME", "RELU")
    x = builder.log_softmax(x)
    x = builder.add(builder.conv(x, 4, 3, 1, "SAME", "NONE"), x, "NONE")
    return builder.build([builder.softmax(x)])


MODELS: dict[str, Callable[[], Model]] = {
    "branches": branching_model,
    "a large end": large_end,
    "an operator inside": operator_inside,
}


@needs_tflm
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("strategy", ["paper", "time", "ram", "traffic"])
@pytest.mark.parametrize("name", MODELS)
def test_fragments_compute_the_bytes_of_tflm(name: str, strategy: str, workers: int) -> None:
    net = network_of(MODELS[name]())
    plan, accountant = planned(net, strategy, workers)
    found = verify_plan(accountant.network, plan, accountant, inputs=1)
    assert found.bit_exact, found.first_difference


@needs_tflm
def test_an_inference_that_is_dropped_leaves_nothing_behind() -> None:
    devices, model = LocalDevices(fragments(), operators_of(network())), branching_model()
    samples = generate_inputs(model, 3)
    wanted = [np.asarray(outputs[0]).tobytes() for outputs in tflm.run(serialize_model(model), samples).outputs]
    assert len(set(wanted)) > 1
    for sample, expected in zip(samples, wanted, strict=True):
        for worker in devices.workers:
            worker.begin()
            assert worker.next().kind == EventKind.RECEIVE
            worker.received(bytes(worker.next().nbytes))
        assert devices.outputs([np.asarray(each) for each in sample])[0].tobytes() == expected


def test_messages_between_two_are_counted_without_a_gap() -> None:
    devices = LocalDevices(fragments("time"), operators_of(network()))
    devices.outputs([np.zeros(end.bytes, np.int8) for end in devices.coordinator.fragment.inputs])
    pairs = {(source, target) for source, target, _, _ in devices.order}
    for pair in pairs:
        numbers = [number for source, target, number, _ in devices.order if (source, target) == pair]
        assert numbers == list(range(len(numbers)))


def end_of(device: HostWorker, kind: str, number: int) -> tuple[int | None, int]:
    """Address and bytes of an input or output of a coordinator's fragment in C; no address if there is none."""
    place, size = getattr(device._library, f"tflite_fuse_worker_{kind}"), ctypes.c_uint32()
    place.restype = ctypes.c_void_p
    return place(ctypes.byref(device._worker), ctypes.c_uint32(number), ctypes.byref(size)), size.value


@needs_tflm
def test_a_coordinator_without_operators_runs_in_c_too() -> None:
    net, found = without_operators()
    sample = generate_inputs(net.model, 1)[0]
    wanted = tflm.run(serialize_model(net.model), [sample]).outputs[0][0]
    devices = [HostWorker(data) for data in (*found.workers, found.coordinator)]
    for device in devices:
        device.begin()
    place, size = end_of(devices[-1], "input", 0)
    assert place is not None and size == sample[0].nbytes
    ctypes.memmove(place, sample[0].tobytes(), size)
    while any(device.next().kind != EventKind.FINISHED for device in devices):
        for number, device in enumerate(devices):
            event = device.next()
            if event.kind == EventKind.COMPUTE:
                device.compute()
            elif event.kind == EventKind.SEND:
                peer = devices[event.peer].next()
                me = -1 if number == len(found.workers) else number
                if (peer.kind, peer.peer, peer.sequence) == (EventKind.RECEIVE, me, event.sequence):
                    devices[event.peer].received(device.payload())
                    device.sent()
    assert ctypes.string_at(*end_of(devices[-1], "output", 0)) == np.asarray(wanted).tobytes()
    assert end_of(devices[-1], "output", 1)[0] is None


def test_a_worker_runs_only_the_next_step() -> None:
    worker = HostWorker(fragments().workers[0])
    assert worker.next().kind == EventKind.FINISHED
    worker.begin()
    event = worker.next()
    assert (event.kind, event.peer, event.sequence) == (EventKind.RECEIVE, -1, 0)
    for call in (worker.payload, worker.sent, worker.compute):
        with pytest.raises(BlockError, match="does not match the worker's next step"):
            call()
    with pytest.raises(BlockError, match="differs from the plan"):
        worker.received(bytes(event.nbytes + 1))
    assert worker.next() == event
    assert end_of(worker, "output", 0)[0] is None


def test_a_coordinator_is_given_all_inputs_and_its_operators() -> None:
    machine = Machine(decode(fragments().coordinator), WholeOperators({}))
    with pytest.raises(PlanError, match="inputs of"):
        machine.begin([])
    machine.begin([np.zeros(end.bytes, np.int8) for end in machine.fragment.inputs])
    while (event := machine.next()).kind is not EventKind.COMPUTE:
        if event.kind is EventKind.SEND:
            machine.sent()
        else:
            machine.received(bytes(event.nbytes))
    with pytest.raises(PlanError, match="which does not have it"):
        machine.compute()
