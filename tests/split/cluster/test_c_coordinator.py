"""The coordinator in C as a process, and workers in C and in Python over TCP and serial lines."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.split.cluster import cases
from tests.split.cluster.test_c_worker import processes
from tests.split.cluster.test_serial import QUIET, lines
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Int8Array
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.library.worker import HostWorker
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.link.messages import Fault
from tflite_fuse.split.fragments.encode import decode
from tflite_fuse.split.fragments.structs import StepKind

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
Process = subprocess.Popen[bytes]


@contextmanager
def running(
    program: Path, found: Deployment, addresses: Mapping[int, str], folder: Path, milliseconds: int = 20_000
) -> Iterator[Process]:
    (folder / "coordinator.fragment").write_bytes(found.fragments.coordinator)
    dials = ",".join(f"{a}-{b}" for a, b in found.dials) or "-"
    places = [f"{device}={address}" for device, address in addresses.items()]
    call = [str(program), str(folder / "coordinator.fragment"), str(milliseconds), dials, *places]
    process = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def infer(process: Process, inputs: Sequence[Int8Array]) -> str:
    """What it says of one inference."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"".join(each.tobytes() for each in inputs))
    process.stdin.flush()
    return process.stdout.readline().decode().strip()


def right(outputs: Sequence[Int8Array]) -> str:
    return "0 " + b"".join(each.tobytes() for each in outputs).hex()


def failed(found: str) -> tuple[int, int]:
    fault, worker, *_ = found.split()
    return int(fault), int(worker)


@pytest.mark.parametrize(("workers", "direct"), [(3, True), (3, False)])
def test_gives_the_bytes_of_tflm(program: Path, coordinator: Path, tmp_path: Path, workers: int, direct: bool) -> None:
    found = cases.deployment(workers, direct, "auto" if direct else "paper", tail=False)
    with processes(program, found, tmp_path) as (contacts, _):
        addresses = {device: contact.address for device, contact in contacts.items()}
        with running(coordinator, found, addresses, tmp_path) as process:
            for inputs, expected in cases.samples(tail=False):
                assert infer(process, inputs) == right(expected)


def test_workers_on_serial_lines_and_over_tcp_serve_one_coordinator(
    program: Path, coordinator: Path, tmp_path: Path
) -> None:
    found = cases.deployment(2, False, "paper", tail=False)
    with processes(program, found, tmp_path) as (contacts, _), lines(program, found, tmp_path, QUIET) as (wires, _):
        addresses = {0: wires[0].left, 1: contacts[1].address}
        with running(coordinator, found, addresses, tmp_path) as process:
            for inputs, expected in cases.samples(tail=False):
                assert infer(process, inputs) == right(expected)


def test_workers_in_python_send_no_steps(coordinator: Path, tmp_path: Path) -> None:
    found = cases.deployment(tail=False)

    async def run() -> None:
        _, contacts = await cases.start(found)
        addresses = {device: contact.address for device, contact in contacts.items()}
        with running(coordinator, found, addresses, tmp_path) as process:
            for inputs, expected in cases.samples(tail=False):
                assert await asyncio.to_thread(infer, process, inputs) == right(expected)

    asyncio.run(run())


def test_a_worker_that_is_killed_is_named_and_found_again(program: Path, coordinator: Path, tmp_path: Path) -> None:
    found = cases.deployment(tail=False)
    inputs, expected = cases.samples(tail=False)[0]
    with processes(program, found, tmp_path) as (contacts, started):
        addresses = {device: contact.address for device, contact in contacts.items()}
        with running(coordinator, found, addresses, tmp_path) as process:
            assert infer(process, inputs) == right(expected)
            started[1].kill()
            started[1].wait()
            assert failed(infer(process, inputs)) == (Fault.LOST, 1)
            call = [str(program), str(tmp_path / "1.fragment"), addresses[1]]
            with subprocess.Popen(call, stdout=subprocess.PIPE) as again:
                assert again.stdout is not None and again.stdout.readline()
                assert infer(process, inputs) == right(expected)
                again.kill()


def test_a_silent_worker_is_late_and_one_with_another_plan_is_named(
    program: Path, coordinator: Path, tmp_path: Path
) -> None:
    found, other = cases.deployment(tail=False), cases.deployment(3, False, "paper", tail=False)
    inputs = cases.samples(tail=False)[0][0]
    (tmp_path / "other").mkdir()
    with (
        processes(program, found, tmp_path) as (contacts, _),
        processes(program, other, tmp_path / "other") as (strangers, _),
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        addresses = {device: contact.address for device, contact in contacts.items()}
        last = max(addresses)
        with running(coordinator, found, {**addresses, last: strangers[last].address}, tmp_path) as process:
            found_fault = infer(process, inputs)
            assert failed(found_fault) == (Fault.PLAN, last) and found_fault.endswith("has another plan")
        with running(coordinator, found, {**addresses, 0: f"127.0.0.1:{silent.getsockname()[1]}"}, tmp_path) as process:
            assert failed(infer(process, inputs)) == (Fault.LATE, 0)


def test_a_worker_that_stalls_in_the_middle_is_late(program: Path, coordinator: Path, tmp_path: Path) -> None:
    found = cases.deployment(2, False, "paper", tail=False)
    inputs, expected = cases.samples(tail=False)[0]
    with processes(program, found, tmp_path) as (contacts, started):
        addresses = {device: contact.address for device, contact in contacts.items()}
        with running(coordinator, found, addresses, tmp_path, milliseconds=3000) as process:
            assert infer(process, inputs) == right(expected)
            started[0].send_signal(signal.SIGSTOP)
            assert failed(infer(process, inputs)) == (Fault.LATE, 0)
            started[0].send_signal(signal.SIGCONT)
            assert infer(process, inputs) == right(expected)


def test_an_operator_that_only_python_runs_is_named_by_its_number(coordinator: Path, tmp_path: Path) -> None:
    found = cases.deployment()
    (operator,) = (step.number for step in decode(found.fragments.coordinator).steps if step.kind == StepKind.OPERATOR)
    with pytest.raises(BlockError, match=f"only a coordinator in Python runs: operator {operator} of the model"):
        HostWorker(found.fragments.coordinator)
    (tmp_path / "fragment").write_bytes(found.fragments.coordinator)
    done = subprocess.run([coordinator, tmp_path / "fragment", "9", "-", "0=x:1"], capture_output=True, text=True)
    assert done.returncode == 2 and f"operator {operator} " in done.stderr
