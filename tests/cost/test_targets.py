"""Predicted instructions as the search's unit of compute: positive, ordered by core, and used by limits."""

from __future__ import annotations

from itertools import pairwise

import pytest

import tflite_fuse
from scripts.points import least_ram
from scripts.zoo.builder import ModelBuilder
from scripts.zoo.networks import cell_network, inverted_residual_network, one_dimensional_network, pyramid_network
from tests.drawing.cut_dag import cut_dag
from tests.told import told
from tflite_fuse import Goal, UsageError
from tflite_fuse.cost.estimate.block_costs import driven_tensor
from tflite_fuse.cost.instructions import (
    COUNTS,
    Cycles,
    Target,
    block_instructions,
    in_instructions,
    instruction_costs,
    prediction_error,
)
from tflite_fuse.cost.priced_program import WorkUnit
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.ir.block import BlockConfig
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.search.cut_graph import Rules, cut_graph
from tflite_fuse.search.from_model import graph_from_model
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front
from tflite_fuse.search.schemes import Scheme, restriction
from tflite_fuse.tuning import TUNING

MODEL = inverted_residual_network(size=48, blocks=4)
MODEL_BYTES = serialize_model(inverted_residual_network(size=24, blocks=3))


@pytest.mark.parametrize("target", Target)
def test_every_target_has_a_cost_for_every_count(target: Target) -> None:
    costs = instruction_costs(target)
    assert set(costs) == set(COUNTS)
    assert all(cost >= 0 for cost in costs.values())
    assert costs["conv macs"] > 0 and costs["rows"] > 0
    assert 0 < prediction_error(target).mean <= prediction_error(target).largest < 0.15
    assert prediction_error(target).mean < 0.05


@pytest.mark.parametrize("target", [each for each in Target if each.has_cycles])
def test_every_core_with_a_timing_model_has_cycles_for_every_count(target: Target) -> None:
    costs, error = instruction_costs(Cycles(target)), prediction_error(Cycles(target))
    assert set(costs) == set(COUNTS) and all(cost >= 0 for cost in costs.values())
    assert 0 < error.mean < 0.1 and error.mean <= error.largest < 0.3
    graph = graph_from_model(MODEL)
    counted, timed = in_instructions(graph, target, 8), in_instructions(graph, Cycles(target), 8)
    assert (counted.unit, timed.unit) == (WorkUnit.INSTRUCTIONS, WorkUnit.CYCLES)
    assert counted.work / 2 < timed.work < 4 * counted.work  # no core here issues more than two a cycle


def test_cores_with_cycles_are_those_published_cycles_are_of() -> None:
    assert [target.value for target in Target if target.has_cycles] == ["cortex-m7", "cortex-m4"]


def test_a_rewrite_for_cycles_reports_both_costs_and_takes_about_as_few_cycles() -> None:
    default = tflite_fuse.rewrite(MODEL_BYTES, target="cortex-m7", cost="instructions", verify=False).report
    timed = tflite_fuse.rewrite(MODEL_BYTES, target="cortex-m7", verify=False).report
    assert default.prediction is not None and timed.prediction is not None
    assert default.prediction.cycles is not None and timed.prediction.cycles is not None
    assert timed.prediction.cycles.cycles <= 1.02 * default.prediction.cycles.cycles
    assert timed.prediction.instructions != timed.prediction.cycles.cycles
    assert timed.after.arena_bytes <= default.after.arena_bytes + TUNING.slack_cycles


@pytest.mark.slow
def test_a_front_in_cycles_names_its_unit() -> None:
    front = tflite_fuse.pareto(MODEL_BYTES, target="cortex-m4", cost="cycles")
    assert front.unit == "cycles" and front.to_json()["points"][0]["cycles"] > 0
    assert front.error == prediction_error(Cycles(Target.CORTEX_M4))


