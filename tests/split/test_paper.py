"""The published scheme's equations, and its figures on its own network."""

from __future__ import annotations

import pytest

from scripts.zoo.architectures import build_architecture_file
from tests.conftest import SHARED
from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import LimitError
from tflite_fuse.split.cut.network import network_of
from tflite_fuse.split.devices import Device, Link
from tflite_fuse.split.search.paper import paper_plan, rating, shares_of, without_overflow

MOBILENET = SHARED / "arch" / "mbv2-w1.0-r112.json"


def test_a_rating_is_kilobytes_of_output_per_second_including_transfers() -> None:
    worker = Device("a", Target.GENERIC, 600.0, link=Link(kilobytes_per_second=200.0, delay_ms_per_kilobyte=5.0))
    megacycles = 1000.0
    produced = 0.133 * megacycles
    seconds = megacycles / worker.mhz + 0.01 * 0.7 * produced
    assert rating(worker, 0.133, 0.7) == pytest.approx(produced / seconds)
    assert rating(worker, 0.133, 0.0) == pytest.approx(600 * 0.133)


def test_overflow_moves_rating_to_workers_with_room_and_keeps_the_sum() -> None:
    fixed = without_overflow([1.0, 1.0, 2.0], 400.0, [1000.0, 1000.0, 150.0], "abc")
    assert sum(fixed) == pytest.approx(4.0)
    assert shares_of(fixed, 400.0) == pytest.approx((125.0, 125.0, 150.0))


def test_overflow_cascades_until_all_fit() -> None:
    room = [130.0, 1000.0, 150.0]
    fixed = shares_of(without_overflow([1.0, 1.0, 8.0], 400.0, room, "abc"), 400.0)
    assert all(share <= limit * (1 + 1e-6) for share, limit in zip(fixed, room, strict=True))
    assert sum(fixed) == pytest.approx(400.0)


def test_too_little_storage_is_reported_with_the_missing_bytes() -> None:
    with pytest.raises(LimitError, match="100 B are missing"):
        without_overflow([1.0, 1.0], 400.0, [150.0, 150.0], "ab")


@pytest.mark.skipif(not MOBILENET.exists(), reason="no mbv2-w1.0-r112.json beside the project")
def test_bytes_moved_are_about_the_papers_and_rise_with_workers() -> None:
    network = network_of(build_architecture_file(MOBILENET))
    plans = {count: paper_plan(network, [1.0] * count, "") for count in (3, 5, 8)}
    assert plans[3].moved == pytest.approx(4.21e6, rel=0.25)
    busiest = max(plans[3].phases, key=lambda phase: phase.moved)
    assert (busiest.name, busiest.moved) == ("CONV_2D_4", 3 * 150_528)
    assert plans[3].moved < plans[5].moved < plans[8].moved
