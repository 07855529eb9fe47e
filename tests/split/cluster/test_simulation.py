"""The simulator of fragments against real runs: the same messages on every link, byte for byte and in order."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from tests.split.cluster import cases
from tflite_fuse.runtime import tflm
from tflite_fuse.split.cluster.link.messages import HEADER_BYTES, Kind, Message
from tflite_fuse.split.cluster.simulation import simulated
from tflite_fuse.split.devices import COORDINATOR, Link
from tflite_fuse.split.simulate import Act, Course

RUNNING = (Kind.START, Kind.DATA, Kind.STEP)
Links = dict[tuple[int, int], list[tuple[Kind, int, int, int]]]


def real(workers: int, direct: bool, strategy: str) -> Links:
    """All messages of an inference over TCP, by sender and receiver."""
    found = cases.deployment(workers, direct, strategy)
    links: Links = defaultdict(list)

    def note(here: int, there: int | None, message: Message, out: bool) -> None:
        if message.kind in RUNNING and out and there is not None:
            item = 0 if message.kind is Kind.START else message.item
            size = len(message.payload)
            links[here, there].append((message.kind, item, size, HEADER_BYTES + size))

    async def run() -> None:
        _, contacts = await cases.start(found)
        coordinator = cases.coordinator(found, contacts)
        with cases.observed(note):
            await coordinator.infer(cases.samples()[0][0])
        coordinator.close()

    asyncio.run(run())
    return dict(links)


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize(
    ("workers", "direct", "strategy"),
    [(1, True, "auto"), (3, True, "auto"), (3, False, "auto"), (4, False, "paper"), (8, True, "auto")],
)
def test_messages_of_each_link_are_those_of_a_real_run(workers: int, direct: bool, strategy: str) -> None:
    course = simulated(cases.deployment(workers, direct, strategy))
    links: Links = defaultdict(list)
    for each in course.messages:
        links[each.source, each.target].append((each.kind, each.item, each.payload_bytes, each.frame_bytes))
    assert dict(links) == real(workers, direct, strategy)
    assert course.frame_bytes == sum(
        each[3] for messages in links.values() for each in messages if each[0] is Kind.DATA
    )


def test_time_equals_a_computation_by_hand() -> None:
    found = cases.deployment(2)
    devices = found.cluster
    send = Act(Kind.DATA, True, 0, 0, 1400)
    receive = Act(Kind.DATA, False, COORDINATOR, 0, 1400)
    back, got = Act(Kind.DATA, True, COORDINATOR, 0, 100), Act(Kind.DATA, False, 0, 0, 100)
    course = Course(
        {COORDINATOR: [send, got], 0: [receive, Act(Kind.STEP, False, seconds=2.0), back]}, devices, controls=True
    )
    link = Link(12_500.0, 0.2)
    both = devices.coordinator.link, devices.workers[0].link
    assert both == (link, link)
    # START and DATA leave one behind the other and arrive so; STEP leaves before the answer.
    there = link.seconds(36) + link.seconds(1432) + link.latency + link.seconds(1432)
    again = link.seconds(36) + link.seconds(132) + link.latency + link.seconds(132)
    assert course.seconds == pytest.approx(there + 2.0 + again, rel=1e-9)
    assert course.usage[0].computes == 2.0
    assert course.usage[COORDINATOR].waits == pytest.approx(course.seconds)


def test_devices_that_wait_for_each_other_are_noticed() -> None:
    found = cases.deployment(2)
    with pytest.raises(ValueError, match="wait for ever"):
        Course({COORDINATOR: [Act(Kind.DATA, False, 0)], 0: [Act(Kind.DATA, False)]}, found.cluster, controls=True)
