"""Counts of what a block does follow from its schedule; fitted costs give back what the runs took."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.fusion.random_blocks import random_block, random_config
from tflite_fuse.errors import BlockError, UsageError
from tflite_fuse.fusion.block import Block, BlockConfig, StageKind
from tflite_fuse.fusion.instructions import COUNTS, block_counts, fit_costs, predicted_instructions
from tflite_fuse.fusion.packing import can_pack
from tflite_fuse.fusion.schedule import STACK_POINTERS, schedule


def some_blocks(count: int) -> list[tuple[Block, BlockConfig]]:
    rng, found = Random(3), []
    while len(found) < count:
        block = random_block(rng, largest=9)
        config = random_config(rng, block)
        try:
            schedule(block, config)
        except BlockError:
            continue
        found.append((block, config))
    return found


@pytest.mark.parametrize("at_once", [2, 4])
def test_all_multiply_accumulates_are_counted(at_once: int) -> None:
    """Some more than once: those of pixels that kernels compute for nobody, to fill a group."""
    for block, config in some_blocks(40):
        counts, plan = block_counts(block, config, at_once), schedule(block, config)
        assert tuple(counts) == COUNTS and min(counts.values()) >= 0
        assert plan.macs <= sum(counts[name] for name in COUNTS if name.endswith("macs")) <= 4 * plan.macs
        plain = sum(
            macs
            for stage, macs in zip(block.stages, plan.stage_macs, strict=True)
            if stage.kind in (StageKind.CONV, StageKind.DEPTHWISE)
            and not can_pack(stage, block.tensors[stage.inputs[0]], STACK_POINTERS)
        )
        assert counts["plain macs"] == plain


def test_runs_hold_all_pixels_and_none_is_longer_than_allowed() -> None:
    for block, config in some_blocks(40):
        plan = schedule(block, config)
        for runs, pixels in zip(plan.stage_runs, plan.stage_pixels, strict=False):
            assert sum(length * times for length, times in runs.items()) == pixels
            assert all(1 <= length <= config.chunk and times > 0 for length, times in runs.items())


def test_longer_runs_are_fewer() -> None:
    for block, config in some_blocks(40):
        short = block_counts(block, BlockConfig(config.tile_height, config.tile_width, 1), 2)
        long = block_counts(block, BlockConfig(config.tile_height, config.tile_width, 64), 2)
        assert long["runs"] <= short["runs"]
        assert short["conv macs"] == 0


def test_costs_that_made_the_runs_are_found_again() -> None:
    true = {name: 1.0 + index / 2 for index, name in enumerate(COUNTS)}
    rng = Random(1)
    rows = [{name: rng.randrange(1, 10_000) for name in COUNTS} for _ in range(60)]
    costs = fit_costs(rows, [predicted_instructions(row, true) for row in rows])
    assert costs == pytest.approx(true, rel=1e-2)


def test_no_cost_is_negative_and_none_could_be_better() -> None:
    """At the optimum no cost can change in an allowed direction that lowers the error (Karush, Kuhn, Tucker)."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        rows = rng.integers(0, 1000, (30, len(COUNTS)))
        took = rng.integers(1000, 100_000, 30)
        fitted = fit_costs([dict(zip(COUNTS, map(int, row), strict=True)) for row in rows], list(map(int, took)))
        costs = np.array([fitted[name] for name in COUNTS])
        scaled = rows / took[:, None]
        slope = scaled.T @ (scaled @ costs - 1)
        assert (costs >= 0).all() and (slope >= -1e-7).all()
        assert np.allclose(slope[costs > 0], 0, atol=1e-7)


def test_nothing_to_fit_from_is_refused() -> None:
    with pytest.raises(UsageError):
        fit_costs([], [])
    with pytest.raises(UsageError):
        fit_costs([dict.fromkeys(COUNTS, 1)], [0])
