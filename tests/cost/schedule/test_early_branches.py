"""Branches that run early: what they save, what the search expects of them, and what the library computes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawing.small_graphs import GraphMaker, random_graph
from tests.drawing.weightless import block_of, early
from tflite_fuse.cost.estimate.block_costs import price_block
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.cost.schedule.schedule import Orders, schedule
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, StageKind, Storage

WHOLE = BlockConfig(65535, 65535, 1)


def shortcut(stride: int, channels: int, more: int) -> PricedProgram:
    """A residual block whose shortcut is a convolution of single pixels."""
    maker = GraphMaker(16, 16, 3)
    start = maker.window(0, channels)
    main = maker.window(maker.window(start, more, (3, 3), (stride, stride)), more, (3, 3))
    maker.join(StageKind.ADD, maker.window(start, more, (1, 1), (stride, stride)), main)
    return maker.graph()


def partial(channels: int) -> PricedProgram:
    """A stage of a cross stage partial network: half of the channels go around two convolutions."""
    maker = GraphMaker(16, 16, 3)
    start = maker.window(0, channels)
    main = maker.window(maker.window(maker.window(start, channels // 2), channels // 2, (3, 3)), channels // 2, (3, 3))
    maker.join(StageKind.CONCATENATION, main, maker.window(start, channels // 2))
    return maker.graph()


@pytest.mark.parametrize("stride, channels, more", [(2, 16, 32), (2, 8, 8)])
def test_a_shortcut_is_kept_in_place_of_its_input(stride: int, channels: int, more: int) -> None:
    graph = shortcut(stride, channels, more)
    block = block_of(graph, 0, 4)
    made, found = early(block, WHOLE)
    first, width = block.stages[1].output, 16 // stride
    waiting = [stage.output for stage in made.stages if stage.waits_for >= 0]
    assert waiting == [first]
    assert found.capacities[block.stages[0].output] == 2 * 16 + 3
    assert found.capacities[block.stages[3].output] == width + 2
    assert price_block(graph, 0, 4, WHOLE).scratch[0] == found.scratch_bytes < schedule(block, WHOLE).scratch_bytes


def test_half_of_the_channels_is_kept_in_place_of_all() -> None:
    graph = partial(32)
    made, found = early(block_of(graph, 0, 5), WHOLE)
    assert any(stage.waits_for >= 0 for stage in made.stages)
    assert price_block(graph, 0, 5, WHOLE).scratch[0] == found.scratch_bytes


@pytest.mark.parametrize("channels, more", [(8, 64), (4, 32)])
def test_a_branch_with_more_channels_than_its_input_stays_late(channels: int, more: int) -> None:
    block = block_of(shortcut(1, channels, more), 0, 4)
    assert early(block, WHOLE) == (block, schedule(block, WHOLE))


@pytest.mark.parametrize("rows, columns", [(6, 0), (0, 6), (3, 5)])
def test_where_other_pixels_are_computed_no_branch_is_expected_to_be_early(rows: int, columns: int) -> None:
    maker = GraphMaker(16, 16, 3)
    start = maker.window(0, 32)
    main = maker.window(maker.window(maker.window(start, 8), 8, (3, 3)), 8, (3, 3))
    joined = maker.join(StageKind.CONCATENATION, main, maker.window(start, 8))
    maker.window(joined, 4, padding=(-rows, 0, -columns, 0))
    graph = maker.graph()
    made, found = early(block_of(graph, 0, 6), WHOLE)
    assert all(stage.waits_for < 0 for stage in made.stages)
    assert price_block(graph, 0, 6, WHOLE).scratch[0] >= found.scratch_bytes


def test_blocks_in_tiles_have_none() -> None:
    block, config = block_of(shortcut(2, 16, 32), 0, 4), BlockConfig(65535, 4, 1)
    assert early(block, config) == (block, schedule(block, config))


def ways(block: Block) -> list[Block]:
    """The block with every stage waiting for nothing or for any tensor it may wait for, in every possible order."""
    spatial = [number for number, stage in enumerate(block.stages) if block.tensors[stage.output].pixels > 1]
    tensors = [
        block.stages[n].output for n in spatial if block.tensors[block.stages[n].output].storage is Storage.SCRATCH
    ]
    found = []
    for waits in product((-1, *tensors), repeat=len(spatial)):
        stages = list(block.stages)
        for number, awaited in zip(spatial, waits, strict=True):
            stages[number] = replace(stages[number], waits_for=awaited)
        ordered, made = [], set(block.inputs)
        while ready := [s for s in stages if s not in ordered and {*s.inputs, *({s.waits_for} - {-1})} <= made]:
            ordered += ready[:1]
            made.add(ready[0].output)
        alike = all(
            s.waits_for < 0 or block.tensors[s.waits_for].pixels == block.tensors[s.output].pixels for s in stages
        )
        if len(ordered) == len(stages) and alike:
            found.append(replace(block, stages=tuple(ordered)))
    return found


@pytest.mark.parametrize("graph", [shortcut(2, 16, 32), shortcut(1, 16, 8), shortcut(1, 4, 16)])
def test_no_other_waits_need_less(graph: PricedProgram) -> None:
    block = block_of(graph, 0, 4)
    least = min(schedule(each, WHOLE).scratch_bytes for each in ways(block))
    assert early(block, WHOLE)[1].scratch_bytes == least


@pytest.mark.slow
@pytest.mark.parametrize("graph", [shortcut(2, 16, 32), partial(8)])
def test_orders_of_stages_that_share_their_last_ones_are_those_made_alone(graph: PricedProgram) -> None:
    block = block_of(graph, 0, len(graph.steps) - 1)
    orders = Orders(block, WHOLE)
    for each in ways(block):
        assert schedule(each, WHOLE, orders) == schedule(each, WHOLE)


@settings(max_examples=100)
@given(st.integers(0, 1 << 30), st.sampled_from([1, 2, 4]))
def test_they_never_need_more(seed: int, chunk: int) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(3, 8))
    first, last = 0, len(graph.steps) - 1
    try:
        block = block_of(graph, first, last)
        before = schedule(block, replace(WHOLE, chunk=chunk))
    except (BlockError, IndexError, KeyError, ValueError):
        return
    made, found = early(block, replace(WHOLE, chunk=chunk))
    assert made == block if found == before else found.scratch_bytes < before.scratch_bytes
