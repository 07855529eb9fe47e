"""Blocks are searched in several orders of operators at once."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import tflite_fuse
from scripts.zoo.builder import ModelBuilder
from tests.conftest import shared_models
from tflite_fuse import Goal
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.order.problem import precedence
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_operators


def level_by_level() -> Model:
    """Two heads on one map, their operators taking turns."""
    b = ModelBuilder(2)
    x = b.conv(b.input((1, 32, 32, 3)), 8, 3, 2, activation="RELU6")
    heads = [x, x]
    for channels in (24, 32, 24):
        heads = [b.depthwise(b.conv(head, channels, activation="RELU6"), 3, activation="RELU6") for head in heads]
    return b.build([b.conv(head, 2) for head in heads])


def test_heads_that_take_turns_are_walked_one_after_the_other() -> None:
    data = serialize_model(level_by_level())
    as_it_is = tflite_fuse.rewrite(data, passes=("fuse", "plan"), verify=False).report
    report = tflite_fuse.rewrite(data, inputs=2).report
    assert report.verified is None or report.verified.bit_exact
    assert report.after.arena_bytes < 0.85 * as_it_is.after.arena_bytes


def three_branches(turns: bool) -> Model:
    """Branches of one map, one after the other or their operators taking turns."""
    b = ModelBuilder(5)
    x = b.conv(b.input((1, 16, 16, 3)), 12, 3, activation="RELU")
    if turns:
        narrow, pooled = b.conv(x, 4), b.max_pool(x, 2, 2)
        return b.build([b.conv(pooled, 3), b.depthwise(x), b.depthwise(narrow)])
    pooled = b.conv(b.max_pool(x, 2, 2), 3)
    return b.build([pooled, b.depthwise(x), b.depthwise(b.conv(x, 4))])


@pytest.mark.parametrize("mode", ["resident", "streamed"])
def test_one_graph_has_one_arena_in_every_written_order(mode: str) -> None:
    arenas = set()
    for turns in (False, True):
        data = serialize_model(three_branches(turns))
        report = tflite_fuse.rewrite(data, goal=Goal(max_compute=1.0), input_mode=mode, inputs=2).report
        assert report.verified is None or report.verified.bit_exact
        arenas.add(report.after.arena_bytes)
    assert len(arenas) == 1


def four_heads() -> Model:
    """Heads of three kinds of operators on one map."""
    b = ModelBuilder(3)
    x = b.depthwise(b.conv(b.input((1, 32, 32, 3)), 16, 3, 2, activation="RELU6"), 3, activation="RELU6")
    outputs = []
    for wide, kernel, stride in ((8, 3, 1), (32, 1, 2), (20, 3, 2), (12, 1, 1)):
        y = b.depthwise(b.conv(x, wide, kernel, stride, activation="RELU6"), 3, activation="RELU6")
        outputs.append(b.conv(b.conv(y, 16, activation="RELU6"), 2))
    return load_model(serialize_model(b.build(outputs)))


def in_turns(model: Model, seed: int) -> bytes:
    """The same operators in a random order that can run."""
    randomness, before, order = Random(seed), precedence(program_of(model)), list[int]()
    while len(order) < len(before):
        able = [index for index in range(len(before)) if index not in order and before[index] <= set(order)]
        order.append(randomness.choice(able))
    return serialize_model(replace_operators(model, [model.main.operators[index] for index in order]))


def test_four_heads_take_about_as_much_in_every_written_order() -> None:
    model, goal = four_heads(), Goal(max_compute=1.0)
    written = (in_turns(model, seed) for seed in range(4))
    arenas = [tflite_fuse.rewrite(each, verify=False, goal=goal).report.after.arena_bytes for each in written]
    assert max(arenas) <= 1.02 * min(arenas), arenas


@pytest.mark.parametrize(("mode", "most"), [("streamed", 22_000), ("resident", 72_796)])
@shared_models("mcunet_detection_fpn_int8")
def test_a_detector_with_a_pyramid_is_walked_branch_by_branch(path: Path, mode: str, most: int) -> None:
    report = tflite_fuse.rewrite(path, input_mode=mode, int8_io=True, verify=False).report
    assert report.after.arena_bytes <= most


def test_goals_reach_the_points_of_a_front() -> None:
    data = serialize_model(level_by_level())
    rows = tflite_fuse.pareto(data, input_mode="external").rows
    for goal, factor in ((Goal(least_ram=True), None), (Goal(max_compute=1.0), 1.0), (Goal(max_compute=1.3), 1.3)):
        report = tflite_fuse.rewrite(data, input_mode="external", goal=goal, verify=False).report
        least = next(row for row in rows if factor is None or row.compute_factor <= factor)
        assert least.ram_bytes <= report.after.arena_bytes
    limit = rows[len(rows) // 2].ram_bytes
    report = tflite_fuse.rewrite(data, input_mode="external", goal=Goal(max_ram=limit), verify=False).report
    assert report.after.arena_bytes <= limit
