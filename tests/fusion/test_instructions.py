"""Counts of what a block does follow from its schedule; fitted costs give back what the runs took."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.fusion.random_blocks import random_block, random_config
from tflite_fuse.errors import BlockError, UsageError
from tflite_fuse.fusion.block import Block, BlockConfig
from tflite_fuse.fusion.instructions import COUNTS, block_counts, fit_costs, predicted_instructions
from tflite_fuse.fusion.schedule import schedule


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


def test_all_multiply_accumulates_are_counted_once() -> None:
    for block, config in some_blocks(40):
        counts = block_counts(block, config)
        assert tuple(counts) == COUNTS
        macs = sum(counts[f"{kind} macs"] for kind in ("conv", "depthwise", "plain", "dense"))
        assert macs == schedule(block, config).macs
        assert min(counts.values()) >= 0


def test_one_pixel_a_run_is_a_run_for_every_pixel() -> None:
    for block, config in some_blocks(40):
        plan = schedule(block, BlockConfig(config.tile_height, config.tile_width, 1))
        assert plan.stage_runs == plan.stage_pixels[: plan.spatial_stages]


def test_longer_runs_are_fewer() -> None:
    for block, config in some_blocks(40):
        short = block_counts(block, BlockConfig(config.tile_height, config.tile_width, 1))
        long = block_counts(block, BlockConfig(config.tile_height, config.tile_width, 64))
        assert long["runs"] <= short["runs"]
        assert {**long, "runs": 0} == {**short, "runs": 0}


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
