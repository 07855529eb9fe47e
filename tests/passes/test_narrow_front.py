"""The quick front: schemes searched together find what each finds alone."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.mixed import mixed_graph
from tflite_fuse.errors import LimitError
from tflite_fuse.fusion.block.layer_graph import LayerGraph
from tflite_fuse.fusion.search.from_model import graph_from_model
from tflite_fuse.fusion.search.fusion_front import SearchOptions
from tflite_fuse.fusion.search.schemes import Scheme
from tflite_fuse.model.outside import InputMode
from tflite_fuse.passes.fusing.narrow_front import NarrowPoint, narrow_front, narrow_overview
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import read_options
from tflite_fuse.zoo.networks import inverted_residual_network


def options_of(scheme: Scheme, tail: bool = True) -> SearchOptions:
    made = read_options(goal=Goal(least_ram=True), scheme=scheme.value).search()
    return made if tail else SearchOptions(scheme=scheme, input_mode=InputMode.STREAMED)


def alone(graph: LayerGraph, options: SearchOptions) -> NarrowPoint | None:
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


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000))
def test_so_it_is_for_random_networks(seed: int) -> None:
    graph = graph_from_model(mixed_graph(random.Random(seed).randint))
    asked = [options_of(scheme) for scheme in Scheme]
    front, found = narrow_overview(graph, asked[0], asked)
    assert front == narrow_front(graph, asked[0])
    assert found == [alone(graph, each) for each in asked]
