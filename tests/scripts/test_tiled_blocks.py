"""The fused-layer paper in the benchmark's model: tiles, Algorithm 1, networks."""

from __future__ import annotations

from itertools import combinations

import pytest

from scripts.papers.layers import graph_from_layers
from scripts.papers.tiled_blocks import algorithm_1, evaluate, tile_costs, tile_extents
from scripts.papers.tiled_networks import at_resolution, mobilenet_v2_like, parameters
from scripts.points import least_ram
from scripts.zoo.architectures import build_architecture
from tests.drawing.small_graphs import GraphMaker
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.ir.block import StageKind
from tflite_fuse.search.fusion_front import fusion_front
from tflite_fuse.search.schemes import inverted_residuals


def one_block(size: int = 8, stride: int = 1) -> PricedProgram:
    """1x1 from 4 to 24 channels, 3x3 depthwise, 1x1 to 6."""
    maker = GraphMaker(size, size, 4)
    expanded = maker.window(0, 24)
    mixed = maker.window(expanded, 24, (3, 3), (stride, stride), (1, 1, 1, 1), StageKind.DEPTHWISE)
    maker.window(mixed, 6)
    return maker.graph()


def test_the_last_tile_takes_the_remainder() -> None:
    assert tile_extents(10, 4) == (2, 2, 2, 4)
    assert tile_extents(8, 8) == (1,) * 8
    assert tile_extents(3, 8) == (1, 1, 1)
    assert tile_extents(7, 1) == (7,)


@pytest.mark.parametrize(("stride", "halo"), [(1, 2 + 2), (2, 2 * 2 + 1)])
def test_tiles_have_the_cost_of_equations_2_and_3(stride: int, halo: int) -> None:
    graph = one_block(8 * stride, stride)
    scratch, macs = tile_costs(graph, graph.steps, (4, 4))
    assert scratch == halo * halo * 24 + 2 * 2 * 24
    assert macs == 16 * (halo * halo * 4 * 24 + 2 * 2 * 9 * 24 + 2 * 2 * 24 * 6)


def test_algorithm_1_reaches_the_best_arena_with_blocks_none_of_which_can_be_left_out() -> None:
    graph = graph_from_layers(mobilenet_v2_like(128))
    blocks = inverted_residuals(graph)
    assert len(blocks) == 7
    found = algorithm_1(graph, (8, 8))
    subsets = [evaluate(graph, s, (8, 8)) for n in range(8) for s in combinations(blocks, n)]
    assert found.ram_bytes == min(each.ram_bytes for each in subsets)
    assert len(found.blocks) == min(len(each.blocks) for each in subsets if each.ram_bytes == found.ram_bytes) == 2


def test_one_tile_is_not_fused_and_counts_as_the_search_does() -> None:
    graph = graph_from_layers(mobilenet_v2_like(128))
    unfused, theirs = fusion_front(graph).unfused, algorithm_1(graph, (1, 1))
    assert (theirs.blocks, theirs.ram_bytes, theirs.macs) == ((), unfused.ram_bytes, unfused.work)


@pytest.mark.parametrize("side", [128, 256, 320])
def test_the_network_is_that_of_the_paper(side: int) -> None:
    network = mobilenet_v2_like(side)
    kinds = [layer["op"] for layer in network["layers"]]
    assert (kinds.count("conv"), kinds.count("dw"), kinds.count("fc")) == (1, 7, 1)
    assert 0.9 * 340_000 <= parameters(network) <= 1.1 * 340_000
    assert network["layers"][0]["in"] == [side, side, 3]


def test_a_network_at_another_resolution_is_the_same_network() -> None:
    small, large = mobilenet_v2_like(128), mobilenet_v2_like(256)
    again = at_resolution(large, 128)
    assert [layer["out"] for layer in again["layers"]] == [layer["out"] for layer in small["layers"]]
    assert build_architecture(again).subgraphs[0].operators


def test_the_largest_pictures_fit_into_512_kb_without_recompute() -> None:
    graph = graph_from_layers(mobilenet_v2_like(320))
    free, theirs = fusion_front(graph), algorithm_1(graph, (8, 8))
    assert least_ram(free, 1.0).ram_bytes <= 512_000
    assert least_ram(free, theirs.macs / graph.work).ram_bytes < theirs.ram_bytes < free.unfused.ram_bytes
