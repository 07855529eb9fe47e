"""The bound against the executor's schedule, and against every way to run a small model."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawing.small_graphs import GraphMaker, inverted_residuals, random_chain, random_graph
from tests.drawing.weightless import block_of, scheduled
from tflite_fuse.cost.estimate.block_costs import block_costs, driven_tensor
from tflite_fuse.cost.estimate.growing_block import Pricing
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.ir.axes import AxisWindow
from tflite_fuse.ir.block import BlockConfig, StageKind, Storage
from tflite_fuse.ir.tail_shares import TailShares
from tflite_fuse.search.bound import BoundRules, _taps_inside, least_arena
from tflite_fuse.search.cut_graph import Residency
from tflite_fuse.units import round_up

SEEDS = st.integers(0, 1 << 30)

Step = tuple[int, int, BlockConfig | None]


def steps_ending_at(graph: PricedProgram, last: int, moved: bool) -> list[Step]:
    """Every operator as it is and every block in every tiling, in the shortest runs: longer ones need no less."""
    found: list[Step] = [] if moved and 0 in graph.steps[last].inputs else [(last, last, None)]
    driven = {first: graph.tensors[driven_tensor(graph, first, last)] for first in range(last + 1)}
    pricing = Pricing((1,), frozenset({0}) if moved else frozenset())
    for costs in block_costs(
        graph, last, lambda tensor: (range(1, tensor.height + 1), range(1, tensor.width + 1)), pricing
    ):
        extent = driven[costs.first]
        sizes = list(product(range(1, extent.height + 1), range(1, extent.width + 1)))
        tilings = [size for size, usable in zip(sizes, costs.usable, strict=True) if usable]
        found += [(costs.first, last, BlockConfig(*size, 1)) for size in tilings]
    return found


def least_of_all(graph: PricedProgram, moved: bool = False) -> int:
    """The least peak + tail of any sequence of steps, by exact schedules, sharing all that any step could share."""
    sizes = (0, *graph.sizes[1:]) if moved else graph.sizes
    residency = Residency(replace(graph, sizes=tuple(sizes)), 16)
    labels = {0: {(residency.start, 0)}}
    for last in range(len(graph.steps)):
        labels[last + 1] = set()
        for first, _, config in steps_ending_at(graph, last, moved):
            head, tail = residency.outside(first, last), graph.tail.of_operator(last)
            if config is not None:
                exact = scheduled(block_of(graph, first, last, Storage.SCRATCH if moved else Storage.INPUT), config)
                dying = sum(
                    round_up(sizes[t], 16)
                    for t in range(len(sizes))
                    if graph.producer[t] < first and t not in graph.outputs
                    if graph.consumers[t] and first <= graph.consumers[t][-1] <= last
                )
                head += round_up(exact.scratch_bytes, 16) - min(dying, residency.outliving(first, last))
                tail = graph.tail.of_block(residency.results(first, last))
            labels[last + 1] |= {(max(peak, head), sums + tail) for peak, sums in labels[first]}
    return min(peak + tail for peak, tail in labels[len(graph.steps)]) + graph.tail.fixed


@pytest.mark.slow
@settings(max_examples=6)
@given(SEEDS, st.booleans(), st.booleans())
def test_no_way_to_run_a_small_graph_needs_less(seed: int, branching: bool, moved: bool) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 4)) if branching else random_chain(random, random.randint(2, 3))
    if moved and 0 in graph.outputs:
        return
    layers = tuple(random.randrange(200) for _ in graph.steps)
    tail = TailShares(layers, random.randrange(200), random.randrange(30), 100)
    graph = replace(graph, tail=tail)
    rules = BoundRules(frozenset({0}) if moved else frozenset(), streamed=moved)
    try:
        least = least_of_all(graph, moved)
    except ValueError:  # a stream no block can read
        return
    assert least_arena(graph, rules) <= least


@pytest.mark.slow
@pytest.mark.parametrize("moved", [False, True])
def test_nor_an_inverted_residual_with_a_folded_tail(moved: bool) -> None:
    graph = inverted_residuals((2, 2), size=6)
    rules = BoundRules(frozenset({0}) if moved else frozenset(), streamed=moved)
    assert 0 < least_arena(graph, rules) <= least_of_all(graph, moved)


@pytest.mark.parametrize("kernel", [(1, 1), (1, 3)])
def test_a_streamed_input_may_share_a_ring_with_a_stage_in_place(kernel: tuple[int, int]) -> None:
    maker = GraphMaker(6, 5, 32)
    maker.window(maker.window(0, 32), 1, kernel)
    rules = BoundRules(frozenset({0}), streamed=True)
    assert kernel[1] * 32 < least_arena(maker.graph(), rules) <= least_of_all(maker.graph(), moved=True)


def test_operators_no_block_can_hold_make_the_bound_their_working_set() -> None:
    maker = GraphMaker(8, 8, 4)
    wide = maker.window(0, 16, (3, 3))
    other = maker.other(wide, 8, 8, 16)
    maker.window(other, 2)
    assert least_arena(maker.graph()) == 2 * 8 * 8 * 16
    assert least_arena(maker.graph(), BoundRules(in_place=True)) < 2 * 8 * 8 * 16


def test_a_tensor_held_past_such_an_operator_counts_too() -> None:
    maker = GraphMaker(8, 8, 4)
    kept = maker.window(0, 8)
    other = maker.other(kept, 8, 8, 8)
    maker.other(maker.join(StageKind.ADD, other, kept), 1, 1, 1)
    held, cursor = 2 * 8 * 8 * 8, 16
    assert least_arena(maker.graph()) == held + cursor
    assert least_arena(maker.graph(), BoundRules(overlap=False)) == held + 8 * 8 * 8


def test_a_ring_holds_the_window_of_its_reader_and_a_stage_its_cursor() -> None:
    maker = GraphMaker(16, 16, 4)
    maker.window(maker.window(0, 8, (3, 3)), 4, (5, 5))
    whole, rings, cursors = 16 * 16 * 4, 25 * 8, 24
    assert least_arena(maker.graph()) == whole + -(-(rings + cursors) // 16) * 16
    assert least_arena(maker.graph(), BoundRules(overlap=False)) == 2 * whole + -(-(rings + cursors) // 16) * 16
    streamed = least_arena(maker.graph(), BoundRules(frozenset({0}), streamed=True))
    assert streamed == whole + -(-(rings + 9 * 4 + cursors) // 16) * 16


def test_pixels_without_readers_count_as_no_window() -> None:
    """Of the 3x3 layer only what a strided reader looks at is computed, and there windows may lie half in padding."""
    maker = GraphMaker(3, 3, 1)
    narrow = maker.window(maker.window(0, 16, (1, 1)), 4, (3, 3))
    maker.window(narrow, 1, (1, 1), (4, 4), (0, 0, 0, 0))
    graph = maker.graph()
    assert least_arena(graph) <= least_of_all(graph)


@given(
    st.integers(1, 5), st.integers(0, 9), st.integers(1, 8), st.integers(1, 5), st.integers(1, 20), st.integers(1, 20)
)
def test_taps_inside_an_axis_are_counted(
    stride: int, padding: int, taps: int, dilation: int, length: int, count: int
) -> None:
    window = AxisWindow(stride, padding, (taps - 1) * dilation + 1)
    starts = [index * stride - padding for index in range(count)]
    inside = [sum(0 <= start + tap * dilation < length for tap in range(taps)) for start in starts]
    assert _taps_inside(window, taps, dilation, length, count).tolist() == inside


def test_a_window_of_many_taps_takes_no_memory_for_each() -> None:
    taps = 1 << 30
    assert _taps_inside(AxisWindow(1, 0, taps), taps, 1, 1 << 20, 3).tolist() == [1 << 20, (1 << 20) - 1, (1 << 20) - 2]
