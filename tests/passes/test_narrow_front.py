"""The quick front: schemes searched together give the results of each alone."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.zoo import ModelBuilder
from scripts.zoo.networks import inverted_residual_network
from tests.builders.mixed import mixed_graph
from tflite_fuse.cost.estimate.growing_block import GrowingBlock
from tflite_fuse.cost.estimate.shapes import NOTHING_KNOWN
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.errors import LimitError
from tflite_fuse.model.outside import InputMode
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.search import narrow_front as narrow
from tflite_fuse.search.cut_graph import Cuts
from tflite_fuse.search.from_model import graph_from_model
from tflite_fuse.search.fusion_front import SearchOptions
from tflite_fuse.search.narrow_front import NarrowPoint, narrow_cuts, narrow_front, narrow_overview
from tflite_fuse.search.schemes import Scheme


def options_of(scheme: Scheme, tail: bool = True) -> SearchOptions:
    made = FuseOptions(goal=Goal(least_ram=True), scheme=scheme.value).search()
    return made if tail else SearchOptions(scheme=scheme, input_mode=InputMode.STREAMED)


@pytest.fixture(autouse=True)
def the_same_places_for_all(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the main search adds to the narrow places is another thing than what a scheme alone would."""
    if "scheme" in request.node.name or "random" in request.node.name:
        monkeypatch.setattr(narrow, "MOST_WIDENED", 0)


def alone(graph: PricedProgram, options: SearchOptions) -> NarrowPoint | None:
    try:
        return narrow_front(graph, options)[0]
    except LimitError:
        return None


@pytest.mark.parametrize("tail", [True, False])
@pytest.mark.parametrize("size", [24, 41])
def test_the_least_of_schemes_searched_together_is_that_of_each(size: int, tail: bool) -> None:
    graph = graph_from_model(inverted_residual_network(size=size, blocks=4, seed=size))
    asked = [options_of(scheme, tail) for scheme in Scheme]
    front, found = narrow_overview(graph, asked[0], asked)
    assert front == narrow_front(graph, asked[0])
    assert found == [alone(graph, each) for each in asked]
    assert len({point.ram_bytes for point in found if point is not None}) > 1


def test_blocks_are_not_grown_anew_for_more_places(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_from_model(inverted_residual_network(size=41, blocks=6))
    searches, steps = 0, 0
    search, add = narrow.cut_graph, GrowingBlock.add

    def searched(*arguments: Any) -> Cuts:
        nonlocal searches
        searches += 1
        return search(*arguments)

    def added(block: GrowingBlock, index: int) -> bool:
        nonlocal steps
        steps += 1
        return add(block, index)

    monkeypatch.setattr(narrow, "cut_graph", searched)
    monkeypatch.setattr(GrowingBlock, "add", added)
    found = narrow_front(graph, options_of(Scheme.AUTO))
    assert searches > 1
    once, steps = steps, 0
    monkeypatch.setattr(narrow, "Shapes", lambda *_, **__: NOTHING_KNOWN)
    assert narrow_front(graph, options_of(Scheme.AUTO)) == found
    assert steps > 1.3 * once


def dipping_graph() -> PricedProgram:
    """Little is live once between two large maps at the start, then less at each of many places."""
    b = ModelBuilder(seed=0)
    x = b.conv(b.input((1, 64, 64, 3)), 16, kernel=3)
    x = b.conv(b.conv(b.conv(x, 2, kernel=1), 16, kernel=1), 16, kernel=3)
    x = b.conv(b.conv(x, 8, kernel=3, stride=4), 4, kernel=3, stride=4)
    for _ in range(40):
        x = b.conv(b.conv(x, 16, kernel=1), 4, kernel=1)
    return graph_from_model(b.build([x]))


def test_a_deep_tail_does_not_take_the_places_of_the_large_maps() -> None:
    graph = dipping_graph()
    cuts = narrow_cuts(graph, 16)
    assert {0, 2, len(graph.steps)} <= cuts and len(cuts) < 40


def test_blocks_end_beside_what_no_block_can_hold_and_what_is_held_together_alone() -> None:
    graph = dipping_graph()
    layers, middle = list(graph.steps), 44
    assert not {middle, middle + 1} <= narrow_cuts(graph, 16)
    layers[middle] = replace(layers[middle], stage=None, view=False, reason="no")
    assert {middle, middle + 1} <= narrow_cuts(replace(graph, steps=tuple(layers)), 16)
    layers[middle] = replace(graph.steps[middle], unit=(middle - 1, middle))
    assert {middle - 1, middle + 1} <= narrow_cuts(replace(graph, steps=tuple(layers)), 16)


def test_places_around_the_bottleneck_are_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_from_model(inverted_residual_network(size=96, blocks=10, seed=3))
    monkeypatch.setattr(narrow, "narrow_cuts", lambda graph, *_: frozenset({0, len(graph.steps)}))
    wide = narrow_front(graph, options_of(Scheme.AUTO))[0]
    monkeypatch.setattr(narrow, "MOST_WIDENED", 0)
    assert wide.ram_bytes < narrow_front(graph, options_of(Scheme.AUTO))[0].ram_bytes


@settings(max_examples=8)
@given(st.integers(0, 10_000))
def test_so_it_is_for_random_networks(seed: int) -> None:
    graph = graph_from_model(mixed_graph(random.Random(seed).randint))
    asked = [options_of(scheme) for scheme in Scheme]
    front, found = narrow_overview(graph, asked[0], asked)
    assert front == narrow_front(graph, asked[0])
    assert found == [alone(graph, each) for each in asked]


def test_there_are_places_around_the_readers_of_inputs_that_leave_the_arena() -> None:
    """Only blocks read such an input: one begins or ends at its reader, narrow or not."""
    b = ModelBuilder(seed=0)
    image, sensor = b.input((1, 48, 48, 3)), b.input((1, 24, 24, 8))
    x = b.conv(image, 8, kernel=3, stride=2)
    for _ in range(14):
        x = b.conv(b.depthwise(b.conv(x, 16), 3), 8)
    x = b.conv(b.add(x, b.conv(sensor, 8)), 16)
    graph = graph_from_model(b.build([b.fully_connected(b.mean(x), 4)]))
    (reader,) = graph.consumers[graph.inputs[1]]
    assert not {reader, reader + 1} <= narrow_cuts(graph, 16)
    assert {reader, reader + 1} <= narrow_cuts(graph, 16, graph.inputs)
    assert narrow_front(graph, FuseOptions(input_mode="streamed").search(graph.inputs))
