"""Workers in C on serial lines: pseudo terminals with a wire between them that can be noisy."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.split.cluster import cases
from tests.split.cluster.noise import Noise, Wire
from tests.split.cluster.test_running import same
from tflite_fuse.errors import ClusterError
from tflite_fuse.runtime import tflm
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.running.coordinator import Contact, ask_all

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
Process = subprocess.Popen[str]
QUIET = Noise()
LOUD = Noise(lost=0.0002, doubled=0.0002, changed=0.0002, made_up=0.0005)


def start(program: Path, fragment: Path, line: str) -> Process:
    process = subprocess.Popen([str(program), str(fragment), line], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "0\n"
    return process


@contextmanager
def lines(
    program: Path, found: Deployment, folder: Path, noise: Noise
) -> Iterator[tuple[dict[int, Wire], list[Process]]]:
    """A worker at the right end of a wire each."""
    with ExitStack() as stack:
        wires = {device: stack.enter_context(Wire(noise, device)) for device in found.taking_part}
        started = list[Process]()
        stack.callback(lambda: [(each.kill(), each.wait()) for each in started])
        for device, wire in wires.items():
            (folder / f"{device}.fragment").write_bytes(found.fragments.workers[device])
            started.append(start(program, folder / f"{device}.fragment", wire.right))
        yield wires, started


def contacts(wires: dict[int, Wire]) -> dict[int, Contact]:
    return {device: Contact(f"w{device}", wire.left) for device, wire in wires.items()}


def test_workers_on_serial_lines_give_the_bytes_of_tflm(program: Path, tmp_path: Path) -> None:
    found = cases.deployment(3, direct=False, strategy="paper")
    with lines(program, found, tmp_path, QUIET) as (wires, _):

        async def run() -> None:
            coordinator = cases.coordinator(found, contacts(wires))
            for inputs, expected in cases.samples():
                assert same(await coordinator.infer(inputs), expected)
            coordinator.close()
            answers = await ask_all(found.number, contacts(wires), 5.0)
            assert [(each.fault, each.inferences) for each in answers] == [(None, 3)] * len(wires)
            second = cases.coordinator(found, contacts(wires))
            assert same(await second.infer(cases.samples()[0][0]), cases.samples()[0][1])
            second.close()

        asyncio.run(run())


def test_noise_on_the_line_changes_no_byte(program: Path, tmp_path: Path) -> None:
    found = cases.deployment(2, direct=False, strategy="paper")
    with lines(program, found, tmp_path, LOUD) as (wires, _):

        async def run() -> None:
            coordinator = cases.coordinator(found, contacts(wires))
            for inputs, expected in cases.samples():
                assert same(await coordinator.infer(inputs), expected)
            coordinator.close()

        asyncio.run(run())
        assert sum(wire.harmed for wire in wires.values()) > 10


def test_a_worker_that_is_restarted_is_named_and_found_again(program: Path, tmp_path: Path) -> None:
    found = cases.deployment(2, direct=False, strategy="paper")
    inputs, expected = cases.samples()[0]
    with lines(program, found, tmp_path, QUIET) as (wires, started):

        async def run() -> None:
            coordinator = cases.coordinator(found, contacts(wires))
            assert same(await coordinator.infer(inputs), expected)
            started[1].kill()
            started[1].wait()
            started.append(start(program, tmp_path / "1.fragment", wires[1].right))
            with pytest.raises(ClusterError, match="worker w1 is lost"):
                await coordinator.infer(inputs)
            assert same(await coordinator.infer(inputs), expected)
            coordinator.close()

        asyncio.run(run())


def test_a_silent_line_is_late(tmp_path: Path) -> None:
    found = cases.deployment(2, direct=False, strategy="paper")
    with Wire() as first, Wire() as second:
        coordinator = cases.coordinator(found, contacts({0: first, 1: second}), timeout=0.3)
        with pytest.raises(ClusterError, match=r"worker w[01] is late"):
            asyncio.run(coordinator.infer(cases.samples()[0][0]))