def test_targets_are_called_as_documented() -> None:
    assert tflite_fuse.TARGETS == ("cortex-m7", "cortex-m4", "cortex-m55", "esp32c3", "xtensa", "generic")


@pytest.mark.parametrize("model", [MODEL, cell_network()])
def test_longer_runs_cost_less_a_pixel_and_cores_with_dsp_take_fewer(model: Model) -> None:
    graph = graph_from_model(model)
    fast, slow = in_instructions(graph, Target.CORTEX_M7, 8), in_instructions(graph, Target.XTENSA, 8)
    assert fast.work < slow.work
    for layer in fast.steps:
        if layer.stage is not None and graph.tensors[layer.outputs[0]].pixels > 1:
            whole = [layer.run_costs[length - 1] for length in (1, 2, 4, 8)]  # three pixels can take more than four
            assert whole == sorted(whole) and len(layer.run_costs) == 8
            assert layer.run_costs[7] < 8 * layer.run_costs[0]


@pytest.mark.parametrize("chunk", [2, 4, 8])
def test_an_operator_alone_has_the_price_of_its_block(chunk: int) -> None:
    """The search's figure, in whole runs of each row, against the block's own schedule."""
    graph = in_instructions(graph_from_model(MODEL), Target.CORTEX_M4, chunk)
    assert any(graph.accumulates(index) for index in range(len(graph.steps)))
    for index, layer in enumerate(graph.steps):
        if layer.stage is not None:
            block = extract(MODEL, [index]).block
            runs = graph.tensors[layer.inputs[0] if graph.accumulates(index) else layer.outputs[0]]
            planned = schedule(block, BlockConfig(runs.height, runs.width, chunk))
            took = block_instructions([(block, planned)], Target.CORTEX_M4)
            rounded = runs.height * (runs.width // chunk + 1) + 2  # each run, the end of sums, what a block takes
            assert took <= layer.work <= took + rounded


@pytest.mark.slow
@pytest.mark.parametrize("model", [MODEL, cell_network(), pyramid_network(), one_dimensional_network()])
@pytest.mark.parametrize("chunk", [1, 2, 8])
def test_the_search_prices_a_block_within_a_fifth_of_its_schedule(model: Model, chunk: int) -> None:
    """Estimates have rows in runs of full length; runs that readers break cost a fifth more at most, single ones none.

    Strips may be estimated a tenth too high, and running a block is counted for each operator behind sums.
    """
    more = 4 * instruction_costs(Target.CORTEX_M7)["blocks"]
    graph, compared = in_instructions(graph_from_model(model), Target.CORTEX_M7, 8), 0
    cuts = cut_dag(cut_graph(graph, restriction(graph, Scheme.AUTO), Rules((chunk,))).edges)
    for first, end, edge in cuts.edges(data=True):
        options = edge["options"]
        for index in range(len(options)) if edge["fused"] else ():
            config = BlockConfig(int(options.tile_height[index]), int(options.tile_width[index]), chunk)
            block = extract(model, range(first, end)).block
            took = block_instructions([(block, schedule(block, config))], Target.CORTEX_M7)
            driven = graph.tensors[driven_tensor(graph, first, end - 1)]
            above = 0.1 if config.tile_width < driven.width else 0.001
            broken = 0.2 if chunk > 1 else 0.001
            assert (1 - broken) * took - more <= options.work[index] <= (1 + above) * took + more
            compared += 1
    assert compared > 10


def test_a_front_trades_instructions_for_ram() -> None:
    model = inverted_residual_network(size=96, blocks=6)
    front = fusion_front(model, SearchOptions(target=Target.CORTEX_M7, count_tail=True))
    assert front.unfused.work != graph_from_model(model).work
    assert len({block.config.chunk for point in front.points for block in point.blocks}) > 1
    assert least_ram(front, 1.2).compute_factor <= 1.2
    assert all(later.work < 0.999 * before.work for before, later in pairwise(front.points))


def test_limits_count_instructions_and_reports_multiply_accumulates() -> None:
    data = serialize_model(MODEL)
    front = tflite_fuse.pareto(data, target="cortex-m7", cost="instructions")
    assert front.target == "cortex-m7" and front.to_json()["points"][0]["instructions"] > 0
    assert front.error == prediction_error(Target.CORTEX_M7)
    report = tflite_fuse.rewrite(
        data, goal=Goal(max_compute=1.3), target="cortex-m7", cost="instructions", inputs=2
    ).report
    assert report.prediction is not None and 1 < report.prediction.factor <= 1.3
    assert "arena" in report.optimal["fusion"].scope and not report.optimal["fusion"].proven
    assert told(report.records, "expected", "instructions")[0].details["target"] == "cortex-m7"
    assert report.verified is not None and report.verified.bit_exact
    assert sum(block.macs for block in report.blocks) <= report.after.macs
    assert report.after.macs - report.before.macs == sum(block.extra_macs for block in report.blocks)


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(UsageError, match="'z80' is no target"):
        tflite_fuse.pareto(serialize_model(MODEL), target="z80")


@pytest.mark.parametrize("cost", ["macs", "instructions"])
def test_instructions_are_predicted_for_every_cost(cost: str) -> None:
    report = tflite_fuse.rewrite(serialize_model(MODEL), target="cortex-m4", cost=cost, verify=False).report
    assert report.prediction is not None and report.blocks and report.prediction.target == "cortex-m4"
    assert report.to_json()["prediction"]["factor"] == report.prediction.factor


def test_instructions_are_predicted_for_blocks_alone() -> None:
    with pytest.raises(UsageError, match="the fuse pass must run"):
        tflite_fuse.rewrite(serialize_model(MODEL), passes=("reorder", "plan"), cost="instructions")
    builder = ModelBuilder(1)
    only_softmax = builder.build([builder.log_softmax(builder.input((1, 10)))])
    report = tflite_fuse.rewrite(serialize_model(only_softmax), target="xtensa", verify=False).report
    assert report.prediction is None and not told(report.records, "expected", "instructions")


@pytest.mark.slow
def test_no_schedule_exceeds_its_limit() -> None:
    """The limits tried lie just below what points of the front really take."""
    data = serialize_model(MODEL)
    for factor in (1.1, 1.3, 1.6):
        limit = factor
        for _ in range(2):
            goal = Goal(max_compute=limit)
            report = tflite_fuse.rewrite(data, goal=goal, cost="instructions", verify=False).report
            assert report.prediction is not None and report.prediction.factor <= 1.001 * limit
            limit = report.prediction.factor * 0.998


@pytest.mark.slow
def test_more_ram_is_never_slower() -> None:
    """Also where the model fits as it is: blocks skip pixels of the first operators that nobody reads."""
    data, took = serialize_model(network_with_unread_pixels()), []
    counted = {"target": "esp32c3", "cost": "instructions"}
    least = tflite_fuse.rewrite(data, goal=Goal(least_ram=True), verify=False, **counted).report
    for ram in range(least.after.arena_bytes, least.before.arena_bytes + 2000, 700):
        report = tflite_fuse.rewrite(data, goal=Goal(max_ram=ram), verify=False, **counted).report
        assert report.after.arena_bytes <= ram and report.prediction is not None
        took.append(report.prediction.instructions)
    assert len(took) > 5 and took == sorted(took, reverse=True)


def network_with_unread_pixels() -> Model:
    builder = ModelBuilder(7)
    x = builder.conv(builder.input((1, 25, 25, 3)), 8, 3, 1, "SAME", "RELU6")
    x = builder.conv(builder.depthwise(x, 3, 2, "VALID", "RELU6"), 16)
    x = builder.conv(x, 8, 1, 2, "VALID")
    return builder.build([builder.fully_connected(builder.mean(x), 4)])
