"""Workers in C over TCP sockets, and the coordinator in Python."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.split.cluster import cases
from tests.split.cluster.test_running import in_the_middle, same
from tflite_fuse.errors import ClusterError
from tflite_fuse.runtime import tflm
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.running.coordinator import Contact, ask_all

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
Process = subprocess.Popen[str]


@contextmanager
def processes(
    program: Path, found: Deployment, folder: Path, *key: Path
) -> Iterator[tuple[dict[int, Contact], list[Process]]]:
    started: list[Process] = []
    contacts = {}
    try:
        for device in found.taking_part:
            (folder / f"{device}.fragment").write_bytes(found.fragments.workers[device])
            call = [str(program), str(folder / f"{device}.fragment"), "127.0.0.1:0", *map(str, key)]
            started.append(subprocess.Popen(call, stdout=subprocess.PIPE, text=True))
            output = started[-1].stdout
            assert output is not None
            contacts[device] = Contact(f"w{device}", f"127.0.0.1:{int(output.readline())}")
        yield contacts, started
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.parametrize(("workers", "direct"), [(3, True), (4, False)])
def test_workers_in_c_give_the_bytes_of_tflm(program: Path, tmp_path: Path, workers: int, direct: bool) -> None:
    found = cases.deployment(workers, direct)
    with processes(program, found, tmp_path) as (contacts, _):

        async def run() -> None:
            coordinator = cases.coordinator(found, contacts)
            done = dict[int, int]()
            coordinator.progress = lambda each: done.update({each.device: each.done})
            for inputs, expected in cases.samples():
                assert same(await coordinator.infer(inputs), expected)
            coordinator.close()
            assert {*done} >= {*found.taking_part}
            second = cases.coordinator(found, contacts)
            assert same(await second.infer(*cases.samples()[0][:1]), cases.samples()[0][1])
            third = cases.coordinator(found, contacts)
            assert same(await third.infer(*cases.samples()[0][:1]), cases.samples()[0][1])
            with pytest.raises(ClusterError, match="serves another coordinator"):
                await second.infer(cases.samples()[0][0])
            answers = await ask_all(found.number, contacts, 5.0)
            assert [(answer.fault, answer.inferences) for answer in answers] == [(None, 5)] * len(contacts)
            third.close()
            other = await ask_all(found.number ^ 1, contacts, 5.0)
            assert {answer.fault for answer in other} == {"has another plan"}

        asyncio.run(run())


def test_workers_in_c_and_in_python_run_a_plan_together(program: Path, tmp_path: Path) -> None:
    found = cases.deployment()
    with processes(program, found, tmp_path) as (contacts, _):

        async def run() -> None:
            _, others = await cases.start(found)
            for mixed in ({**contacts, 1: others[1]}, {**others, 1: contacts[1]}):
                coordinator = cases.coordinator(found, mixed)
                for inputs, expected in cases.samples():
                    assert same(await coordinator.infer(inputs), expected)
                coordinator.close()

        asyncio.run(run())


@pytest.mark.parametrize("how", ["goes", "stays"])
def test_workers_in_c_serve_another_coordinator_in_the_middle_of_an_inference(
    program: Path, tmp_path: Path, how: str
) -> None:
    found = cases.deployment()
    with processes(program, found, tmp_path) as (contacts, _):
        asyncio.run(in_the_middle(found, contacts, how))


def test_a_worker_in_c_that_is_killed_is_named_and_the_others_go_on(program: Path, tmp_path: Path) -> None:
    found = cases.deployment()
    inputs, expected = cases.samples()[0]
    with processes(program, found, tmp_path) as (contacts, started):

        async def run() -> None:
            coordinator = cases.coordinator(found, contacts)
            assert same(await coordinator.infer(inputs), expected)
            started[1].kill()
            started[1].wait()
            with pytest.raises(ClusterError, match="worker w1 is lost"):
                await coordinator.infer(inputs)
            _, others = await cases.start(found)
            coordinator = cases.coordinator(found, {**contacts, 1: others[1]})
            assert same(await coordinator.infer(inputs), expected)
            coordinator.close()

        asyncio.run(run())
