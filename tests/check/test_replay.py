"""The replay of a schedule, against the executor's definition followed run by run, and against damaged options."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.drawing.plain_pull import PlainPull
from tests.drawing.random_blocks import random_block
from tests.drawing.random_configs import random_config
from tests.drawing.steps.floats import float_block
from tests.drawing.waiting_blocks import waiting_block
from tflite_fuse.check.block.options import Options, read_options
from tflite_fuse.check.block.regions import BY_VALUE, block_program
from tflite_fuse.check.block.replay import ScheduleProof, replay
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.cost.schedule.tiles import split_block
from tflite_fuse.emit.encode import encode
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, StageKind, Storage


def drawn(seed: int) -> tuple[Block, BlockConfig, Options]:
    """A random block, one of four on float32, that runs as its random configuration says, and its options."""
    rng = random.Random(seed)
    while True:
        block, config = (float_block if seed % 4 == 3 else random_block)(rng), BlockConfig(1, 1)
        try:
            driven = block.tensors[split_block(block).driven]
            config = random_config(rng, block)
            config = replace(
                config,
                tile_height=min(config.tile_height, driven.height),
                tile_width=min(config.tile_width, driven.width),
            )
            planned = schedule(block, config)
        except BlockError:
            continue
        whole = config.tile_height == driven.height and config.tile_width == driven.width
        if whole or not any(stage.kind is StageKind.SOURCE for stage in block.stages):
            return block, config, read_options(encode(block, planned).options)


def run(options: Options) -> ScheduleProof:
    return replay(block_program(options))


def changed(options: Options, part: str, index: int, **fields: Any) -> Options:
    """The options with one struct changed."""
    rows = list(getattr(options, part))
    rows[index] = rows[index]._replace(**fields)
    return options._replace(**{part: tuple(rows)})


@pytest.mark.parametrize("seed", range(60))
def test_rings_of_random_blocks_hold_all_live_pixels(seed: int) -> None:
    block, config, options = drawn(seed)
    found, oracle = run(options), PlainPull(block, config)
    assert not found.problems
    for tensor, pixels in oracle.capacity.items():
        if block.tensors[tensor].storage is Storage.SCRATCH:
            assert options.tensors[tensor].capacity == max(1, pixels)


@pytest.mark.parametrize("seed", range(60))
def test_outputs_lie_over_inputs_as_far_as_the_definition_allows(seed: int) -> None:
    block, config, options = drawn(seed)
    found, oracle = run(options), PlainPull(block, config)
    driven = block.tensors[options.header.driven]
    one_tile = config.tile_height >= driven.height and config.tile_width >= driven.width
    for pair, distance in found.distances.items():
        expected = oracle.distance[pair]
        assert distance == expected if one_tile else distance >= expected


@pytest.mark.parametrize("seed", range(30))
def test_a_ring_of_another_size_is_found(seed: int) -> None:
    _, _, options = drawn(seed)
    for index, tensor in enumerate(options.tensors):
        if tensor.storage == Storage.SCRATCH:
            for capacity in (tensor.capacity - 1, tensor.capacity + 1):
                problems = run(changed(options, "tensors", index, capacity=capacity)).problems
                assert any(f"ring of tensor {index}" in problem for problem in problems)


@pytest.mark.parametrize("seed", range(30))
def test_rings_over_each_other_are_found(seed: int) -> None:
    _, _, options = drawn(seed)
    for index, tensor in enumerate(options.tensors):
        if tensor.storage == Storage.SCRATCH:
            assert run(changed(options, "tensors", index, offset=tensor.offset - 1)).problems
            assert run(changed(options, "tensors", index, offset=0)).problems or tensor.offset == 0


def test_longer_runs_in_the_same_rings_are_found() -> None:
    found = 0
    for seed in range(40):
        _, _, options = drawn(seed)
        chunk = options.header.chunk + 1
        planned = run(options._replace(header=options.header._replace(chunk=chunk)))
        found += any("overwritten before their last reader" in problem for problem in planned.problems)
    assert found > 5


def test_a_stage_that_runs_ahead_or_no_longer_does_is_found() -> None:
    found = seen = 0
    for seed in range(60):
        _, _, options = drawn(seed)
        for s, stage in enumerate(options.stages):
            other = run(changed(options, "stages", s, runs_ahead=1 - stage.runs_ahead))
            found += bool(other.problems)
            seen += 1
        assert any("ahead" in problem for problem in run(changed(options, "stages", s, runs_ahead=2)).problems)
    assert found > seen / 4


def test_a_stage_that_waits_or_no_longer_does_is_found() -> None:
    found = seen = 0
    for seed in range(60):
        block, config = waiting_block(random.Random(seed))
        options = read_options(encode(block, schedule(block, config)).options)
        assert not run(options).problems
        for s, stage in enumerate(options.stages):
            if stage.waits_for:
                found += bool(run(changed(options, "stages", s, waits_for=0)).problems)
                seen += 1
            assert run(changed(options, "stages", s, waits_for=stage.output + 1)).problems
    assert found > seen / 4


def test_more_scratch_than_needed_is_found() -> None:
    _, _, options = drawn(3)
    header = options.header._replace(scratch_bytes=options.header.scratch_bytes + 4)
    assert any("scratch has" in problem for problem in run(options._replace(header=header)).problems)


def test_holes_in_an_output_are_found() -> None:
    for seed in range(400):
        block, _, options = drawn(seed)
        if len(block.outputs) > 1:
            problems = run(options._replace(header=options.header._replace(tile_height=1, tile_width=1))).problems
            if any("never written" in problem for problem in problems):
                return
    pytest.fail("no block with an output that tiles leave with holes was drawn")


def test_a_source_read_by_several_tiles_is_detected() -> None:
    for seed in range(400):
        block, _, options = drawn(seed)
        driven = block.tensors[options.header.driven]
        if driven.height > 1 and any(stage.kind is StageKind.SOURCE for stage in block.stages):
            problems = run(options._replace(header=options.header._replace(tile_height=1))).problems
            assert any("which gives each pixel once" in problem for problem in problems)
            return
    pytest.fail("no block with a source was drawn")


def test_runs_that_no_stage_keeps_to_are_found() -> None:
    _, _, options = drawn(3)
    driven = next(s for s, stage in enumerate(options.stages) if stage.output == options.header.driven)
    for s in {driven, len(options.stages) - 1}:
        assert any(
            "run of its own" in problem for problem in run(changed(options, "stages", s, longest_run=2)).problems
        )


def test_a_ring_in_another_one_is_found_unless_each_pixel_replaces_the_one_it_needs() -> None:
    tried = 0
    for seed in range(120):
        _, _, options = drawn(seed)
        program = block_program(options)
        for s in program.spatial:
            output, source = options.stages[s].output, next(iter(program.inputs[s]), -1)
            if program.overwritten(s) >= 0 or options.stages[s].kind in BY_VALUE:
                continue
            tried += 1
            place = {"offset": options.tensors[source].offset, "capacity": options.tensors[source].capacity}
            assert run(changed(options, "tensors", output, overwrites=source + 1, **place)).problems
    assert tried > 50


def test_a_stage_with_another_window_that_writes_over_its_input_is_found() -> None:
    tried = 0
    for seed in range(200):
        _, _, options = drawn(seed)
        program = block_program(options)
        for s in (each for each in program.spatial if program.overwritten(each) >= 0):
            tried += 1
            problems = run(changed(options, "stages", s, kind=StageKind.MAX_POOL)).problems
            assert any(f"stage {s} overwrites" in problem for problem in problems)
            problems = run(changed(options, "tensors", program.overwritten(s), channels=999)).problems
            assert any(f"stage {s} overwrites" in problem for problem in problems)
            assert run(changed(options, "tensors", options.stages[s].output, overwrites=0)).problems
    assert tried > 20
