"""Predicted instructions as the search's measure of compute: positive, ordered as cores are, and what limits count."""

from __future__ import annotations

import re

import pytest

import tflite_fuse
from tflite_fuse import Goal, UsageError
from tflite_fuse.fusion.block import BlockConfig
from tflite_fuse.fusion.extract import extract
from tflite_fuse.fusion.instruction_costs import (
    Target,
    block_instructions,
    in_instructions,
    instruction_costs,
    prediction_error,
)
from tflite_fuse.fusion.instructions import COUNTS
from tflite_fuse.fusion.model_graph import graph_from_model
from tflite_fuse.fusion.search import SearchOptions, fusion_front
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.zoo.networks import cell_network, inverted_residual_network

MODEL = inverted_residual_network(size=48, blocks=4)


@pytest.mark.parametrize("target", Target)
def test_every_target_has_a_cost_for_every_count(target: Target) -> None:
    costs = instruction_costs(target)
    assert set(costs) == set(COUNTS)
    assert all(cost >= 0 for cost in costs.values())
    assert costs["conv macs"] > 0 and costs["runs"] > 0
    assert 0 < prediction_error(target).mean <= prediction_error(target).largest < 0.5


def test_targets_are_called_as_documented() -> None:
    assert tflite_fuse.TARGETS == ("cortex-m7", "cortex-m4", "esp32c3", "xtensa", "generic")


@pytest.mark.parametrize("model", [MODEL, cell_network()])
def test_longer_runs_cost_less_a_pixel_and_cores_with_dsp_take_fewer(model: Model) -> None:
    graph = graph_from_model(model)
    fast, slow = in_instructions(graph, Target.CORTEX_M7, 8), in_instructions(graph, Target.XTENSA, 8)
    assert fast.macs < slow.macs
    for layer in fast.layers:
        if layer.stage is not None and graph.tensors[layer.outputs[0]].pixels > 1:
            assert list(layer.run_costs) == sorted(layer.run_costs) and len(layer.run_costs) == 8
            assert layer.run_costs[7] < 8 * layer.run_costs[0]


@pytest.mark.parametrize("chunk", [2, 4, 8])
def test_an_operator_alone_is_expected_to_take_what_its_block_is(chunk: int) -> None:
    """The search's figure, in whole runs of each row, against the block's own schedule."""
    graph = in_instructions(graph_from_model(MODEL), Target.CORTEX_M4, chunk)
    for index, layer in enumerate(graph.layers):
        if layer.stage is not None and not graph.accumulates(index):
            block, output = extract(MODEL, [index]).block, graph.tensors[layer.outputs[0]]
            took = block_instructions([(block, BlockConfig(output.height, output.width, chunk))], Target.CORTEX_M4)
            assert took <= layer.macs <= took + output.height * (output.width // chunk + 1) + 1


def test_a_front_trades_instructions_for_ram() -> None:
    front = fusion_front(MODEL, SearchOptions(target=Target.CORTEX_M7, count_tail=True))
    assert front.unfused.macs != graph_from_model(MODEL).macs
    assert len({block.config.chunk for point in front.points for block in point.blocks}) > 1
    assert front.least_ram(1.2).compute_factor <= 1.2


def test_limits_count_instructions_and_reports_multiply_accumulates() -> None:
    data = serialize_model(MODEL)
    front = tflite_fuse.pareto(data, target="cortex-m7")
    assert front.target == "cortex-m7" and front.to_json()["points"][0]["instructions"] > 0
    assert front.error == prediction_error(Target.CORTEX_M7)
    report = tflite_fuse.rewrite(data, goal=Goal(max_compute=1.3), target="cortex-m7", inputs=2).report
    (expected,) = [float(found[1]) for note in report.notes if (found := re.search(r"expected, ([0-9.]+) times", note))]
    assert expected <= 1.3
    assert any("instructions of cortex-m7 expected" in note for note in report.notes)
    assert report.verified is not None and report.verified.bit_exact
    assert sum(block.macs for block in report.blocks) <= report.after.macs
    assert report.after.macs - report.before.macs == sum(block.extra_macs for block in report.blocks)


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(UsageError, match="'z80' is no target"):
        tflite_fuse.pareto(serialize_model(MODEL), target="z80")


def test_instructions_without_a_goal_are_refused() -> None:
    with pytest.raises(UsageError, match="say what for"):
        tflite_fuse.rewrite(serialize_model(MODEL), target="cortex-m4")


def test_more_ram_is_never_slower() -> None:
    data, took = serialize_model(MODEL), []
    least = tflite_fuse.rewrite(data, goal=Goal(least_ram=True), target="esp32c3", verify=False).report
    for ram in range(least.after.arena_bytes, least.before.arena_bytes, 1500):
        report = tflite_fuse.rewrite(data, goal=Goal(max_ram=ram), target="esp32c3", verify=False).report
        assert report.after.arena_bytes <= ram
        took += [int(note.split()[0].replace(",", "")) for note in report.notes if "expected" in note]
    assert len(took) > 3 and took == sorted(took, reverse=True)
