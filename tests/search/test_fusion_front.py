"""The exact search against brute force, and against the pruning algorithm of the msf-CNN paper, on the same edges."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scripts.papers.layers import without_network_tensors
from scripts.points import least_compute, least_ram
from tests.drawing.cut_dag import cut_dag
from tests.drawing.small_graphs import GraphMaker, inverted_residuals, random_graph
from tflite_fuse.cost.estimate.block_costs import price_block
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.errors import LimitError, UsageError
from tflite_fuse.ir.block import BlockConfig, StageKind
from tflite_fuse.model.outside import InputMode
from tflite_fuse.notes import note
from tflite_fuse.search.cut_graph import CutGraph, Edge, EdgeOptions, Residency, Rules, Span, cut_graph
from tflite_fuse.search.front import Front
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front
from tflite_fuse.search.paths import pareto_with_tail, paths_by_ram, search_paths
from tflite_fuse.search.schemes import Scheme, restriction

NETWORK = without_network_tensors(inverted_residuals((4, 4, 6, 6), size=20))

Pairs = list[tuple[int, int]]


def random_cuts(random: Random, count: int, tails: bool = False) -> CutGraph:
    """A cut graph with made-up options: small numbers, so that ties are common."""
    start, into = random.choice([0, 0, 10]), [list[Edge]() for _ in range(count + 1)]
    for source in range(count):
        for target in range(source + 1, count + 1):
            if target > source + 1 and random.random() < 0.5:
                continue
            ram = sorted(random.sample(range(1, 30), random.randint(1, 3)))
            macs = sorted(random.sample(range(1, 30), len(ram)), reverse=True)
            tiles = np.ones(len(ram), dtype=np.int64)
            options = EdgeOptions(np.array(ram), np.array(macs), tiles, tiles, tiles, tiles)
            tail = random.randrange(12) if tails else 0
            span = Span(source, target - 1)
            into[target].append(Edge(source, target, options, target > source + 1, span, tail))
            if tails and random.random() < 0.3:
                into[target].append(Edge(source, target, options.pick(np.array([0])), True, span, random.randrange(6)))
    return CutGraph(start, 3 if tails else 0, tuple(map(tuple, into)))


def every_path(cuts: nx.MultiDiGraph) -> Pairs:
    """(peak + tail, macs) of all paths under all options."""
    reached: dict[int, list[tuple[int, int, int]]] = {0: [(cuts.graph["start"], cuts.graph["tail"], 0)]}
    for cut in range(1, cuts.number_of_nodes()):
        reached[cut] = [
            (max(peak, int(ram)), tail + edge["tail"], macs + int(more))
            for source, _, edge in cuts.in_edges(cut, data=True)
            for peak, tail, macs in reached[source]
            for ram, more in zip(edge["options"].ram, edge["options"].work, strict=True)
        ]
    return [(peak + tail, macs) for peak, tail, macs in reached[cuts.number_of_nodes() - 1]]


def unbeaten(pairs: Pairs) -> Pairs:
    found: Pairs = []
    for pair in sorted(set(pairs)):
        if not found or pair[1] < found[-1][1]:
            found.append(pair)
    return found


def pruned_front(cuts: nx.MultiDiGraph) -> Pairs:
    """msf-CNN, section 4: shortest path on MACs, drop the edges with the largest RAM, repeat while a path is left."""
    edges = nx.MultiDiGraph()
    edges.add_nodes_from(cuts)
    for source, target, options in cuts.edges(data="options"):
        for ram, macs in zip(options.ram, options.work, strict=True):
            edges.add_edge(source, target, ram=int(ram), macs=int(macs))
    end, found = cuts.number_of_nodes() - 1, []
    start = cuts.graph["start"]
    while nx.has_path(edges, 0, end):
        nodes = nx.shortest_path(edges, 0, end, weight="macs")
        macs = sum(min(each["macs"] for each in edges[a][b].values()) for a, b in pairwise(nodes))
        peak = max(min(e["ram"] for e in edges[a][b].values() if e["macs"] == m) for a, b, m in cheapest(edges, nodes))
        found.append((max(start, peak), macs))
        largest = max(ram for _, _, ram in edges.edges(data="ram"))
        edges.remove_edges_from([e[:3] for e in edges.edges(keys=True, data="ram") if e[3] == largest])
    return unbeaten(found)


def cheapest(edges: nx.MultiDiGraph, nodes: list[int]) -> list[tuple[int, int, int]]:
    return [(a, b, min(each["macs"] for each in edges[a][b].values())) for a, b in pairwise(nodes)]


@settings(max_examples=150)
@given(st.integers(0, 1 << 30))
def test_any_edges_give_the_front_of_brute_force_and_of_pruning(seed: int) -> None:
    random = Random(seed)
    cuts = random_cuts(random, random.randint(1, 6))
    paths = [(path.peak, path.work) for path in search_paths(cuts)]
    assert paths == unbeaten(every_path(cut_dag(cuts)))
    assert paths == pruned_front(cut_dag(cuts))
    most = random.choice([0, *(macs for _, macs in paths), 100])
    limited = [(path.peak, path.work) for path in search_paths(cuts, most)]
    assert limited == ([pair for pair in paths if pair[1] <= most] or paths[-1:])
    enough = random.choice([0, *(ram for ram, _ in paths), 30])
    within = [(path.peak, path.work) for path in search_paths(cuts, most_ram=enough)]
    assert within == ([pair for pair in paths if pair[0] <= enough] or paths[:1])


@settings(max_examples=150)
@given(st.integers(0, 1 << 30))
def test_tails_add_up_beside_the_peak(seed: int) -> None:
    random = Random(seed)
    cuts = random_cuts(random, random.randint(1, 5), tails=True)
    assert [(path.peak + path.tail, path.work) for path in search_paths(cuts)] == unbeaten(every_path(cut_dag(cuts)))


@settings(max_examples=100)
@given(st.integers(0, 1 << 30))
def test_paths_by_ram_are_all_paths_within_the_work_in_order(seed: int) -> None:
    random = Random(seed)
    cuts = random_cuts(random, random.randint(1, 5), tails=True)
    every = every_path(cut_dag(cuts))
    most = random.choice([None, *(work for _, work in every)])
    within = sorted(pair for pair in every if most is None or pair[1] <= most)
    found = [(path.peak + path.tail, path.work) for path in paths_by_ram(cuts, most)]
    assert sorted(found) == within
    assert [ram for ram, _ in found] == [ram for ram, _ in within]


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=20))
def test_pareto_with_tail_keeps_points_without_dominators(triples: list[tuple[int, int, int]]) -> None:
    kept = [triples[i] for i in pareto_with_tail(*(np.array(column) for column in zip(*triples, strict=True)))]
    beaten = {t for t in triples if any(o != t and all(a <= b for a, b in zip(o, t, strict=True)) for o in triples)}
    assert sorted(kept) == sorted(set(triples) - beaten)


@settings(max_examples=30)
@given(st.integers(0, 1 << 30), st.sampled_from(list(Scheme)))
def test_models_give_the_front_of_brute_force(seed: int, scheme: Scheme) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 6))
    front = fusion_front(graph, SearchOptions(scheme=scheme))
    cuts = cut_dag(cut_graph(graph, restriction(graph, scheme)).edges)
    assert [(point.ram_bytes, point.work) for point in front.points] == unbeaten(every_path(cuts))


@settings(max_examples=60)
@example(97, True, 0.9)
@example(298, True, 0.9)
@given(st.integers(0, 1 << 30), st.booleans(), st.sampled_from([0.9, 1.0, 1.05, 1.3]))
def test_a_limit_on_compute_leaves_out_exactly_the_points_above_it(seed: int, bands: bool, limit: float) -> None:
    """Blocks that do not decide a point's RAM and work may differ."""
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 7))
    options = SearchOptions(overlap=True, single_operators=True, bands=bands)
    fronts = [fusion_front(graph, each).points for each in (options, replace(options, most_compute=limit))]
    front, limited = ([(point.ram_bytes, point.work) for point in points] for points in fronts)
    most = max(limit, 1.0) * graph.work
    assert limited == ([point for point in front if point[1] <= most] or front[-1:])


