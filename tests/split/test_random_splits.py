"""Random networks over random workers for a random objective: fragments in C, and plans in numpy, give TFLM's bytes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.builders.mixed import mixed_models
from tests.split.networks import FAST
from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import LimitError
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime import tflm
from tflite_fuse.split.devices import Cluster, Device, Link
from tflite_fuse.split.needs import LIBRARY_BYTES
from tflite_fuse.split.search.auto import OBJECTIVES
from tflite_fuse.split.splitting import STRATEGIES, SplitOptions, split_model

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

SLOW = Link(kilobytes_per_second=200.0, delay_ms_per_message=2.0, occupancy_ms_per_message=0.5)
FLASH = (None, LIBRARY_BYTES + 3_000, LIBRARY_BYTES + 12_000)
RAM = (None, 8_000, 16_000)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """1 to 4 workers of unequal speeds, links and memory."""
    count, speeds = draw(st.integers(1, 4)), st.sampled_from([60.0, 150.0, 600.0])
    targets, limited = st.sampled_from([Target.CORTEX_M7, Target.GENERIC]), draw(st.booleans())

    def worker(index: int) -> Device:
        ram, flash = (draw(st.sampled_from(each)) if limited else None for each in (RAM, FLASH))
        link = draw(st.sampled_from([FAST, SLOW]))
        return Device(f"w{index}", draw(targets), draw(speeds), ram=ram, flash=flash, link=link)

    workers = tuple(map(worker, range(count)))
    pairs = frozenset((a, b) for b in range(count) for a in range(b) if draw(st.booleans()))
    return Cluster(workers, Device("computer", Target.GENERIC, 1000.0, link=FAST), pairs)


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(
    model=mixed_models(4),
    devices=clusters(),
    objective=st.sampled_from(OBJECTIVES),
    strategy=st.sampled_from(["auto", "auto", "auto", *STRATEGIES[1:]]),
)
def test_a_split_computes_the_bytes_of_tflm_or_names_the_limit(
    model: Model, devices: Cluster, objective: str, strategy: str
) -> None:
    try:
        found = split_model(model, devices, SplitOptions(strategy, objective, verify=1))
    except LimitError as error:
        assert any(each.ram is not None or each.flash is not None for each in devices.workers), error
        event("does not fit")
        return
    assert found.verified is not None and found.verified.bit_exact, found.verified
    event(f"{sum(bool(each.by_phase) for each in found.needs)} work, {len(found.plan.sums)} layers summed")
    for worker, needs in zip(devices.workers, found.needs, strict=True):
        if needs.by_phase:
            assert worker.ram is None or needs.ram_bytes <= worker.ram
            assert worker.flash is None or needs.flash_bytes <= worker.flash
