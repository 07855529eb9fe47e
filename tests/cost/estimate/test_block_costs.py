"""Closed-form block costs against the executor's schedule followed literally."""

from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tflite_fuse
from scripts.fuzzing.differential import random_model
from tests.drawing.small_graphs import GraphMaker, inverted_residuals, padded_branches, random_chain, random_graph
from tests.drawing.weightless import block_of, scheduled
from tflite_fuse.cost.estimate.block_costs import block_costs, driven_tensor, price_block
from tflite_fuse.cost.estimate.growing_block import Pricing
from tflite_fuse.cost.estimate.least_work import work_limit
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.errors import BlockError, LimitError
from tflite_fuse.ir.axes import strip_sizes
from tflite_fuse.ir.block import BlockConfig, StageKind, Storage

CURSORS = {1: 16, 2: 24, 5: 64}
"""Bytes of the executor's cursors for so many spatial stages."""

SEEDS = st.integers(0, 1 << 30)


def any_config(random: Random, graph: PricedProgram, last: int) -> BlockConfig:
    driven = graph.tensors[driven_tensor(graph, 0, last)]
    height = random.choice([driven.height, random.randint(1, driven.height)])
    return BlockConfig(height, random.randint(1, driven.width), random.choice([1, 2, 3, 4, 8]))


def check_all_blocks(graph: PricedProgram, last: int, config: BlockConfig) -> None:
    for costs in block_costs(
        graph, last, lambda driven: ((config.tile_height,), (config.tile_width,)), Pricing((config.chunk,))
    ):
        if costs.usable[0]:
            exact = scheduled(block_of(graph, costs.first, last), config)
            # Readers of one tensor may look at different corners of their common region: nobody asks for all of it.
            inner = (tensor for layer in graph.steps[costs.first : last] for tensor in layer.outputs)
            shared = any(len(graph.consumers[tensor]) > 1 for tensor in inner)
            assert costs.work[0] >= exact.macs if shared else costs.work[0] == exact.macs
            assert costs.scratch[0] >= exact.scratch_bytes


@settings(max_examples=150)
@given(SEEDS)
def test_costs_of_chains_equal_the_schedule(seed: int) -> None:
    random = Random(seed)
    graph = random_chain(random, random.randint(2, 5))
    last = len(graph.steps) - 1
    check_all_blocks(graph, last, any_config(random, graph, last))


@settings(max_examples=150)
@given(SEEDS)
def test_branching_graphs_never_cost_less_than_the_schedule(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(3, 8))
    last = random.randint(1, len(graph.steps) - 1)
    check_all_blocks(graph, last, any_config(random, graph, last))


@settings(max_examples=150)
@given(SEEDS)
@example(71723)  # an inner tensor is also read behind the block, which no configuration can serve
def test_no_block_works_less_than_the_least_of_its_layers(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 8))
    least, last = work_limit(graph, graph.work).least, random.randrange(len(graph.steps))
    for costs in block_costs(graph, last, lambda driven: (strip_sizes(driven.height), strip_sizes(driven.width))):
        assert (costs.work[costs.usable] >= sum(least[costs.first : last + 1])).all()


def test_blocks_compute_all_that_an_enlarged_image_is_made_of() -> None:
    maker = GraphMaker(8, 8, 4)
    maker.larger(maker.window(0, 8, (3, 3)), (4, 4), (1, 1), (2, 2))
    graph = maker.graph()
    assert work_limit(graph, graph.work).slack == 0


@pytest.mark.parametrize("chunk", [1, 2, 4])
@pytest.mark.parametrize("width", [16, 6, 3, 1])
@pytest.mark.parametrize("kernel", [1, 3, 5, 7])
def test_costs_of_inverted_residuals_equal_the_schedule(kernel: int, width: int, chunk: int) -> None:
    maker = GraphMaker(16, 16, 8)
    wide = maker.window(0, 16)
    mixed = maker.window(wide, 16, (kernel, kernel), kind=StageKind.DEPTHWISE)
    maker.join(StageKind.ADD, maker.window(mixed, 8), 0)
    graph, config = maker.graph(), BlockConfig(16, width, chunk)
    costs, exact = price_block(graph, 0, 3, config), scheduled(block_of(graph, 0, 3), config)
    assert costs.work[0] == exact.macs
    assert costs.scratch[0] == exact.scratch_bytes


