"""Time on simulated devices, against hand-computed values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.split.networks import FAST, cluster, network
from tflite_fuse.split.cut.plan import Phase, Plan, Step, Task, Transfer
from tflite_fuse.split.cut.regions import Box
from tflite_fuse.split.devices import COORDINATOR, Link
from tflite_fuse.split.protocol import HEADER_BYTES, PAYLOAD_BYTES
from tflite_fuse.split.search.paper import paper_plan
from tflite_fuse.split.simulate import chrome_trace, simulate

LINK = Link(kilobytes_per_second=1000.0, delay_ms_per_message=3.0, occupancy_ms_per_message=1.0)


def sent(nbytes: int, source: int, target: int) -> Transfer:
    return Transfer(0, source, target, (Box((0, nbytes), (0, 1), (0, 1)),))


def test_messages_overlap_in_flight_but_not_on_the_link() -> None:
    plan = Plan(2, (Phase("", (sent(2 * PAYLOAD_BYTES + 5, COORDINATOR, 0),)),), "")
    slow = cluster((600.0, 600.0), link=LINK)
    slow = replace(slow, coordinator=replace(slow.coordinator, link=Link(1e9)))
    found = simulate(plan, slow, lambda phase, task: 0.0)
    payloads = [PAYLOAD_BYTES, PAYLOAD_BYTES, 5]
    each = [(size + HEADER_BYTES) / 1e6 + 0.001 for size in payloads]
    assert found.seconds == pytest.approx(0.003 + sum(each), rel=1e-3)
    assert (len(found.messages), found.payload_bytes) == (3, 2805)
    assert found.frame_bytes == 2805 + 3 * HEADER_BYTES


def test_messages_over_a_shared_medium_take_it_one_after_another() -> None:
    """Between others, too, and for as long as the slower end takes; the medium is no link of anybody's besides."""
    pairs = [(0, 1), (2, 3), (3, COORDINATOR)]
    plan = Plan(4, (Phase("", tuple(sent(1000, *pair) for pair in pairs)),), "")
    apart = cluster((600.0,) * 4, link=LINK)
    once = LINK.seconds(1000 + HEADER_BYTES)
    found = simulate(plan, apart, lambda phase, task: 0.0)
    assert found.seconds == pytest.approx(2 * once + 2 * LINK.latency + once + FAST.seconds(1032))  # 3 waits for 2
    bus = replace(apart, media=(frozenset(range(4)),))
    found = simulate(plan, bus, lambda phase, task: 0.0)
    assert found.lanes["medium", 0] == pytest.approx(2 * once) and found.period == found.lanes["medium", 0]
    assert found.seconds == pytest.approx(2 * once + LINK.latency + once + LINK.latency + FAST.seconds(1032))
    everyone = replace(apart, media=(frozenset({*range(4), COORDINATOR}),))
    found = simulate(plan, everyone, lambda phase, task: 0.0)
    assert found.lanes == {("medium", 0): pytest.approx(3 * once)}
    assert found.seconds == pytest.approx(2 * once + LINK.latency + once + LINK.latency)


def test_workers_compute_side_by_side_and_wait_only_for_their_inputs() -> None:
    region = (Box((0, 1), (0, 1), (0, 1)),)
    tasks = tuple(Task(worker, (Step(0, region),), ((1 + worker, region),)) for worker in (0, 1))
    later = Task(1, (Step(1, region),), ((3, region),))
    plan = Plan(2, (Phase("", (), tasks), Phase("", (Transfer(1, 0, 1, region),), (later,))), "")
    quick = cluster((600.0, 600.0), link=Link(1e9))
    found = simulate(plan, quick, lambda phase, task: {(0, 0): 1.0, (0, 1): 5.0, (1, 1): 2.0}[phase, task.worker])
    assert found.seconds == pytest.approx(7.0) and found.busy == pytest.approx((1.0, 7.0))


def test_a_plan_takes_all_its_bytes_and_no_time_without_work_or_delay() -> None:
    plan = paper_plan(network(), (1.0, 2.0, 1.0), "")
    quick = cluster(link=Link(1e12))
    quick = replace(quick, coordinator=replace(quick.coordinator, link=Link(1e12)))
    found = simulate(plan, quick, lambda phase, task: 0.0, spans=True)
    assert found.payload_bytes == plan.moved and found.seconds < 1e-3
    trace = chrome_trace(found, cluster())
    assert {event["name"] for event in trace["traceEvents"]} >= {"process_name", network().nodes[0].name}
    assert all(event["dur"] >= 0 for event in trace["traceEvents"] if event["ph"] == "X")
