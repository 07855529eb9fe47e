"""One model over emulated boards with 64 KB of RAM and 1 MB of flash, joined by serial lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.device.split.boards import FLASH, RAM, board, firmware, running
from tests.split.networks import cluster, large_model
from tflite_fuse.errors import ClusterError
from tflite_fuse.model import serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.running.coordinator import Contact, Coordinator, Progress
from tflite_fuse.split.devices import Cluster
from tflite_fuse.split.fragments.encode import encode_plan
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.search.walk import one_worker
from tflite_fuse.split.splitting import SplitOptions, split_model

pytestmark = [
    pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed"),
    pytest.mark.skipif(bool(board().missing()), reason=f"{', '.join(board().missing())} not installed"),
]


def small_boards(count: int) -> Cluster:
    found = cluster((100.0,) * count, direct=False)
    workers = tuple(replace(each, ram=RAM, flash=FLASH) for each in found.workers)
    return replace(found, workers=workers)


@cache
def deployment() -> Deployment:
    devices = small_boards(3)
    found = split_model(large_model(), devices, SplitOptions())
    accountant = Accountant(found.network)
    return Deployment(found.network, found.plan, devices, encode_plan(found.network, found.plan, accountant.parts))


def coordinator(found: Deployment, addresses: dict[int, str], timeout: float) -> Coordinator:
    contacts = {device: Contact(found.cluster.workers[device].name, address) for device, address in addresses.items()}
    return Coordinator(found.coordinator(), found.number, contacts, found.dials, timeout)


def test_a_model_that_fits_no_board_alone_runs_on_three(tmp_path: Path) -> None:
    found, samples = deployment(), generate_inputs(large_model(), 3)
    expected = [
        np.asarray(outputs[0]).tobytes() for outputs in tflm.run(serialize_model(large_model()), samples).outputs
    ]
    assert len(set(expected)) > 1

    async def infer(addresses: dict[int, str]) -> list[bytes]:
        devices = coordinator(found, addresses, 240.0)
        try:
            outputs = [await devices.infer([_bytes(each) for each in sample]) for sample in samples]
        finally:
            devices.close()
        return [output[0].tobytes() for output in outputs]

    with running(found.fragments, tmp_path) as boards:
        assert len(boards.addresses) == 3
        assert asyncio.run(infer(dict(boards.addresses))) == expected


def test_a_board_that_dies_in_the_middle_is_named(tmp_path: Path) -> None:
    found, sample = deployment(), generate_inputs(large_model(), 1)[0]

    async def infer(addresses: dict[int, str], kill: Callable[[Progress], None]) -> None:
        devices = coordinator(found, addresses, 240.0)
        devices.progress = kill
        try:
            await devices.infer([_bytes(each) for each in sample])
        finally:
            devices.close()

    with running(found.fragments, tmp_path) as boards:
        victim = max(boards.processes)

        def kill(_: Progress) -> None:
            boards.processes[victim].kill()

        with pytest.raises(ClusterError, match=f"worker w{victim} "):
            asyncio.run(infer(dict(boards.addresses), kill))


def test_alone_it_fits_no_board(tmp_path: Path) -> None:
    found = deployment()
    first = replace(found.cluster, workers=found.cluster.workers[:1])
    plan = one_worker(found.network, first, 0)
    alone = encode_plan(found.network, plan, Accountant(found.network).parts)
    with pytest.raises(RuntimeError, match="overflowed"):
        firmware(alone.workers[0], tmp_path)


def _bytes(array: object) -> np.ndarray:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8)
