"""Stack and state of a worker with its link and serial line on a board."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.device.split.boards import running
from tests.device.split.test_boards import coordinator
from tests.device.targets import TARGETS
from tests.split.cluster import cases
from tflite_fuse.runtime import tflm
from tflite_fuse.split.needs import STACK_BYTES, STATE_BYTES

TARGET = TARGETS["cortex-m7"]
pytestmark = [
    pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed"),
    pytest.mark.skipif(bool(TARGET.missing()), reason=f"{', '.join(TARGET.missing())} not installed"),
]


def test_stack_and_state_equal_those_of_plans(tmp_path: Path) -> None:
    found = cases.deployment(2, direct=False, strategy="paper", tail=False)

    async def infer(addresses: dict[int, str]) -> None:
        devices = coordinator(found, addresses, 120.0)
        for inputs, expected in cases.samples(tail=False)[:2]:
            assert [each.tobytes() for each in await devices.infer(inputs)] == [each.tobytes() for each in expected]
        devices.close()
        await asyncio.sleep(0.2)

    with running(found.fragments, tmp_path, TARGET, "-O2 -DMEASURE_STACK") as boards:
        asyncio.run(infer(dict(boards.addresses)))
        told = [(tmp_path / str(number) / "told").read_text().splitlines() for number in boards.addresses]
    page = " ".join((Path(__file__).parents[3] / "docs" / "split.md").read_text().split())
    for lines in told:
        stack, inferences, state = (int(word) for word in lines[-1].split()[1:])
        assert inferences == 2 and 1000 < stack <= STACK_BYTES
        assert state <= STATE_BYTES
        assert f"{stack:,} B of stack in an inference of the tests; their state is {state} B" in page
