"""Counts of what a block does follow from its schedule; fitted costs give back what the runs took."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tests.fusion.random_blocks import random_block, random_config
from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.kinds.table import macs_per_pixel
from tflite_fuse.fusion.block.limits import STACK_POINTERS
from tflite_fuse.fusion.block.packing import can_pack
from tflite_fuse.fusion.block.stages import Block, BlockConfig, BlockTensor, Stage, StageKind
from tflite_fuse.fusion.instructions.counts import (
    COUNTS,
    block_counts,
    conv_at_once,
    stage_counts,
)
from tflite_fuse.fusion.schedule.schedule import schedule
from tflite_fuse.runtime.library.sources import library_directory


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
        plan = schedule(block, config)
        counts = block_counts(block, plan, at_once)
        assert tuple(counts) == COUNTS and min(counts.values()) >= 0
        assert plan.macs <= sum(counts[name] for name in COUNTS if name.endswith("macs")) <= 4 * plan.macs
        plain = sum(
            macs
            for stage, macs in zip(block.stages, plan.stage_macs, strict=True)
            if stage.kind is StageKind.TRANSPOSE_CONV
            or (
                stage.kind in (StageKind.CONV, StageKind.DEPTHWISE)
                and not can_pack(stage, block.tensors[stage.inputs[0]], STACK_POINTERS)
            )
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
        short = block_counts(block, schedule(block, BlockConfig(config.tile_height, config.tile_width, 1)), 2)
        long = block_counts(block, schedule(block, BlockConfig(config.tile_height, config.tile_width, 64)), 2)
        assert long["runs"] <= short["runs"]
        assert short["conv macs"] == 0


def test_the_kernels_are_counted_as_they_are() -> None:
    """How many pixels the C library computes together decides which kernel a pixel gets."""
    conv = (library_directory() / "kernels" / "weighted" / "tflite_fuse_conv_packed.h").read_text()
    assert re.findall(r"TFLITE_FUSE_CONV_AT_ONCE = (\d+)", conv) == [str(conv_at_once("rv32imc"))]


def counted(
    stage: Stage, source: BlockTensor, output: BlockTensor, runs: dict[int, int], at_once: int
) -> dict[str, int]:
    found = stage_counts(replace(stage, inputs=(0,), output=1), (source, output), runs, at_once)
    return {name: count for name, count in found.items() if count}


def test_a_convolution_by_hand() -> None:
    """3 x 3 x 8 -> 10 channels, a run of five and two of two: 9 pixels of 720 products."""
    source, output = BlockTensor("x", 9, 9, 8, zero_point=0), BlockTensor("y", 9, 9, 10, zero_point=0)
    stage = Stage(StageKind.CONV, (0,), 1, kernel_size=(3, 3), padding=(1, 1))
    common = {"runs": 3, "columns": 3 * (7 + 4 + 4), "conv taps": 81}
    assert counted(stage, source, output, {5: 1, 2: 2}, 2) == common | {
        "conv macs": 8 * 720,
        "conv outputs": 80,
        "conv single macs": 720,
        "conv single outputs": 10,
    }
    assert counted(stage, source, output, {5: 1, 2: 2}, 4) == common | {
        "conv macs": 4 * 720,
        "conv outputs": 40,
        "conv pair macs": 4 * 720,
        "conv pair outputs": 40,
        "conv single macs": 720,
        "conv single outputs": 10,
    }
    large = replace(source, channels=40)  # 360 values: one pixel alone is made pairs of in parts, too
    assert counted(stage, large, output, {5: 1}, 2) == {
        "runs": 1,
        "columns": 21,
        "conv taps": 45,
        "conv part macs": 4 * 3600,
        "conv part outputs": 40,
        "conv single macs": 3600,
        "conv single outputs": 10,
    }


def test_a_depthwise_convolution_by_hand() -> None:
    """Runs of six and of one: four and two with a kernel for two, unless they lie two apart; one by itself."""
    tensor = BlockTensor("x", 20, 20, 8, zero_point=0)
    stage = Stage(StageKind.DEPTHWISE, (0,), 1, kernel_size=(3, 3), padding=(1, 1))
    single = {"depthwise single macs": 72, "depthwise single outputs": 8}
    assert counted(stage, tensor, tensor, {6: 1, 1: 1}, 2) == single | {
        "runs": 2,
        "columns": 3 * (8 + 3),
        "depthwise macs": 4 * 72,
        "depthwise outputs": 32,
        "depthwise pair macs": 2 * 72,
        "depthwise pair outputs": 16,
    }
    apart = replace(stage, stride=(2, 2))
    assert counted(apart, tensor, tensor, {6: 1, 1: 1}, 2) == single | {
        "runs": 2,
        "columns": 3 * (13 + 3),
        "depthwise macs": 8 * 72,
        "depthwise outputs": 64,
    }
    wide = replace(stage, kernel_size=(5, 5), padding=(2, 2))
    assert counted(wide, tensor, tensor, {1: 1}, 2)["depthwise macs"] == 4 * 200


def test_weights_of_one_take_as_long_as_others() -> None:
    tensor = BlockTensor("x", 6, 6, 2, zero_point=0)
    ones = Stage(StageKind.DEPTHWISE, (0,), 1, weights=np.ones((1, 1, 2), np.int8))
    assert macs_per_pixel(ones, [tensor, tensor]) == 0
    others = replace(ones, weights=np.full((1, 1, 2), 2, np.int8))
    assert counted(ones, tensor, tensor, {6: 6}, 2) == counted(others, tensor, tensor, {6: 6}, 2)
