"""Several orders searched at once: never above the best of each alone, and every point can be run."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from tests.drawing.small_graphs import random_graph
from tests.memory.order.order_graphs import is_valid
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.search.front import Front
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front

OPTIONS = SearchOptions(alignment=16, overlap=True, single_operators=True)


def joint(graph: PricedProgram, orders: list[tuple[int, ...]]) -> Front:
    return fusion_front(graph, OPTIONS, orders)


def branching(seed: int, most: int = 12) -> tuple[PricedProgram, list[tuple[int, ...]]]:
    """A graph of up to six operators and some of its orders."""
    for draw in range(seed * 100, seed * 100 + 100):
        graph = random_graph(Random(draw), 6)
        count = len(graph.steps)
        orders = [order for order in permutations(range(count)) if is_valid(graph, order)] if count <= 6 else []
        if len(orders) > 2:
            Random(draw).shuffle(orders)
            return graph, orders[:most]
    raise AssertionError("no graph of these branches")


@pytest.mark.parametrize("seed", range(12))
def test_no_single_order_beats_them_together(seed: int) -> None:
    graph, orders = branching(seed)
    front = joint(graph, orders)
    for order in orders:
        for point in fusion_front(graph.reordered(order), OPTIONS).points:
            best = min(each.work for each in front.points if each.ram_bytes <= point.ram_bytes)
            assert best <= point.work


@pytest.mark.parametrize("seed", range(12))
def test_every_point_is_one_of_its_own_order(seed: int) -> None:
    graph, orders = branching(seed)
    for point in joint(graph, orders).points:
        assert is_valid(graph, point.order)
        alone = fusion_front(graph.reordered(point.order), OPTIONS)
        assert any(each.ram_bytes <= point.ram_bytes and each.work <= point.work for each in alone.points)
        for block in point.blocks:
            at = point.order.index(block.operators[0])
            assert point.order[at : at + len(block.operators)] == block.operators


def test_an_order_given_twice_adds_nothing() -> None:
    graph, orders = branching(3)
    assert joint(graph, [orders[0], orders[0]]).points == joint(graph, [orders[0]]).points