def test_a_real_shape_gives_the_front_of_the_pruning_algorithm() -> None:
    graph = without_network_tensors(inverted_residuals((4, 4, 6, 6, 8), size=24))
    cuts = cut_graph(graph, restriction(graph, Scheme.AUTO)).edges
    front = [(path.peak, path.work) for path in search_paths(cuts)]
    assert len(front) > 3
    assert front == pruned_front(cut_dag(cuts))


def check_points(graph: PricedProgram, front: Front, alignment: int) -> None:
    """Every number of every point follows from its blocks alone."""
    residency = Residency(graph, alignment)
    for point in front.points:
        peak, macs, position = 0, 0, 0
        for block in point.blocks:
            assert block.operators == tuple(range(block.operators[0], block.operators[-1] + 1))
            for index in range(position, block.operators[0]):
                peak, macs = max(peak, residency.outside(index, index)), macs + graph.steps[index].work
            costs = price_block(graph, block.operators[0], block.operators[-1], block.config)
            assert (block.scratch_bytes, block.work) == (costs.scratch[0], costs.work[0])
            assert block.extra_work == block.work - sum(graph.steps[index].work for index in block.operators)
            scratch = -(-block.scratch_bytes // alignment) * alignment
            peak = max(peak, residency.outside(block.operators[0], block.operators[-1]) + scratch)
            macs, position = macs + block.work, block.operators[-1] + 1
        for index in range(position, len(graph.steps)):
            peak, macs = max(peak, residency.outside(index, index)), macs + graph.steps[index].work
        assert (point.ram_bytes, point.work) == (peak, macs)
        assert point.compute_factor == pytest.approx(macs / graph.work)


@pytest.mark.parametrize("alignment", [1, 16])
def test_points_have_the_costs_of_their_blocks(alignment: int) -> None:
    graph = NETWORK
    front = fusion_front(graph, SearchOptions(alignment=alignment))
    check_points(graph, front, alignment)
    assert front.unfused.blocks == () and front.unfused.work == graph.work
    assert front.points[0].ram_bytes < front.unfused.ram_bytes


def test_look_ups() -> None:
    front = fusion_front(NETWORK)
    least, most = front.points[0], front.points[-1]
    assert len(front.points) > 2
    assert least_ram(front) is least
    assert least_ram(front, 1.0) is most
    assert most.compute_factor == 1.0
    for point in front.points:
        assert least_ram(front, point.compute_factor) is point
        assert least_compute(front, point.ram_bytes) is point
    between = (front.points[0].ram_bytes + front.points[1].ram_bytes) // 2
    assert least_compute(front, between) is least


@settings(max_examples=30)
@given(st.integers(0, 1 << 30), st.booleans(), st.sampled_from(list(InputMode)))
def test_every_freedom_is_searched_exactly_and_never_costs_ram(seed: int, overlap: bool, mode: InputMode) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 6))
    options = SearchOptions(overlap=overlap, bands=overlap, single_operators=overlap, input_mode=mode, chunks=(1,))
    try:
        front = fusion_front(graph, options)
    except LimitError as error:
        assert mode.streams and "no block holds all operators that read" in str(error)
        return
    cuts = cut_graph(graph, restriction(graph, Scheme.AUTO, bands=overlap), options)
    assert [(point.ram_bytes, point.work) for point in front.points] == unbeaten(every_path(cut_dag(cuts.edges)))
    plain = fusion_front(graph, SearchOptions(chunks=(1,)))
    if not mode.streams:
        overhead = 24  # a block of one operator has cursors, which the operator as it is has not
        for point in plain.points:
            assert any(o.ram_bytes <= point.ram_bytes + overhead and o.work <= point.work for o in front.points)


