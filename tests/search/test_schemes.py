"""Named schemes: their configurations, and that the unrestricted search is never worse."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scripts.points import least_ram
from tests.drawing.small_graphs import GraphMaker, inverted_residuals, random_graph
from tflite_fuse.cost.estimate.block_costs import price_block
from tflite_fuse.errors import UsageError
from tflite_fuse.ir.block import BlockConfig, BlockTensor, StageKind
from tflite_fuse.search.cut_graph import Residency
from tflite_fuse.search.front import Front
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front
from tflite_fuse.search.schemes import Scheme, head_of, restriction
from tflite_fuse.search.schemes import inverted_residuals as find_inverted_residuals

GRAPH = inverted_residuals((4, 4, 6, 6), size=20)


def front_of(scheme: Scheme, tile_size: tuple[int, int] | None = None) -> Front:
    return fusion_front(GRAPH, SearchOptions(scheme=scheme, tile_size=tile_size))


def tile_sizes(height: int, width: int, **options: tuple[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    driven = BlockTensor("driven", height, width, 4, 0)
    heights, widths = restriction(GRAPH, Scheme.INVERTED_RESIDUAL, **options).tile_sizes(driven)
    return tuple(heights), tuple(widths)


@settings(max_examples=40)
@given(st.integers(0, 1 << 30), st.sampled_from([scheme for scheme in Scheme if scheme is not Scheme.AUTO]))
def test_auto_is_never_worse_than_a_scheme(seed: int, scheme: Scheme) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(3, 8))
    # Where windows leave rows out, short tiles leave out more of them: less work than auto's, of a kind no model needs.
    assume(
        all(s is None or min(s.extent[a] - s.stride[a] for a in (0, 1)) >= 0 for s in (x.stage for x in graph.steps))
    )
    best = fusion_front(graph)
    for point in fusion_front(graph, SearchOptions(scheme=scheme)).points:
        assert any(other.ram_bytes <= point.ram_bytes and other.work <= point.work for other in best.points)


@pytest.mark.parametrize("scheme", [Scheme.HEAD_PATCHES, Scheme.STREAM_1D, Scheme.STREAM_2D])
def test_head_schemes_have_one_block_at_the_head(scheme: Scheme) -> None:
    fused = [point.blocks for point in front_of(scheme).points if point.blocks]
    assert fused
    for blocks in fused:
        assert len(blocks) == 1 and blocks[0].operators[0] == 0


def test_stream_2d_recomputes_nothing_and_stream_1d_keeps_full_height() -> None:
    assert all(point.compute_factor == 1 for point in front_of(Scheme.STREAM_2D).points)
    schemes = {block.scheme for point in front_of(Scheme.STREAM_1D).points for block in point.blocks}
    assert schemes == {"strips", "line-buffers"}


def test_head_patches_cut_both_ways_alike() -> None:
    for point in front_of(Scheme.HEAD_PATCHES).points:
        for block in point.blocks:
            assert block.config.tile_height == block.config.tile_width
            assert block.extra_work > 0 or block.scheme == "line-buffers"


def test_h_cache_computes_one_column_at_a_time() -> None:
    blocks = [block for point in front_of(Scheme.H_CACHE).points for block in point.blocks]
    assert blocks and all(block.config.tile_width == 1 for block in blocks)


def test_inverted_residual_fuses_the_smallest_set_of_whole_blocks_that_reaches_the_best_ram() -> None:
    blocks = find_inverted_residuals(GRAPH)
    assert blocks == ((1, 4), (5, 8), (9, 11), (12, 15))
    best = least_ram(front_of(Scheme.INVERTED_RESIDUAL, tile_size=(2, 2)))
    singles = [graph_ram(chosen, (2, 2)) for chosen in subsets(blocks)]
    least = min(ram for ram, _ in singles)
    smallest = min(len(chosen) for ram, chosen in singles if ram == least)
    assert best.ram_bytes == least
    assert len(best.blocks) == smallest
    assert {(block.operators[0], block.operators[-1]) for block in best.blocks} <= set(blocks)


def test_tiles_given_by_number_are_as_many_along_height_and_width() -> None:
    assert tile_sizes(20, 20, tiles=(4, 2)) == ((5,), (10,))
    assert tile_sizes(10, 10, tiles=(4, 4)) == ((3,), (3,))  # 3, 3, 3 and the remainder
    assert tile_sizes(3, 3, tiles=(8, 1)) == ((1,), (3,))  # more tiles than rows: one row each
    assert tile_sizes(20, 20) == tile_sizes(20, 20, tiles=(8, 8)) == ((3,), (3,))


def test_tiles_given_by_size_are_that_large_wherever_they_lie() -> None:
    assert tile_sizes(20, 20, tile_size=(4, 2)) == ((4,), (2,))
    assert tile_sizes(3, 3, tile_size=(8, 1)) == ((3,), (1,))


def test_tiles_by_number_and_by_size_agree_where_they_are_the_same_tiles() -> None:
    by_number = fusion_front(GRAPH, SearchOptions(scheme=Scheme.INVERTED_RESIDUAL, tiles=(1, 1)))
    by_size = fusion_front(GRAPH, SearchOptions(scheme=Scheme.INVERTED_RESIDUAL, tile_size=(99, 99)))
    assert by_number.points == by_size.points
    assert {point.compute_factor for point in by_number.points} == {1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tiles": (2, 2), "tile_size": (2, 2)}, "by their number or by their size"),
        ({"tiles": (0, 2)}, "0x2 makes no tiles"),
        ({"tile_size": (2, -1)}, "2x-1 makes no tiles"),
    ],
)
def test_tiles_that_contradict_each_other_are_refused(options: dict[str, tuple[int, int]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tile_sizes(20, 20, **options)


def subsets(blocks: tuple[tuple[int, int], ...]) -> list[tuple[tuple[int, int], ...]]:
    return [tuple(chosen) for count in range(len(blocks) + 1) for chosen in combinations(blocks, count)]


def graph_ram(chosen: tuple[tuple[int, int], ...], tiles: tuple[int, int]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Peak with exactly these blocks fused."""
    residency, peak, index = Residency(GRAPH, 1), 0, 0
    ends = dict(chosen)
    while index < len(GRAPH.steps):
        last = ends.get(index, index)
        scratch = 0 if last == index else price_block(GRAPH, index, last, BlockConfig(*tiles, 1)).scratch[0]
        peak, index = max(peak, residency.outside(index, last) + int(scratch)), last + 1
    return peak, chosen


def test_inverted_residuals_may_lack_the_expansion_and_hold_explicit_padding() -> None:
    maker = GraphMaker(9, 9, 4)
    padded = maker.pad(0, 1)
    mixed = maker.window(padded, 4, (3, 3), (2, 2), (0, 0, 0, 0), StageKind.DEPTHWISE)
    maker.window(mixed, 8)
    assert find_inverted_residuals(maker.graph()) == ((0, 2),)


def test_a_depthwise_convolution_without_projection_is_no_inverted_residual() -> None:
    maker = GraphMaker(9, 9, 4)
    maker.window(maker.window(0, 4, (3, 3), kind=StageKind.DEPTHWISE), 4, (3, 3))
    assert find_inverted_residuals(maker.graph()) == ()


def test_the_head_lies_behind_operators_no_block_can_hold() -> None:
    maker = GraphMaker(9, 9, 3)
    maker.window(maker.other(0, 9, 9, 3), 4)
    assert head_of(maker.graph()) == 1