@pytest.mark.parametrize("chunk", [1, 2, 4])
@pytest.mark.parametrize(("extent", "kernel"), [((1, 64), (1, 5)), ((64, 1), (5, 1)), ((24, 20), (3, 3))])
def test_costs_of_causal_residuals_equal_the_schedule(
    extent: tuple[int, int], kernel: tuple[int, int], chunk: int
) -> None:
    maker, padding = GraphMaker(*extent, 8), (kernel[0] - 1, 0, kernel[1] - 1, 0)
    tensor = maker.window(0, 8)
    for _ in range(3):
        inner = maker.window(tensor, 8, kernel, padding=padding)
        tensor = maker.join(StageKind.ADD, maker.window(inner, 8, kernel, padding=padding), tensor)
    graph, config = maker.graph(), BlockConfig(*extent, chunk)
    last = len(graph.steps) - 1
    costs, exact = price_block(graph, 0, last, config), scheduled(block_of(graph, 0, last), config)
    assert costs.work[0] == exact.macs
    assert costs.scratch[0] == exact.scratch_bytes


@pytest.mark.slow
@settings(max_examples=100)
@given(SEEDS)
def test_branches_with_any_padding_never_cost_less_than_the_schedule(seed: int) -> None:
    random = Random(seed)
    graph = padded_branches(random, random.randint(1, 3))
    last = len(graph.steps) - 1
    check_all_blocks(graph, last, any_config(random, graph, last))


@settings(max_examples=100)
@given(SEEDS)
def test_costs_with_streamed_and_external_inputs_equal_the_schedule(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 7))
    last = random.randrange(len(graph.steps))
    if graph.tensors[0].nbytes == 0 or not graph.is_read(graph.steps[last].outputs[0]):
        return
    chunk = random.choice([1, 2, 4])
    for costs in block_costs(graph, last, lambda it: ((it.height,), (it.width, 2)), Pricing((chunk,), frozenset({0}))):
        driven = graph.tensors[costs.driven]
        reads = [reader for reader in graph.consumers[0] if costs.first <= reader <= last]
        assert not reads or tuple(reads) == graph.consumers[0]
        if reads:
            assert not costs.usable[1] or driven.width <= 2
        if costs.usable[0]:
            storage = Storage.SCRATCH if reads else Storage.INPUT
            block = block_of(graph, costs.first, last, storage)
            exact = scheduled(block, BlockConfig(driven.height, driven.width, chunk))
            assert costs.work[0] >= exact.macs
            assert costs.scratch[0] >= exact.scratch_bytes
            if reads:
                external = scheduled(block_of(graph, costs.first, last, Storage.EXTERNAL), exact.config)
                resident = price_block(graph, costs.first, last, exact.config)
                assert resident.work[0] >= external.macs
                assert resident.scratch[0] >= external.scratch_bytes


def test_a_streamed_image_needs_its_window_alone() -> None:
    maker = GraphMaker(20, 20, 3)
    maker.window(0, 8, (3, 3), (2, 2))
    graph = maker.graph()
    resident = price_block(graph, 0, 0, BlockConfig(10, 10, 1))
    streamed = price_block(graph, 0, 0, BlockConfig(10, 10, 1), Pricing(streamed=frozenset({0})))
    assert streamed.scratch[0] - CURSORS[2] == (2 * 20 + 3) * 3 + 3  # aligned to 4
    assert resident.scratch[0] == CURSORS[1]


def test_a_line_buffer_is_the_formula_of_the_schedule() -> None:
    maker = GraphMaker(20, 20, 3)
    maker.window(maker.window(0, 12), 12, (5, 5), (2, 2), kind=StageKind.DEPTHWISE)
    costs = price_block(maker.graph(), 0, 1, BlockConfig(10, 10, 4))
    assert costs.scratch[0] == (4 * 20 + 3 * 2 + 5) * 12 + CURSORS[2]


def test_a_skip_is_held_as_long_as_the_main_path_lags() -> None:
    maker = GraphMaker(12, 12, 4)
    start = maker.window(0, 8)
    mixed = maker.window(maker.window(start, 16), 16, (3, 3), kind=StageKind.DEPTHWISE)
    maker.join(StageKind.ADD, maker.window(mixed, 8), start)
    costs = price_block(maker.graph(), 0, 4, BlockConfig(12, 12, 1))
    skip, wide, single = (12 + 2) * 8, (2 * 12 + 3) * 16, 16 + 8
    assert costs.scratch[0] == skip + wide + single + CURSORS[5]


