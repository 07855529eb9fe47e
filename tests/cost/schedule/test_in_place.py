"""Stages that compute in place: which ones do, what they save, and what the search expects of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawing.random_blocks import random_block
from tests.drawing.random_configs import one_tile, random_config
from tests.drawing.small_graphs import GraphMaker
from tests.drawing.steps.floats import float_block
from tests.drawing.weightless import block_of
from tflite_fuse.cost.estimate.block_costs import price_block
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.cost.schedule.in_place import with_stages_in_place
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, StageKind, Storage
from tflite_fuse.ir.limits import MAX_COPIED_FLOATS, MAX_PATCH_VALUES
from tflite_fuse.ops.check import check_block
from tflite_fuse.ops.entry import Window
from tflite_fuse.ops.table import KINDS

WHOLE = BlockConfig(65535, 65535, 2)


def separable(channels: int, more: int, *, kernel: int = 1, kind: StageKind = StageKind.CONV) -> PricedProgram:
    """Two depthwise convolutions with a convolution between them, which gives each pixel ``more`` channels."""
    maker = GraphMaker(12, 5, 3)
    first = maker.window(maker.window(0, channels), channels, (3, 3), kind=StageKind.DEPTHWISE)
    maker.window(maker.window(first, more, (kernel, kernel), kind=kind), more, (3, 3), kind=StageKind.DEPTHWISE)
    return maker.graph()


@pytest.mark.parametrize("kind", [StageKind.CONV, StageKind.FLOAT_CONV])
@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_a_convolution_of_single_pixels_writes_over_its_input(chunk: int, kind: StageKind) -> None:
    graph, config = separable(16, 16, kind=kind), replace(WHOLE, chunk=chunk)
    apart = block_of(graph, 0, 3)
    block = with_stages_in_place(apart)
    pointwise = block.stages[2]
    assert [stage.overwrites for stage in block.stages] == [-1, -1, pointwise.inputs[0], -1]
    before, after = schedule(apart, config), schedule(block, config)
    assert after.offsets[pointwise.output] == after.offsets[pointwise.inputs[0]]
    assert after.capacities[pointwise.inputs[0]] == before.capacities[pointwise.output]
    assert after.scratch_bytes == before.scratch_bytes - 16 * chunk
    assert after.scratch_bytes <= price_block(graph, 0, 3, config).scratch[0] < before.scratch_bytes


@pytest.mark.parametrize(
    "graph",
    [
        separable(16, 24),
        separable(16, 16, kernel=3),
        separable(MAX_PATCH_VALUES + 4, MAX_PATCH_VALUES + 4),
        separable(MAX_COPIED_FLOATS + 1, MAX_COPIED_FLOATS + 1, kind=StageKind.FLOAT_CONV),
    ],
    ids=["other channels", "larger window", "more values than kernels copy", "more float32"],
)
def test_other_convolutions_have_rings_of_their_own(graph: PricedProgram) -> None:
    block = with_stages_in_place(block_of(graph, 0, 3))
    assert all(stage.overwrites < 0 for stage in block.stages)


def test_no_stage_writes_over_a_tensor_with_another_reader() -> None:
    maker = GraphMaker(8, 8, 3)
    shared = maker.window(0, 8)
    maker.window(maker.join(StageKind.ADD, maker.window(shared, 8), shared), 8, (3, 3), kind=StageKind.DEPTHWISE)
    block = with_stages_in_place(block_of(maker.graph(), 0, 3))
    overwritten = {stage.kind: stage.overwrites for stage in block.stages}
    assert overwritten[StageKind.ADD] == block.stages[1].output
    assert block.stages[1].overwrites < 0


@settings(max_examples=150)
@given(st.integers(0, 1 << 30), st.sampled_from([random_block, float_block]))
def test_stages_in_place_never_need_more(seed: int, draw: Callable[..., Block]) -> None:
    rng = Random(seed)
    block = draw(rng, largest=9)
    apart = replace(block, stages=tuple(replace(stage, overwrites=-1) for stage in block.stages))
    config = random_config(rng, block)
    try:
        before = schedule(apart, config)
    except BlockError:
        config = one_tile(config)
        before = schedule(apart, config)
    after = schedule(with_stages_in_place(apart), config)
    assert after.scratch_bytes <= before.scratch_bytes
    assert after.stage_runs == before.stage_runs


def test_stages_that_may_read_overwritten_pixels_are_refused() -> None:
    windows = others = 0
    for seed in range(60):
        block = random_block(Random(seed), largest=8)
        rings = {index for index, tensor in enumerate(block.tensors) if tensor.storage is Storage.SCRATCH}
        for number, stage in enumerate(block.stages):
            slides = KINDS[stage.kind].window is Window.SLIDING and stage.kernel_size != (1, 1)
            for tensor in rings.intersection(stage.inputs) if slides else rings.difference(stage.inputs):
                windows, others = windows + slides, others + (not slides)
                stages = list(block.stages)
                stages[number] = replace(stage, overwrites=tensor)
                with pytest.raises(BlockError, match="overwrites"):
                    check_block(replace(block, stages=tuple(stages)))
    assert windows > 20 and others > 100
