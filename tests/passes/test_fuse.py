"""Blocks in whole models: what branches, and several inputs and outputs, must not keep from being fused."""

from __future__ import annotations

import pytest

import tflite_fuse
from tflite_fuse import Goal, Result
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.zoo.networks import cell_network, pyramid_network

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def proven(model: Model, **options: object) -> Result:
    result = tflite_fuse.rewrite(serialize_model(model), inputs=6, **options)  # type: ignore[arg-type]
    assert result.report.verified is not None and result.report.verified.bit_exact
    return result


def kinds_inside(result: Result) -> set[str]:
    """The kinds of operators that became part of blocks of several."""
    blocks = [block.operators for block in result.report.blocks if len(block.operators) > 1]
    return {label.rpartition("_")[0] for block in blocks for label in block}


@pytest.mark.parametrize("mode", ["resident", "streamed", "external"])
def test_cells_are_fused_branches_and_all(mode: str) -> None:
    model = cell_network(size=48)
    result = proven(model, input_mode=mode)
    assert kinds_inside(result) >= {"CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "CONCATENATION", "MEAN", "FULLY_CONNECTED"}
    assert result.report.compute_factor == 1.0
    image = 48 * 48 * 3
    resident = proven(model).report.after
    assert 2.5 * (resident.arena_bytes - image) < result.report.before.arena_bytes - image
    if mode != "resident":
        assert result.report.after.arena_bytes < resident.arena_bytes


def test_every_output_of_a_pyramid_is_written() -> None:
    result = proven(pyramid_network())
    assert len(load_model(result.model).main.outputs) == 3
    assert result.report.after.arena_bytes < result.report.before.arena_bytes / 2


def test_a_limit_is_met_with_branches_too() -> None:
    model = cell_network(size=48, cells=3)
    free = proven(model).report.after.arena_bytes
    traded = proven(model, goal=Goal(max_compute=1.5)).report
    assert traded.after.arena_bytes <= free and traded.compute_factor <= 1.5


def test_every_step_is_proven_the_best_of_its_kind() -> None:
    assert proven(cell_network(size=48)).report.optimal == {"order": True, "fusion": True, "plan": True}
