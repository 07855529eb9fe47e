"""Closed-form distances between a block's input and the output over it, against the schedule's."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.drawing.small_graphs import GraphMaker, inverted_residuals, random_chain, random_graph
from tests.drawing.weightless import block_of, early, operands, scheduled
from tflite_fuse.cost.estimate.block_costs import block_costs, price_block
from tflite_fuse.cost.estimate.growing_block import BlockCosts, Pricing
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.emit.block_plan import scratch_distances
from tflite_fuse.ir.block import BlockConfig, StageKind
from tflite_fuse.units import round_up


def whole(chunk: int) -> BlockConfig:
    return BlockConfig(1 << 15, 1 << 15, chunk)


def shared_by_schedule(
    graph: PricedProgram, first: int, last: int, driven: int, config: BlockConfig, alignment: int
) -> int:
    """The most bytes one input of a block may share with its driven output, or one of the network with scratch."""
    tensors = operands(graph, first, last)
    extent = graph.tensors[driven]
    block, planned = early(block_of(graph, first, last), config)
    overlaps = planned.overlaps
    best = 0
    for source, distance in scratch_distances(block, planned).items():
        tensor = tensors[source]
        if graph.producer[tensor] < 0 and graph.consumers[tensor][-1] <= last and tensor not in graph.outputs:
            best = max(best, round_up(planned.scratch_bytes, alignment) - round_up(distance, alignment))
    for (source, output), distance in overlaps.items():
        tensor = tensors[source]
        dies = graph.consumers[tensor][-1] <= last and tensor not in graph.outputs
        if tensors[output] == driven and dies:
            above, low, high = (
                -(-size // alignment) * alignment for size in (distance, extent.nbytes, graph.tensors[tensor].nbytes)
            )
            best = max(best, low + high - max(low, max(above, 0) + high))
    return best


def shared_by_search(graph: PricedProgram, last: int, chunk: int, alignment: int) -> dict[int, tuple[int, int]]:
    """For each block that ends at a layer and runs in one tile: (bytes shared, by the exact distances).

    Of what is shared the bytes that scratch was taken to be too large by do not count.
    """
    pricing = Pricing((chunk,), overlap_alignment=alignment)
    return {
        costs.first: (
            int(costs.shared[0]) - too_large(graph, costs, 0, whole(chunk), alignment),
            shared_by_schedule(graph, costs.first, last, costs.driven, whole(chunk), alignment),
        )
        for costs in block_costs(graph, last, lambda driven: ((driven.height,), (driven.width,)), pricing)
        if costs.usable[0]
    }


def too_large(graph: PricedProgram, costs: BlockCosts, index: int, config: BlockConfig, alignment: int) -> int:
    """Bytes by which scratch is estimated above what it is."""
    exact = scheduled(block_of(graph, costs.first, costs.last), config).scratch_bytes
    return round_up(int(costs.scratch[index]), alignment) - round_up(exact, alignment)


@settings(max_examples=150)
@given(st.integers(0, 1 << 30), st.booleans(), st.sampled_from([1, 16]))
def test_never_more_is_shared_than_the_schedule_allows(seed: int, branching: bool, alignment: int) -> None:
    random = Random(seed)
    length = random.randint(1, 6)
    graph = random_graph(random, length) if branching else random_chain(random, length)
    last = random.randrange(len(graph.steps))
    for searched, exact in shared_by_search(graph, last, random.choice([1, 2, 4]), alignment).values():
        assert searched <= exact


@pytest.mark.slow
@settings(max_examples=150)
@given(st.integers(0, 1 << 30), st.booleans(), st.sampled_from([1, 16]))
@example(313311931, False, 1)  # Between two windows of a stage lies a row that no stage reads but one computes.
def test_nor_in_any_tiles(seed: int, branching: bool, alignment: int) -> None:
    """Every pair of tile height and width, against the distances of the schedule."""
    random = Random(seed)
    length = random.randint(1, 5)
    graph = random_graph(random, length) if branching else random_chain(random, length)
    last = random.randrange(len(graph.steps))
    sizes = [random.randint(1, 8) for _ in range(2)], [random.randint(1, 8) for _ in range(2)]
    for costs in block_costs(graph, last, lambda driven: sizes, Pricing((1,), overlap_alignment=alignment)):
        for index in range(4):
            config = BlockConfig(int(costs.tile_height[index]), int(costs.tile_width[index]), 1)
            if costs.usable[index]:
                exact = shared_by_schedule(graph, costs.first, last, costs.driven, config, alignment)
                assert int(costs.shared[index]) - too_large(graph, costs, index, config, alignment) <= exact


@pytest.mark.parametrize("chunk", [1, 4])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("channels", [4, 8, 16])
def test_inverted_residuals_overlap_as_far_as_the_schedule_allows(kernel: int, channels: int, chunk: int) -> None:
    maker = GraphMaker(16, 16, 8)
    wide = maker.window(0, 16)
    mixed = maker.window(wide, 16, (kernel, kernel), kind=StageKind.DEPTHWISE)
    narrow = maker.window(mixed, channels)
    if channels == 8:
        maker.join(StageKind.ADD, narrow, 0)
    graph = maker.graph()
    shared = shared_by_search(graph, len(graph.steps) - 1, chunk, 1)
    assert len(shared) >= 3
    assert all(searched == exact > 0 for searched, exact in shared.values())


def test_a_pointwise_layer_of_equal_width_runs_in_place_but_for_a_pixel() -> None:
    maker = GraphMaker(10, 10, 6)
    maker.window(0, 6)
    costs = price_block(maker.graph(), 0, 0, BlockConfig(10, 10, 1), Pricing(overlap_alignment=1))
    assert costs.shared[0] == 600 - 6


def test_strips_and_inputs_needed_later_share_nothing() -> None:
    graph = inverted_residuals((4, 4))
    strips = price_block(graph, 5, 7, BlockConfig(6, 2), Pricing(overlap_alignment=1))
    assert strips.shared[0] == 0
    # The residual is read by the addition behind this block.
    held = price_block(graph, 5, 7, BlockConfig(6, 6), Pricing(overlap_alignment=1))
    assert held.shared[0] == 0
    assert price_block(graph, 5, 8, BlockConfig(6, 6), Pricing(overlap_alignment=1)).shared[0] > 0


def test_a_map_joined_with_a_larger_one_is_overwritten_but_for_a_few_rows() -> None:
    maker = GraphMaker(8, 8, 4)
    finer = maker.input(16, 16, 8)
    joined = maker.join(StageKind.CONCATENATION, maker.larger(0, (2, 2), (1, 1), (2, 2)), finer)
    maker.window(joined, 8, (3, 3))
    graph = maker.graph()
    costs = price_block(graph, 0, len(graph.steps) - 1, BlockConfig(16, 16, 2), Pricing(overlap_alignment=1))
    assert 12 * 16 * 8 <= costs.shared[0] <= shared_by_schedule(graph, 0, len(graph.steps) - 1, 4, whole(2), 1)


def test_a_block_shares_no_bytes_by_default() -> None:
    graph = inverted_residuals((4, 4))
    assert price_block(graph, 5, 8, BlockConfig(6, 6)).shared[0] == 0
