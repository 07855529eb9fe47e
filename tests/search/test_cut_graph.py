"""The cut graph: live tensors at a cut, tensors behind an edge, and possible blocks."""

from __future__ import annotations

from random import Random

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawing.cut_dag import cut_dag
from tests.drawing.small_graphs import GraphMaker, inverted_residuals, random_graph
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.ir.block import StageKind
from tflite_fuse.search.cut_graph import Residency, Rules, cut_graph, pareto
from tflite_fuse.search.schemes import Scheme, restriction


def live_bytes(graph: PricedProgram, first: int, last: int) -> int:
    """Bytes of every tensor live while the layers first … last run, but for those born and dead inside."""
    total = 0
    for tensor, size in enumerate(graph.sizes):
        born = graph.producer[tensor]
        readers = graph.consumers[tensor]
        dies = len(graph.steps) if tensor in graph.outputs else (readers[-1] if readers else born)
        inside = first <= born and dies <= last and (readers or first != last)
        if born <= last and dies >= first and not (inside and dies > born):
            total += size
    return total


@settings(max_examples=100)
@given(st.integers(0, 1 << 30))
def test_residency_is_the_sum_of_live_tensors(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 8))
    residency = Residency(graph, 1)
    for first in range(len(graph.steps)):
        for last in range(first, len(graph.steps)):
            assert residency.outside(first, last) == live_bytes(graph, first, last)


def test_alignment_rounds_every_tensor_and_the_scratch() -> None:
    maker = GraphMaker(3, 3, 3)
    maker.window(maker.window(0, 5, (3, 3)), 2)
    graph = maker.graph()
    cuts = cut_dag(cut_graph(graph, restriction(graph, Scheme.STREAM_2D), Rules(alignment=16)).edges)
    assert cuts.edges[0, 1, 0]["options"].ram.tolist() == [32 + 48]
    assert cuts.edges[0, 2, 0]["options"].ram.tolist() == [32 + 32 + 32]  # cursors 24, one pixel 8


def test_a_residual_held_across_a_block_counts() -> None:
    graph = inverted_residuals((4, 4))
    cuts = cut_dag(cut_graph(graph, restriction(graph, Scheme.AUTO)).edges)
    start = graph.steps[5].inputs[0]
    inner = cuts.edges[6, 8, 0]["options"]  # depthwise and projection of the second block: the expansion lives outside
    wide, narrow = graph.sizes[graph.steps[5].outputs[0]], graph.sizes[graph.steps[7].outputs[0]]
    assert (inner.ram >= graph.sizes[start] + wide + narrow).all()
    assert inner.ram.min() - inner.scratch.min() == graph.sizes[start] + wide + narrow


def test_a_block_may_start_or_end_inside_a_residual() -> None:
    graph = inverted_residuals((4, 4))
    cuts = cut_dag(cut_graph(graph, restriction(graph, Scheme.AUTO)).edges)
    assert cuts.has_edge(6, 9)  # reads the skip as a second input
    assert cuts.has_edge(0, 7)  # writes the skip as a second output
    leaves = cuts.edges[0, 7, 0]["options"]
    skip, mixed = graph.steps[4].outputs[0], graph.steps[6].outputs[0]
    assert leaves.ram.min() - leaves.scratch.min() == graph.sizes[0] + graph.sizes[skip] + graph.sizes[mixed]


def test_operators_no_block_can_hold_stay_alone() -> None:
    maker = GraphMaker(6, 6, 2)
    first = maker.window(0, 3)
    odd = maker.other(first, 6, 6, 3)
    maker.window(maker.window(odd, 4), 4)
    graph = maker.graph()
    cuts = cut_dag(cut_graph(graph, restriction(graph, Scheme.AUTO)).edges)
    assert {(source, target) for source, target, _ in cuts.edges} == {(0, 1), (1, 2), (2, 3), (3, 4), (2, 4)}


def test_branches_hold_blocks_of_their_own() -> None:
    maker = GraphMaker(6, 6, 2)
    left = maker.window(maker.window(0, 3), 3, (3, 3))
    right = maker.window(maker.window(0, 3), 3, (3, 3))
    maker.join(StageKind.CONCATENATION, left, right)
    graph = maker.graph()
    cuts = cut_dag(cut_graph(graph, restriction(graph, Scheme.AUTO)).edges)
    assert cuts.has_edge(0, 2) and cuts.has_edge(2, 4) and cuts.has_edge(2, 5) and cuts.has_edge(0, 5)
    assert not cuts.has_edge(0, 3) and not cuts.has_edge(0, 4)


def test_every_cut_graph_is_a_dag_from_start_to_end() -> None:
    graph = inverted_residuals()
    cuts = cut_dag(cut_graph(graph, restriction(graph, Scheme.AUTO)).edges)
    assert nx.is_directed_acyclic_graph(cuts)
    assert nx.has_path(cuts, 0, len(graph.steps))
    for _, _, options in cuts.edges(data="options"):
        assert (np.diff(options.ram) > 0).all() and (np.diff(options.work) < 0).all()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20))
def test_pareto_keeps_one_point_of_equal_ones(pairs: list[tuple[int, int]]) -> None:
    ram, cost = (np.array(column) for column in zip(*pairs, strict=True))
    kept = [pairs[index] for index in pareto(ram, cost)]
    unbeaten = {p for p in pairs if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in pairs)}
    assert kept == sorted(unbeaten)
