"""The schedule worked out with arrays against the schedule followed step by step."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawing.plain_pull import PlainPull
from tests.drawing.random_blocks import random_block
from tests.drawing.random_configs import one_tile, random_config
from tests.drawing.waiting_blocks import waiting_block
from tflite_fuse.cost.schedule import tile_order
from tflite_fuse.cost.schedule.events import Followed
from tflite_fuse.cost.schedule.schedule import Orders, schedule
from tflite_fuse.cost.schedule.tile_order import TileOrder
from tflite_fuse.cost.schedule.tiles import split_block
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, Stage, Storage


def compare(block: Block, config: BlockConfig) -> None:
    plan, plain = schedule(block, config), PlainPull(block, config)
    assert (plan.driven, plan.spatial_stages) == (plain.driven, plain.spatial)
    for index, tensor in enumerate(block.tensors):
        if tensor.storage is Storage.SCRATCH:
            assert plan.capacities[index] == max(1, plain.capacity.get(index, 0)), tensor.name
    spatial = block.stages[: plan.spatial_stages]
    assert plan.stage_pixels[: plan.spatial_stages] == tuple(plain.pixels[stage.output] for stage in spatial)
    if plain.only:
        assert plan.overlaps == plain.distance


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_schedule_is_that_of_the_executor(rng: Random) -> None:
    block = random_block(rng, largest=9)
    config = random_config(rng, block)
    try:
        compare(block, config)
    except BlockError as error:
        assert "holes" in str(error)
        compare(block, one_tile(config))


@pytest.mark.parametrize("first", range(0, 240, 80))
def test_schedule_on_many_seeds(first: int) -> None:
    for seed in range(first, first + 80):
        rng = Random(seed)
        block = random_block(rng, largest=8)
        compare(block, one_tile(random_config(rng, block)))


@settings(max_examples=100)
@given(st.randoms(use_true_random=False))
def test_stages_that_wait_run_as_the_executor_runs_them(rng: Random) -> None:
    compare(*waiting_block(rng))


@pytest.mark.slow
@pytest.mark.parametrize("kept", [tile_order.MOST_KEPT, 100])
def test_schedules_that_share_orders_are_those_made_alone(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_order, "MOST_KEPT", kept)
    for seed in range(60):
        rng = Random(seed)
        block = random_block(rng, largest=8)
        first = random_config(rng, block)
        try:
            orders = Orders(block, first)
        except BlockError:
            first = one_tile(first)
            orders = Orders(block, first)
        tile = {"tile_height": first.tile_height, "tile_width": first.tile_width}
        configs = [first, *(replace(random_config(rng, block), **tile) for _ in range(6)), first]
        for config in configs:
            assert schedule(block, config, orders) == schedule(block, config)


def test_unchanged_runs_are_not_simulated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row has as many as 17 pixels, and the runs of what writes the driven tensor stay as they are."""
    steps, step = list[int](), TileOrder._step

    def counted(order: TileOrder, now: Any, stage: Stage, longest: int, ahead: bool) -> Followed:
        steps.append(stage.output)
        return step(order, now, stage, longest, ahead)

    monkeypatch.setattr(TileOrder, "_step", counted)
    for seed in range(30):
        rng = Random(seed)
        block = random_block(rng, largest=8)
        assert max(tensor.width for tensor in block.tensors) <= 17
        first = replace(one_tile(random_config(rng, block)), longest_runs=_runs_of(block, 17))
        orders, longer = Orders(block, first), replace(first, longest_runs=_runs_of(block, 255))
        before = schedule(block, first, orders)
        steps.clear()
        assert schedule(block, longer, orders) == replace(before, config=longer)
        assert not steps
        shorter = replace(first, longest_runs=_runs_of(block, 1), ahead=frozenset())
        assert schedule(block, shorter, orders) == schedule(block, shorter)


def _runs_of(block: Block, pixels: int) -> tuple[int, ...]:
    """Runs as long for all stages that may have some of their own."""
    split = split_block(block)
    return tuple(pixels * (bool(stage.inputs) and stage.output != split.driven) for stage in split.spatial)