def test_a_skip_read_first_is_held_from_the_start_of_the_tile() -> None:
    maker = GraphMaker(12, 12, 4)
    start = maker.window(0, 8)
    # All of the window lies above the pixel: tiles begin two rows before the skip is first needed.
    mixed = maker.window(maker.window(start, 16), 16, (3, 1), padding=(2, 0, 0, 0), kind=StageKind.DEPTHWISE)
    maker.join(StageKind.ADD, start, maker.window(mixed, 8))
    config = BlockConfig(4, 12, 1)
    costs, exact = price_block(maker.graph(), 0, 4, config), scheduled(block_of(maker.graph(), 0, 4), config)
    assert costs.scratch[0] == exact.scratch_bytes
    assert exact.capacities[1] == 2 * 12 + 1


def test_a_long_tail_lies_over_the_rings() -> None:
    maker = GraphMaker(4, 4, 3)
    pooled = maker.accumulate(StageKind.GLOBAL_AVERAGE, maker.window(0, 6, (3, 3)), 6)
    wide = maker.accumulate(StageKind.FULLY_CONNECTED, pooled, 200)
    maker.accumulate(StageKind.FULLY_CONNECTED, maker.accumulate(StageKind.FULLY_CONNECTED, wide, 100), 3)
    graph, config = maker.graph(), BlockConfig(4, 4, 1)
    costs, exact = price_block(graph, 0, 4, config), scheduled(block_of(graph, 0, 4), config)
    assert costs.scratch[0] == exact.scratch_bytes > 300
    assert costs.work[0] == exact.macs == graph.work


def test_full_width_recomputes_nothing_and_strips_count_their_halos() -> None:
    graph = inverted_residuals()
    first, last = 1, 3
    base = sum(graph.steps[index].work for index in range(first, last + 1))
    assert price_block(graph, first, last, BlockConfig(6, 6)).work[0] == base
    # Three strips of two columns: the expansion runs 3 + 4 + 3 columns instead of 6.
    extra = graph.steps[first].work // 6 * 4
    assert price_block(graph, first, last, BlockConfig(6, 2)).work[0] == base + extra


def test_a_folded_tail_needs_accumulators_and_no_feature_map() -> None:
    maker = GraphMaker(8, 8, 3)
    features = maker.window(0, 10, (3, 3))
    pooled = maker.accumulate(StageKind.GLOBAL_AVERAGE, features, 10)
    maker.accumulate(StageKind.FULLY_CONNECTED, maker.other(pooled, 1, 1, 10, view=True), 7)
    graph = maker.graph()
    costs = price_block(graph, 0, 3, BlockConfig(8, 8, 2))
    assert costs.driven == features
    # Accumulators of two bytes per channel, then one chunk of pixels; the average later lies over the pixels.
    assert costs.scratch[0] == 2 * 10 + 2 * 10 + CURSORS[1]
    assert costs.work[0] == graph.work


def test_all_tilings_at_once_equal_each_alone() -> None:
    graph = inverted_residuals((4, 4))
    last = 7
    for costs in block_costs(
        graph, last, lambda driven: (strip_sizes(driven.height), strip_sizes(driven.width)), Pricing((2,))
    ):
        for index, tile in enumerate(zip(costs.tile_height, costs.tile_width, strict=True)):
            alone = price_block(graph, costs.first, last, BlockConfig(int(tile[0]), int(tile[1]), 2))
            assert alone.scratch[0] == costs.scratch[index]
            assert alone.work[0] == costs.work[index]


def test_a_branch_nothing_in_the_block_reads_ends_the_walk() -> None:
    maker = GraphMaker(8, 8, 3)
    left = maker.window(0, 4)
    aside = maker.window(0, 4)
    right = maker.window(left, 4, (3, 3))
    maker.join(StageKind.ADD, right, aside)
    graph = maker.graph()
    assert [costs.first for costs in block_costs(graph, 2, lambda driven: ((8,), (8,)))] == [2]
    assert [costs.first for costs in block_costs(graph, 3, lambda driven: ((8,), (8,)))] == [3, 2, 1, 0]
    with pytest.raises(BlockError, match="conv_0 to conv_2"):
        price_block(graph, 0, 2, BlockConfig(8, 8))


def test_strip_sizes_have_one_entry_per_number_of_strips() -> None:
    assert strip_sizes(9) == (9, 5, 3, 2, 1)
    assert strip_sizes(1) == (1,)


@pytest.mark.parametrize("case", [777058, 777165, 777222])
def test_a_block_that_no_layer_was_added_to_is_not_priced(case: int) -> None:
    """Its driven tensor, which is streamed, has no reader yet."""
    with contextlib.suppress(LimitError):
        tflite_fuse.rewrite(
            random_model(case), verify=False, input_mode="streamed", goal=tflite_fuse.Goal(least_ram=True)
        )
