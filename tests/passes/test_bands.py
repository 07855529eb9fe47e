"""Bands of strips in whole models: memory shared with spent input if recompute is allowed, the same bytes."""

from __future__ import annotations

from functools import cache

import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.told import told
from tflite_fuse import Goal, LimitError
from tflite_fuse.emit.in_model import block_overlaps, blocks_in
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.tflm.offline_plan import read_plan
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.search import schemes
from tflite_fuse.tuning import TUNING

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


@cache
def wide_windows() -> bytes:
    """Inverted residuals with 5 x 5 windows: line buffers are large next to what is stored between blocks."""
    b = ModelBuilder(4)
    x = b.conv(b.input((1, 40, 40, 3)), 16, 3, 2, activation="RELU6")
    for stride, channels in ((1, 16), (2, 24), (1, 24), (2, 40)):
        y = b.conv(x, channels * 3, activation="RELU6")
        y = b.conv(b.depthwise(y, 5, stride, activation="RELU6"), channels)
        x = b.add(x, y) if x.shape == y.shape else y
    return serialize_model(b.build([b.fully_connected(b.mean(x), 3)]))


def pooled_windows() -> bytes:
    """A picture, a convolution and pooling that computes nothing twice in tiles of any size."""
    b = ModelBuilder(1)
    x = b.input((1, 50, 50, 3))
    for channels in (8, 16, 24):
        x = b.max_pool(b.conv(x, channels, 3), 2, 2)
    return serialize_model(b.build([b.fully_connected(b.mean(x), 2)]))


def bands(model: bytes) -> list[tuple[int, int]]:
    """Tile height and width of the blocks whose tiles end before the driven tensor does, downwards and sideways."""
    found = []
    for decoded in blocks_in(load_model(model)).values():
        driven = decoded.block.tensors[decoded.block.stages[-1].output]
        if decoded.config.tile_height < driven.height:
            found.append((decoded.config.tile_height, decoded.config.tile_width))
    return found


@pytest.mark.parametrize("mode", tflite_fuse.INPUT_MODES)
def test_the_same_bytes_in_no_more_memory(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    goal = Goal(max_compute=1.3)
    result = tflite_fuse.rewrite(wide_windows(), input_mode=mode, goal=goal, inputs=8)
    monkeypatch.setattr(schemes, "_bands", schemes._strips)
    without = tflite_fuse.rewrite(wide_windows(), input_mode=mode, goal=goal, inputs=1)
    assert result.report.verified is not None and result.report.verified.bit_exact
    assert result.report.compute_factor <= 1.3 and not bands(without.model)
    least = without.report.after.arena_bytes
    assert result.report.after.arena_bytes <= least + least // TUNING.slack_recomputing
    if mode == "external":
        assert bands(result.model) and result.report.after.arena_bytes < without.report.after.arena_bytes
        assert told(result.report.records, "fused", "tiles")


def test_the_plan_lets_bands_write_over_their_input_and_is_sound() -> None:
    result = tflite_fuse.rewrite(wide_windows(), input_mode="external", goal=Goal(max_compute=1.3), inputs=1)
    model = load_model(result.model)
    graph, offsets, overlaps = program_of(model), read_plan(model), block_overlaps(model)
    assert offsets is not None
    check_plan(graph, offsets, overlaps)
    tiled = {index for index, block in blocks_in(model).items() if block.config.tile_height < 1 << 8}
    shared = [
        overlap
        for overlap in overlaps
        if offsets[overlap.output] < offsets[overlap.input] + graph.sizes[overlap.input]
        and offsets[overlap.input] < offsets[overlap.output] + graph.sizes[overlap.output]
    ]
    assert tiled and shared


def test_no_pixel_is_computed_twice_by_default() -> None:
    result = tflite_fuse.rewrite(wide_windows(), input_mode="external", inputs=1)
    assert not bands(result.model) and result.report.compute_factor == 1.0


def test_a_limit_that_strips_miss_is_met_with_bands() -> None:
    goal = Goal(max_compute=1.3)
    least = tflite_fuse.rewrite(wide_windows(), input_mode="external", goal=goal, inputs=1).report.after.arena_bytes
    met = Goal(max_ram=least, max_compute=1.3)
    result = tflite_fuse.rewrite(wide_windows(), input_mode="external", goal=met, inputs=4)
    assert bands(result.model) and result.report.after.arena_bytes <= least and result.report.compute_factor <= 1.3
    with pytest.raises(LimitError, match="cannot be reached"):
        tflite_fuse.rewrite(wide_windows(), input_mode="external", goal=Goal(max_ram=1000), verify=False)


def test_bands_that_compute_nothing_twice_are_looked_at_for_speed() -> None:
    """Whole rows of the convolution take 384 bytes more than runs of eight of its pixels, and save next to nothing."""
    least = tflite_fuse.rewrite(pooled_windows(), goal=Goal(least_ram=True), verify=False).report
    whole = tflite_fuse.rewrite(pooled_windows(), goal=Goal(max_ram=least.after.arena_bytes + 512), verify=False).report
    result = tflite_fuse.rewrite(pooled_windows(), inputs=8)
    chosen = result.report
    assert chosen.verified is not None and chosen.verified.bit_exact and chosen.compute_factor <= 1.0
    assert bands(result.model) and least.after.arena_bytes < chosen.after.arena_bytes
    assert chosen.after.arena_bytes <= whole.after.arena_bytes
    assert least.prediction and whole.prediction and chosen.prediction
    assert chosen.prediction.instructions < 0.9 * least.prediction.instructions
    assert chosen.prediction.instructions < 1.05 * whole.prediction.instructions