@settings(max_examples=40)
@given(st.integers(0, 1 << 30), st.booleans())
def test_no_front_needs_a_cut_within_elementwise_branches(seed: int, overlap: bool) -> None:
    random, maker, tensor = Random(seed), GraphMaker(8, 8, 2), 0
    for _ in range(random.randint(1, 3)):
        tensor = maker.window(tensor, random.randint(1, 4), (3, 3), (random.choice([1, 1, 2]),) * 2)
        ends = [tensor]
        for _ in range(random.randint(1, 4)):
            source = random.choice(ends)
            ends.append(maker.window(source, maker.tensors[source].channels, kind=StageKind.LOOKUP))
        while len(ends) > 1:
            ends.append(maker.join(StageKind.ADD, *(ends.pop(random.randrange(len(ends))) for _ in range(2))))
        (tensor,) = ends
    graph, options = maker.graph(), SearchOptions(overlap=overlap, chunks=(1,))
    few = fusion_front(graph, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PricedProgram, "inner_cuts", frozenset())
        every = fusion_front(graph, options)
    assert [(p.ram_bytes, p.work) for p in few.points] == [(p.ram_bytes, p.work) for p in every.points]


def test_overlaps_below_the_inputs_change_no_front(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left open for blocks that need no more than the network's inputs do before anything runs."""
    left_open = 0
    for seed in range(100):
        random = Random(seed)
        graph, found = random_graph(random, random.randint(3, 7)), []
        for free_scratch in (Residency.free_scratch, lambda *_: -1):
            with monkeypatch.context() as patched:
                patched.setattr(Residency, "free_scratch", free_scratch)
                found.append(cut_graph(graph, restriction(graph, Scheme.AUTO), Rules(overlap=True)).edges)
        fronts = [[(path.peak, path.work) for path in search_paths(edges)] for edges in found]
        assert fronts[0] == fronts[1]
        edges = (zip(*cut, strict=True) for cut in zip(*(each.into for each in found), strict=True))
        left_open += sum(int(a.options.ram[0] > b.options.ram[0]) for cut in edges for a, b in cut)
    assert left_open > 10


def test_a_streamed_or_external_input_takes_no_ram() -> None:
    graph = inverted_residuals((4, 4, 6, 6), size=40)
    resident = least_ram(fusion_front(graph), 1.0)
    streamed = fusion_front(graph, SearchOptions(input_mode=InputMode.STREAMED))
    external = fusion_front(graph, SearchOptions(input_mode=InputMode.EXTERNAL))
    assert resident.ram_bytes >= graph.sizes[0]
    assert least_ram(external, 1.0).ram_bytes <= least_ram(streamed, 1.0).ram_bytes < graph.sizes[0]
    assert streamed.unfused == external.unfused
    for point in streamed.points:
        assert point.blocks[0].operators[0] == 0
        assert point.blocks[0].scheme == "line-buffers"


def test_overlapping_blocks_run_a_network_in_little_more_than_its_image() -> None:
    graph = inverted_residuals((4, 4, 6, 6), size=40)
    front = fusion_front(graph, SearchOptions(overlap=True, single_operators=True, alignment=16))
    assert least_ram(front, 1.0).ram_bytes < 1.25 * graph.sizes[0] < least_ram(fusion_front(graph), 1.0).ram_bytes


def test_an_input_that_no_block_can_read_stays_in_the_arena() -> None:
    maker = GraphMaker(8, 8, 2)
    maker.window(maker.other(0, 8, 8, 2), 4)
    with pytest.raises(LimitError, match=r"input input cannot be streamed: other_0 reads it.*not a fusable operator"):
        fusion_front(maker.graph(), SearchOptions(input_mode=InputMode.STREAMED))


@pytest.mark.parametrize("mode", [InputMode.STREAMED, InputMode.EXTERNAL])
def test_a_scheme_without_a_block_for_the_input_is_named(mode: InputMode) -> None:
    options = SearchOptions(scheme=Scheme.INVERTED_RESIDUAL, input_mode=mode)
    refusal = f"input input cannot be {mode.value} with the scheme inverted-residual.*conv_0"
    with pytest.raises(LimitError, match=refusal):
        fusion_front(inverted_residuals(), options)


def test_limits_out_of_reach_name_the_nearest_point() -> None:
    front = fusion_front(inverted_residuals())
    with pytest.raises(LimitError, match=f"the least is {front.points[0].ram_bytes:,} bytes"):
        least_compute(front, 100)
    with pytest.raises(LimitError, match="cannot be reached: the least is 1"):
        least_ram(front, 0.9)


def test_every_place_left_alone_is_explained() -> None:
    maker = GraphMaker(8, 8, 2)
    wide = maker.window(maker.window(0, 16, (3, 3)), 2, (3, 3))
    maker.window(maker.other(wide, 8, 8, 2), 2)
    front = fusion_front(maker.graph())
    notes = front.explain(least_ram(front, 1.0))
    assert notes == (
        note("not fused", "operator", "other_2", why="it is not a fusable operator", tensor=""),
        note("not fused", "does not pay", "conv_3"),
    )


def test_operators_left_unfused_are_named() -> None:
    front = fusion_front(inverted_residuals())
    assert len(front.explain(front.unfused)) > 0 and front.explain(front.unfused)[0].operators[0] == "conv_0"


def test_blocks_below_the_peak_run_in_larger_chunks() -> None:
    front = fusion_front(NETWORK)
    single = fusion_front(NETWORK, SearchOptions(chunks=(1,)))
    assert [point.ram_bytes for point in front.points] == [point.ram_bytes for point in single.points]
    chunks = {block.config.chunk for point in front.points for block in point.blocks}
    assert max(chunks) > 1
    assert {block.config for point in single.points for block in point.blocks} >= {BlockConfig(10, 10, 1)}


def test_a_fixed_chunk_is_kept() -> None:
    front = fusion_front(inverted_residuals(), SearchOptions(chunks=(4,)))
    assert {block.config.chunk for point in front.points for block in point.blocks} == {4}


def test_options_that_make_no_sense_are_refused() -> None:
    for senseless in ({"chunks": ()}, {"chunks": (0,)}, {"alignment": 0}):
        with pytest.raises(UsageError):
            SearchOptions(**senseless)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="inverted-residual"):
        fusion_front(inverted_residuals(), SearchOptions(tiles=(2, 2)))
    with pytest.raises(UsageError, match="inverted-residual"):
        fusion_front(inverted_residuals(), SearchOptions(tile_size=(2, 2)))
    with pytest.raises(UsageError, match="1x1"):
        fusion_front(inverted_residuals(), SearchOptions(scheme=Scheme.INVERTED_RESIDUAL, tiles=(0, 2)))
