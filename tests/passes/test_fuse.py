"""Blocks in whole models: branches, and several inputs and outputs, do not prevent fusing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from itertools import permutations
from random import Random

import pytest

import tflite_fuse
from scripts.bench_small_networks import small_network
from scripts.zoo import ModelBuilder
from scripts.zoo.networks import cell_network, inverted_residual_network, keyword_network, pyramid_network
from tests.drawing.raw_models import RawModel, add_convolution
from tests.test_cli import validate
from tests.told import told
from tflite_fuse import Goal, LimitError, Result, UsageError
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType
from tflite_fuse.runtime import tflm

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


def test_order_and_plan_are_proven_the_best_of_their_kind() -> None:
    optimal = proven(cell_network(size=48)).report.optimal
    assert optimal["order"].proven and optimal["plan"].proven and not optimal["fusion"].proven


@pytest.mark.parametrize("mode", ["resident", "streamed"])
def test_pixels_without_readers_are_skipped_and_reported(mode: str) -> None:
    b = ModelBuilder(4)
    x = b.conv(b.conv(b.input((1, 16, 16, 3)), 8, 3, activation="RELU6"), 8, 1, 2, "VALID")
    report = proven(b.build([b.fully_connected(b.mean(x), 4)]), input_mode=mode, goal=Goal(max_compute=1.0)).report
    at_the_edge, between_bands = 16 * 16 - 15 * 15, 15 * 15 - 8 * 8
    skipped = at_the_edge if mode == "streamed" else at_the_edge + between_bands
    assert report.before.macs - report.after.macs == skipped * 8 * 27 and report.compute_factor < 1
    assert sum(block.extra_macs for block in report.blocks) == -skipped * 8 * 27
    assert (
        sum(int(str(each.details["extra_macs"])) for each in report.records if each.fate == "fused")
        == -skipped * 8 * 27
    )
    validate(json.loads(json.dumps(report.to_json())), "report")


def test_the_default_spends_a_little_ram_on_longer_runs() -> None:
    model = serialize_model(inverted_residual_network(size=48, blocks=4))
    default = tflite_fuse.rewrite(model, verify=False)
    least = tflite_fuse.rewrite(model, verify=False, goal=Goal(max_compute=1.0)).report
    assert 0 <= default.report.after.arena_bytes - least.after.arena_bytes <= max(least.after.arena_bytes // 24, 512)
    assert default.report.prediction.instructions < least.prediction.instructions


@pytest.mark.parametrize("seed", [5000, 5006, 5012])
def test_a_percent_of_ram_buys_half_a_percent_of_the_instructions_or_is_not_spent(seed: int) -> None:
    model = serialize_model(small_network(Random(seed).randint))
    default, least = (
        tflite_fuse.rewrite(model, verify=False, goal=goal).report for goal in (None, Goal(max_compute=1.0))
    )
    assert default.prediction is not None and least.prediction is not None
    saved = 1 - default.prediction.instructions / least.prediction.instructions
    assert default.after.arena_bytes <= least.after.arena_bytes * (1 + 2 * max(saved, 0.0))


def test_room_under_a_limit_is_used_for_longer_runs() -> None:
    model = serialize_model(inverted_residual_network(size=48, blocks=4))
    least = tflite_fuse.rewrite(model, verify=False, goal=Goal(max_compute=1.0))
    limit = least.report.after.arena_bytes * 2
    roomy = tflite_fuse.rewrite(model, verify=False, goal=Goal(max_ram=limit))
    assert roomy.report.after.arena_bytes <= limit and roomy.report.compute_factor == 1.0
    assert chunks(roomy) and min(chunks(roomy)) > min(chunks(least))


def test_a_model_that_fits_unfused_is_fused_where_that_is_smaller_and_no_slower() -> None:
    model = serialize_model(inverted_residual_network(size=16, blocks=2))
    arena = tflite_fuse.rewrite(model, passes=["reorder", "plan"], verify=False).report.after.arena_bytes
    report = tflite_fuse.rewrite(model, verify=False, goal=Goal(max_ram=arena)).report
    assert report.blocks and report.after.arena_bytes < arena and report.prediction is not None
    assert report.prediction.instructions <= report.prediction.unfused_instructions


def chunks(result: Result) -> list[int]:
    return [block.config.chunk for block in blocks_in(load_model(result.model)).values()]


@pytest.mark.parametrize("goal", [Goal(least_ram=True), Goal(max_compute=1.5)])
def test_goals_of_fusion_need_fusion(goal: Goal) -> None:
    with pytest.raises(UsageError, match="the fuse pass must run"):
        tflite_fuse.rewrite(serialize_model(cell_network()), passes=("reorder", "plan"), goal=goal, verify=False)


def test_a_ram_limit_holds_without_fusion_too() -> None:
    with pytest.raises(LimitError, match=r"2,000 bytes cannot be reached with the passes reorder, plan: .* needs \d"):
        tflite_fuse.rewrite(
            serialize_model(cell_network()), passes=("reorder", "plan"), goal=Goal(max_ram=2000), verify=False
        )


def test_more_ram_than_the_least_is_taken_only_for_clearly_fewer_instructions() -> None:
    model = serialize_model(inverted_residual_network(size=48, blocks=4))
    at_most = tflite_fuse.rewrite(model, verify=False, goal=Goal(max_compute=1.3)).report
    least = tflite_fuse.rewrite(model, verify=False, goal=Goal(least_ram=True)).report
    assert at_most.prediction is not None and least.prediction is not None
    if at_most.after.arena_bytes > least.after.arena_bytes and at_most.compute_factor >= least.compute_factor:
        assert at_most.prediction.instructions < 0.9 * least.prediction.instructions


def test_ram_that_would_save_much_time_is_named_and_reachable() -> None:
    model, named = serialize_model(inverted_residual_network(size=48, blocks=4)), []
    for goal in (Goal(max_compute=1.0), Goal(least_ram=True)):
        report = tflite_fuse.rewrite(model, verify=False, goal=goal).report
        for offer in told(report.records, "offered", "more RAM"):
            named.append(int(str(offer.details["max_ram_bytes"])))
            faster = tflite_fuse.rewrite(model, verify=False, goal=Goal(max_ram=named[-1])).report
            assert faster.prediction is not None and report.prediction is not None
            assert faster.after.arena_bytes <= named[-1]
            assert faster.prediction.instructions <= 0.9 * report.prediction.instructions
    assert named


def mobile_network() -> bytes:
    """A picture of 64 x 64 through depthwise and pointwise convolutions, as MobileNetV1 begins."""
    b = ModelBuilder(seed=0)
    x = b.conv(b.input((1, 64, 64, 3)), 8, kernel=3, stride=2)
    for stride, channels in ((1, 16), (2, 32), (1, 32), (2, 64), (1, 64)):
        x = b.conv(b.depthwise(x, 3, stride=stride), channels)
    return serialize_model(b.build([b.fully_connected(b.mean(x), 2)]))


@pytest.mark.parametrize("goal", [Goal(max_ram=16_245), Goal(max_ram=20_793), Goal(max_compute=1.3)])
def test_no_goal_is_dominated_by_the_default(goal: Goal) -> None:
    """A roomy limit on RAM made this model larger and slower than no limit, one on compute paid bytes with time."""
    unasked = tflite_fuse.rewrite(mobile_network(), verify=False).report
    asked = tflite_fuse.rewrite(mobile_network(), verify=False, goal=goal).report
    assert unasked.prediction is not None and asked.prediction is not None
    assert asked.prediction.instructions <= unasked.prediction.instructions
    assert asked.after.arena_bytes <= 1.01 * unasked.after.arena_bytes


def test_an_output_that_a_table_inside_no_longer_reads_is_computed_whole() -> None:
    """HARD_SWISH is read outside; MUL of it and its input is a table of that input alone, so no tile asks for it."""
    raw, shape = RawModel(), (1, 16, 19, 1)
    x = raw.tensor(shape, 1.0, -128)
    source = add_convolution(raw, x, shape)
    curved, doubled = raw.tensor(shape, 1.0, -128), raw.tensor(shape, 1.0, -128)
    raw.operator("HARD_SWISH", [source], [curved], None)
    raw.operator("MUL", [curved, source], [doubled], make_options("MulOptions"))
    data = serialize_model(raw.build([x], [add_convolution(raw, curved, shape), add_convolution(raw, doubled, shape)]))
    for scheme in tflite_fuse.SCHEMES:
        for goal in (None, Goal(max_compute=1.6), Goal(least_ram=True)):
            with contextlib.suppress(LimitError, UsageError):
                tflite_fuse.rewrite(data, scheme=scheme, goal=goal, inputs=2)


@pytest.mark.parametrize("network", [cell_network, keyword_network])
def test_no_goal_is_answered_with_less_than_another_goal_finds(network: Callable[[], Model]) -> None:
    data = serialize_model(network())
    default = tflite_fuse.rewrite(data, verify=False).report.after.arena_bytes
    goals = [Goal(), Goal(least_ram=True), Goal(max_compute=1.0), Goal(max_compute=1.3)]
    goals += [Goal(max_ram=default * share // 10) for share in (10, 12, 16)]
    found = [(goal, tflite_fuse.rewrite(data, verify=False, goal=goal).report) for goal in goals]
    for (goal, mine), (_, other) in permutations(found, 2):
        limit, factor = goal.max_ram or other.after.arena_bytes, goal.compute_limit or other.compute_factor
        assert mine.prediction is not None and other.prediction is not None
        if other.after.arena_bytes <= limit and other.compute_factor <= factor:
            smaller = other.after.arena_bytes <= mine.after.arena_bytes
            assert not (smaller and other.prediction.instructions < 0.99 * mine.prediction.instructions), goal


def test_tensors_without_use_leave_a_model_without_blocks() -> None:
    raw = RawModel()
    source, output = raw.tensor((3, 8), type_=TensorType.FLOAT32, quantization=None), raw.tensor((3, 8))
    raw.tensor((3, 8))
    raw.operator("QUANTIZE", [source], [output], None)
    result = proven(raw.build([source], [output]), goal=Goal(least_ram=True))
    assert len(load_model(result.model).main.tensors) == 2
    assert result.report.after.arena_bytes < result.report.before.arena_bytes
