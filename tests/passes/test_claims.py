"""Claims in reports are computed: false where they do not hold, true where they do."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

import tflite_fuse
from scripts.zoo.builder import ModelBuilder
from scripts.zoo.networks import branching_network, cell_network, pyramid_network
from tests.builders import random_graph
from tests.passes.claims import proven
from tflite_fuse.claim import Claim
from tflite_fuse.memory.budget import Budget
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.passes.plan import Plan
from tflite_fuse.passes.reorder import Reorder


def claims(model: Model) -> tuple[dict[str, Claim], int]:
    report = tflite_fuse.rewrite(serialize_model(model), verify=False).report
    return report.optimal, report.after.arena_bytes


def map_of_scores() -> Model:
    """A LOG_SOFTMAX over a whole map, which no block can hold, between two convolutions."""
    b = ModelBuilder(1)
    x = b.conv(b.input((1, 8, 8, 4)), 16, activation="RELU")
    return b.build([b.conv(b.log_softmax(x), 4)])


def test_blocks_are_proven_where_an_operator_no_block_can_hold_needs_the_most() -> None:
    found, arena = claims(map_of_scores())
    assert found["fusion"].proven and found["fusion"].bound_bytes == arena
    assert "the only possible order of operators" in found["fusion"].scope


def test_blocks_are_not_proven_where_rings_need_more_than_one_window() -> None:
    found, arena = claims(cell_network(size=24))
    assert not found["fusion"].proven and found["fusion"].bound_bytes < arena
    assert "this order of operators" in found["fusion"].scope


def test_an_order_is_proven_by_its_peak_and_not_where_time_ended_the_search() -> None:
    model = branching_network()
    assert proven(Reorder().run(model)) and not proven(Reorder(Budget(seconds=0.0)).run(model))


def test_a_plan_is_proven_by_its_height_and_not_where_the_search_had_no_work_left() -> None:
    model = load_model(serialize_model(random_graph(Random(29).randint, 12)))
    assert proven(Plan().run(model)) and not proven(Plan(budget=Budget(0)).run(model))


@settings(max_examples=5)
@given(st.integers(0, 1 << 30))
def test_no_arena_is_below_its_bound(seed: int) -> None:
    random = Random(seed)
    model = random.choice((cell_network, pyramid_network, branching_network))(16 * random.randint(1, 2), 4)
    found, arena = claims(model)
    assert found["fusion"].bound_bytes <= arena
    assert found["fusion"].proven == (found["fusion"].bound_bytes == arena)
