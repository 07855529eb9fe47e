"""Chains of fully connected layers: maps of one pixel, small arenas, mostly the runtime's own data."""

from __future__ import annotations

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from tflite_fuse.model import serialize_model
from tflite_fuse.passes.goal import Goal


def chain(source: int, *widths: int) -> bytes:
    b = ModelBuilder(seed=0)
    x = b.input((1, source))
    for width in widths:
        x = b.fully_connected(x, width)
    return serialize_model(b.build([x]))


def test_an_autoencoder_is_cut_where_scratch_lies_over_spent_input() -> None:
    """Best of all ways to cut it into at most five blocks or operators: 0 to 1, 2 to 7, 8 and 9."""
    model = chain(640, *[128] * 4, 8, *[128] * 4, 640)
    report = tflite_fuse.rewrite(model, inputs=2).report
    assert report.after.arena_bytes <= 1_392 < report.before.arena_bytes and report.compute_factor == 1.0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("runtime", ["reference", "arduino"])
def test_no_arena_of_a_chain_grows(seed: int, runtime: str) -> None:
    rng = np.random.default_rng(seed)
    widths = rng.choice([8, 16, 64, 128], rng.integers(1, 11)).tolist()
    model = chain(int(rng.choice([1, 16, 640])), *widths)
    for goal in (None, Goal(least_ram=True)):
        report = tflite_fuse.rewrite(model, goal=goal, verify=False, runtime=runtime).report
        assert report.after.arena_bytes <= report.before.arena_bytes
        assert report.after.arena_used_bytes <= report.before.arena_used_bytes
