"""Counts of a block follow from its schedule; fitted costs reproduce the counted runs."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tests.drawing.random_blocks import random_block
from tests.drawing.random_configs import random_config
from tflite_fuse.cost.instructions import COUNTS, block_counts, kernels_of, stage_counts
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import MAX_CHUNK
from tflite_fuse.ops.entry import Kernels
from tflite_fuse.ops.packing import can_pack
from tflite_fuse.ops.table import macs_per_pixel
from tflite_fuse.ops.weighted.work import LANES, MOST_PIXELS, WINDOW_BYTES
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


@pytest.mark.parametrize("kernels", Kernels)
def test_all_multiply_accumulates_are_counted(kernels: Kernels) -> None:
    """But those of few pixels by themselves, which are counted by outputs; fillings are counted, too."""
    for block, config in some_blocks(40):
        plan = schedule(block, config)
        counts = block_counts(block, plan, kernels)
        assert tuple(counts) == COUNTS and min(counts.values()) >= 0
        few = 9 * sum(counts[f"depthwise {name} outputs"] for name in ("pair", "single"))
        assert plan.macs <= few + sum(counts[name] for name in COUNTS if name.endswith("macs"))
        plain = sum(
            macs
            for stage, macs in zip(block.stages, plan.stage_macs, strict=True)
            if stage.kind in (StageKind.TRANSPOSE_CONV, StageKind.MATRIX_PRODUCT)
            or (
                stage.kind in (StageKind.CONV, StageKind.DEPTHWISE)
                and not can_pack(stage, block.tensors[stage.inputs[0]])
            )
        )
        by_eight = sum(
            macs // block.tensors[stage.output].channels * (block.tensors[stage.output].channels // 8 * 8)
            for stage, macs in zip(block.stages, plan.stage_macs, strict=True)
            if stage.kind is StageKind.DEPTHWISE
            and stage.depth_multiplier == 1
            and not can_pack(stage, block.tensors[stage.inputs[0]])
        )
        assert counts["plain macs"] == plain - (by_eight if kernels is Kernels.HELIUM else 0)


def test_runs_hold_all_pixels_and_none_is_longer_than_allowed() -> None:
    for block, config in some_blocks(40):
        plan = schedule(block, config)
        for number, (runs, pixels) in enumerate(zip(plan.stage_runs, plan.stage_pixels, strict=False)):
            longest = config.longest_run(number) if block.stages[number].inputs else MAX_CHUNK
            assert sum(length * times for length, times in runs.items()) == pixels
            assert all(1 <= length <= longest and times > 0 for length, times in runs.items())


def test_longer_runs_are_fewer() -> None:
    for block, config in some_blocks(40):
        short = block_counts(block, schedule(block, BlockConfig(config.tile_height, config.tile_width, 1)), Kernels.DSP)
        long = block_counts(block, schedule(block, BlockConfig(config.tile_height, config.tile_width, 64)), Kernels.DSP)
        assert long["runs"] <= short["runs"]
        assert short["conv macs"] == 0


def test_the_kernels_are_counted_as_they_are() -> None:
    """How many pixels the C library computes together decides which kernel a pixel gets."""
    kernels = library_directory() / "kernels"
    packed = (kernels / "weighted" / "tflite_fuse_conv_packed.h").read_text()
    assert re.findall(r"TFLITE_FUSE_CONV_AT_ONCE = (\d+)", packed) == ["2"]
    helium = (kernels / "mve" / "tflite_fuse_conv_mve.c").read_text()
    told = re.findall(r"MOST_PIXELS = (\d+), PATCH_BYTES = (\d+), LANES = (\d+)", helium)
    assert told == [tuple(map(str, (MOST_PIXELS, WINDOW_BYTES, LANES)))]
    assert [kernels_of(core) for core in ("cortex-m7", "cortex-m55", "rv32imc")] == [
        Kernels.DSP,
        Kernels.HELIUM,
        Kernels.ROOMY,
    ]


def counted(
    stage: Stage, source: BlockTensor, output: BlockTensor, runs: dict[int, int], kernels: Kernels
) -> dict[str, int]:
    found = stage_counts(replace(stage, inputs=(0,), output=1), (source, output), runs, kernels)
    return {name: count for name, count in found.items() if count}


def test_runs_count_in_calls_whose_pointers_fit_the_table() -> None:
    """10 x 8 with a stride of 2: 102 pointers for two pixels, outputs included, and 123 for three."""
    source, output = BlockTensor("x", 20, 49, 1, zero_point=0), BlockTensor("y", 10, 25, 8, zero_point=0)
    stage = Stage(StageKind.CONV, (0,), 1, kernel_size=(10, 8), stride=(2, 2), padding=(4, 3))
    found = counted(stage, source, output, {5: 2, 1: 3}, Kernels.PLAIN)
    assert [found[name] for name in ("runs", "rows", "columns")] == [9, 90, 10 * (4 * 10 + 5 * 8)]
    assert found == counted(stage, source, output, {2: 4, 1: 5}, Kernels.PLAIN)


def test_a_convolution_by_hand() -> None:
    """3 x 3 x 8 -> 10 channels, a run of five and two of two: 9 pixels of 720 products."""
    source, output = BlockTensor("x", 9, 9, 8, zero_point=0), BlockTensor("y", 9, 9, 10, zero_point=0)
    stage = Stage(StageKind.CONV, (0,), 1, kernel_size=(3, 3), padding=(1, 1))
    common = {"runs": 3, "rows": 9, "columns": 3 * (7 + 4 + 4)}
    assert counted(stage, source, output, {5: 1, 2: 2}, Kernels.DSP) == common | {
        "conv four macs": 4 * 720,
        "conv four outputs": 40,
        "conv macs": 4 * 720,
        "conv outputs": 40,
        "conv single macs": 720,
        "conv single outputs": 10,
        "conv groups": 4,
        "conv values": 9 * 72,
        "conv taps": 2 * 9 + 3 * 3,
    }
    clamped = replace(stage, activation_min=-100)
    assert counted(clamped, source, output, {4: 1}, Kernels.DSP) == {
        "runs": 1,
        "rows": 3,
        "columns": 18,
        "conv four macs": 4 * 720,
        "conv four outputs": 40,
        "conv groups": 1,
        "conv values": 4 * 72,
        "conv taps": 18,
        "slow outputs": 40,
    }
    large = replace(source, channels=72)  # 648 values: one pixel alone is widened in parts, too
    assert counted(clamped, large, output, {5: 1}, Kernels.DSP) == {
        "runs": 1,
        "rows": 3,
        "columns": 21,
        "conv macs": 4 * 6480,
        "conv outputs": 40,
        "conv single macs": 6480,
        "conv single outputs": 10,
        "conv part outputs": 40 * 6 + 10 * 3,
        "conv groups": 3,
        "conv values": 5 * 648,
        "conv taps": 27,
        "slow outputs": 50,
    }
    assert counted(stage, source, output, {5: 1, 9: 2}, Kernels.HELIUM) == {
        "runs": 3,
        "rows": 9,
        "columns": 3 * (7 + 11 + 11),
        "conv macs": 20 * 12 * 3 * 32,
        "conv outputs": 20 * 12,
        "conv single macs": 3 * 12 * 3 * 32,
        "conv single outputs": 3 * 12,
        "conv part outputs": 23 * 12 * 3,
        "conv values": 23 * 12 * 2,
        "conv groups": 5,
        # in rows of nine pixels all groups are at an edge: seven columns of eight values, and twice two of ten
        "conv taps": 5 * 3 + 3 * (1 + 4) + 2 * 2 * 3 * (1 + 5),
    }
    narrow = replace(source, channels=2)  # rows of 6 values: windows are copied, with zeros to 24 values
    assert counted(stage, narrow, output, {5: 1}, Kernels.HELIUM) == {
        "runs": 1,
        "rows": 3,
        "columns": 21,
        "conv macs": 4 * 12 * 32,
        "conv outputs": 4 * 12,
        "conv single macs": 12 * 32,
        "conv single outputs": 12,
        "conv part outputs": 5 * 12,
        "conv groups": 1,
        "conv taps": 15,
    }


def test_a_depthwise_convolution_by_hand() -> None:
    """Runs of six and of one: four and two with a kernel for two, unless they lie two apart; one by itself."""
    tensor = BlockTensor("x", 20, 20, 8, zero_point=0)
    stage = Stage(StageKind.DEPTHWISE, (0,), 1, kernel_size=(3, 3), padding=(1, 1))
    common = {"depthwise single outputs": 8, "depthwise groups": 3, "runs": 2, "rows": 6}
    assert counted(stage, tensor, tensor, {6: 1, 1: 1}, Kernels.PLAIN) == common | {
        "columns": 3 * (8 + 3),
        "depthwise macs": 4 * 72,
        "depthwise outputs": 32,
        "depthwise pair outputs": 16,
    }
    apart = replace(stage, stride=(2, 2))
    assert counted(apart, tensor, tensor, {6: 1, 1: 1}, Kernels.DSP) == common | {
        "columns": 3 * (13 + 3),
        "depthwise apart macs": 8 * 72,
        "depthwise outputs": 64,
    }
    wide = replace(stage, kernel_size=(5, 5), padding=(2, 2))
    assert counted(wide, tensor, tensor, {1: 1}, Kernels.DSP)["depthwise macs"] == 4 * 200
    few = [counted(wide, tensor, tensor, {run: 1}, Kernels.ROOMY)["depthwise macs"] for run in (1, 2, 3, 5)]
    assert few == [2 * 200, 3 * 200, 4 * 200, 6 * 200]
    assert counted(wide, tensor, tensor, {1: 1}, Kernels.HELIUM)["depthwise apart macs"] == 2 * 200
    odd = replace(tensor, channels=20)  # 16 in the loops of usual windows, four in that of all
    assert counted(stage, odd, odd, {3: 1}, Kernels.HELIUM) == {
        "runs": 1,
        "rows": 3,
        "columns": 3 * 5,
        "depthwise macs": 2 * 16 * 9,
        "depthwise outputs": 2 * 16,
        "depthwise single outputs": 16,
        "depthwise apart macs": 4 * 8 * 9,
        "depthwise pair outputs": 9,
        "depthwise groups": 2 + 1,
    }


def test_a_fully_connected_layer_of_one_pixel_is_a_convolution() -> None:
    source, output = BlockTensor("x", 1, 1, 32, zero_point=0), BlockTensor("y", 1, 1, 4, zero_point=0)
    found = counted(Stage(StageKind.FULLY_CONNECTED, (0,), 1), source, output, {1: 1}, Kernels.PLAIN)
    assert found["conv single macs"] == 128 and "dense macs" not in found
    several = counted(Stage(StageKind.FULLY_CONNECTED, (0,), 1), replace(source, height=2), output, {1: 1}, Kernels.DSP)
    assert several["conv single macs"] == 256 and several["conv values"] == 64
    odd = replace(source, height=2, channels=30), replace(output, channels=3)
    assert counted(Stage(StageKind.FULLY_CONNECTED, (0,), 1), *odd, {1: 1}, Kernels.DSP)["dense macs"] == 180


def test_weights_of_one_take_as_long_as_others() -> None:
    tensor = BlockTensor("x", 6, 6, 2, zero_point=0)
    ones = Stage(StageKind.DEPTHWISE, (0,), 1, weights=np.ones((1, 1, 2), np.int8))
    assert macs_per_pixel(ones, [tensor, tensor]) == 0
    others = replace(ones, weights=np.full((1, 1, 2), 2, np.int8))
    assert counted(ones, tensor, tensor, {6: 6}, Kernels.DSP) == counted(others, tensor, tensor, {6: 6}, Kernels.DSP)
