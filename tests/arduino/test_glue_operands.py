"""Operands in the glue: as many as it has room for during a run, and none that it could not write."""

from __future__ import annotations

from math import prod
from random import Random

import pytest

from scripts.zoo import ModelBuilder
from tests.arduino.fake_runtime import GENERATIONS, INT32, play
from tests.arduino.test_glue import expected_outputs, scenario_of
from tflite_fuse.ir.block import Block
from tflite_fuse.ops.lowering.extract import extract

NEWEST = max(GENERATIONS)


def sum_of(count: int) -> Block:
    """Of so many inputs."""
    b = ModelBuilder(seed=1, calibration=2)
    total, *others = (b.input((1, 2, 3, 4)) for _ in range(count))
    for other in others:
        total = b.add(total, other)
    return extract(b.build(), range(count - 1)).block


@pytest.mark.parametrize(
    ("output", "message"), [(0, "a tensor that is written or converted where it lies is a constant"), (-1, "scratch")]
)
def test_a_constant_is_never_written(output: int, message: str) -> None:
    scenario, _, _ = scenario_of(sum_of(2), Random(2))
    index = scenario.outputs[output]
    size = prod(scenario.tensors[index].shape)
    outcome = play(NEWEST, scenario.change_tensor(index, data=bytes(size)))
    assert outcome.prepare == 1 and message in outcome.log[0]


@pytest.mark.parametrize(("channels", "pixels", "fits"), [(4, 6, True), (4, 5, False), (4, 7, False), (3, 6, False)])
def test_four_channels_of_an_output_may_be_an_int32(channels: int, pixels: int, fits: bool) -> None:
    b = ModelBuilder(seed=1, calibration=2)
    x = b.input((1, 2, 3, channels))
    scenario, block, operands = scenario_of(extract(b.build([b.add(x, x)]), [0]).block, Random(3))
    outcome = play(NEWEST, scenario.change_tensor(scenario.outputs[0], shape=(1, pixels), type=INT32))
    assert outcome.prepare == (not fits)
    assert outcome.outputs == expected_outputs(block, operands) if fits else "output 0 must be" in outcome.log[0]


@pytest.mark.parametrize(("count", "fits"), [(16, True), (17, False), (18, False)])
def test_blocks_have_as_many_inputs_as_invoke_gathers(count: int, fits: bool) -> None:
    scenario, block, operands = scenario_of(sum_of(count), Random(count))
    outcome = play(NEWEST, scenario)
    assert outcome.prepare == (not fits)
    if fits:
        assert outcome.outputs == expected_outputs(block, operands)
    else:
        assert "there are too many tensors" in outcome.log[0]
