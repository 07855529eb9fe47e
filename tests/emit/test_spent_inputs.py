"""Overlap of scratch and input: by definition, by the proof, and in the C library."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.drawing.plain_pull import PlainPull
from tests.drawing.random_blocks import random_block, random_operands
from tests.drawing.random_configs import one_tile, random_config
from tflite_fuse.check import validate
from tflite_fuse.check.block.options import read_options
from tflite_fuse.check.block.regions import block_program
from tflite_fuse.check.block.replay import replay
from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.emit.in_model import operands_of
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, StageKind, Storage
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.offline_plan import read_plan
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.edit import set_metadata
from tflite_fuse.passes.goal import Goal
from tflite_fuse.runtime.library.host import host_library, load_library
from tflite_fuse.units import round_up


def drawn(seed: int, *, whole: bool) -> BlockPlan:
    """A random block with an input in the arena that runs as its random configuration says, in one tile if asked to."""
    rng = random.Random(seed)
    while True:
        block = random_block(rng)
        try:
            config = one_tile(random_config(rng, block)) if whole else random_config(rng, block)
            plan = BlockPlan(block, config)
            if block.inputs and plan.schedule.scratch_bytes:
                return plan
        except BlockError:
            continue


def shares(plan: BlockPlan) -> bool:
    """Whether scratch may reach into the first input by a step of the arena."""
    return plan.scratch_distances[plan.block.inputs[0]] + 16 <= plan.schedule.scratch_bytes


def by_definition(block: Block, config: BlockConfig, plan: BlockPlan, source: int) -> int:
    """The distance by following run by run: what is written so far, less what is spent by then."""
    oracle, planned = PlainPull(block, config), plan.schedule
    tail = block.stages[planned.spatial_stages :]
    if not oracle.only or any(source in stage.inputs and source != planned.driven for stage in tail):
        return planned.scratch_bytes
    sums = [o for s, o in zip(block.stages, planned.accumulator_offsets, strict=True) if o >= 0]
    rings = [planned.offsets[stage.output] for stage in block.stages[: planned.spatial_stages]]
    worst = min((o for o in rings if o >= 0), default=planned.scratch_bytes) if sums else planned.reserved_bytes
    for tensor, written, needed in oracle.filled:
        ring = block.tensors[tensor]
        if ring.storage is Storage.SCRATCH and needed[source] < 1 << 40:
            kept = oracle.writer[tensor].kind is StageKind.STATE or oracle.region[tensor][0][0] > 0
            pixels = planned.capacities[tensor] if kept else min(written, planned.capacities[tensor])
            spent = needed[source] * block.tensors[source].pixel_bytes
            worst = max(worst, planned.offsets[tensor] + pixels * ring.pixel_bytes - spent)
    return min(worst, planned.scratch_bytes)


@pytest.mark.parametrize("seed", range(120))
def test_distances_are_those_of_the_definition_and_of_the_proof(seed: int) -> None:
    plan = drawn(seed, whole=seed % 3 > 0)
    found = plan.scratch_distances
    proven = replay(block_program(read_options(plan.encoded.options))).scratch
    assert found == proven
    for source in plan.block.inputs:
        expected = by_definition(plan.block, plan.config, plan, source)
        # Sums may end a few bytes before the first ring begins.
        assert expected - 4 <= found[source] <= expected


@pytest.mark.parametrize("seed", range(60))
def test_blocks_compute_the_same_with_scratch_over_their_input(seed: int) -> None:
    """As low as the distance allows, in steps of an arena's 16 bytes."""
    rng, library = random.Random(seed), load_library(host_library())
    plan = drawn(seed, whole=True)
    while any(stage.kind is StageKind.SOURCE for stage in plan.block.stages) or not shares(plan):
        plan = drawn(rng.randrange(1 << 30), whole=True)
    inputs, externals, _ = random_operands(rng, plan.block)
    encoded = plan.encoded
    apart = library.run(encoded.options, encoded.constants, inputs, externals)
    below = round_up(plan.scratch_distances[plan.block.inputs[0]], 16)
    over = library.run(encoded.options, encoded.constants, inputs, externals, scratch_below=below)
    assert [a.tobytes() for a in apart] == [b.tobytes() for b in over]


def test_a_network_of_one_block_needs_less_and_computes_the_same() -> None:
    """Two residuals behind a stride: the last rings lie where the picture begins, and not a step further."""
    b = ModelBuilder(3)
    picture = b.input((1, 32, 32, 3))
    x = b.conv(picture, 8, 3, activation="RELU")
    x = b.add(b.conv(b.conv(x, 8, 3, activation="RELU"), 8, 3), x)
    y = b.conv(x, 16, 3, 2, activation="RELU")
    y = b.add(b.conv(b.conv(y, 16, 3, activation="RELU"), 16, 3), y)
    original = b.build([b.mean(y)])
    result = tflite_fuse.rewrite(serialize_model(original), goal=Goal(max_compute=1.0), inputs=4)
    assert result.report.verified is not None and result.report.verified.bit_exact
    model = load_model(result.model)
    (operator,) = model.main.operators
    scratch, (image,) = operands_of(model.main, operator).scratch, model.main.inputs
    offsets, sizes = read_plan(model), program_of(model).sizes
    assert offsets is not None
    assert offsets[scratch] < offsets[image] < offsets[scratch] + sizes[scratch], "nothing is shared"
    apart = sizes[scratch] + sizes[image] + sizes[model.main.outputs[0]]
    assert result.report.after.head_bytes < apart - 500
    further = list(offsets)
    further[image] -= 16
    plan = np.array([1, 1, len(further), *further], "<i4").tobytes()
    found = validate(original, set_metadata(model, "OfflineMemoryAllocation", plan))
    assert [finding.where for finding in found.findings] == ["arena plan"]
