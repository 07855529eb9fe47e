"""Predicted instructions as the search's measure of compute: positive, ordered as cores are, and what limits count."""

from __future__ import annotations

import pytest

import tflite_fuse
from tflite_fuse import Goal, UsageError
from tflite_fuse.fusion.instruction_costs import Target, in_instructions, instruction_costs, prediction_error
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
    assert costs["conv macs"] > 0 and costs["runs"] >= 0
    assert 0 < prediction_error(target).mean <= prediction_error(target).largest < 0.5


def test_targets_are_called_as_documented() -> None:
    assert tflite_fuse.TARGETS == ("cortex-m7", "cortex-m4", "esp32c3", "xtensa", "generic")


@pytest.mark.parametrize("model", [MODEL, cell_network()])
def test_work_is_whole_pixels_and_cores_with_dsp_do_it_in_less(model: Model) -> None:
    graph = graph_from_model(model)
    fast, slow = in_instructions(graph, Target.CORTEX_M7), in_instructions(graph, Target.XTENSA)
    assert fast.macs < slow.macs
    for before, layer in zip(graph.layers, fast.layers, strict=True):
        if before.stage is not None:
            assert layer.macs > 0 and layer.macs % graph.tensors[layer.outputs[0]].pixels == 0


def test_a_front_without_recompute_costs_what_the_model_does() -> None:
    front = fusion_front(MODEL, SearchOptions(target=Target.CORTEX_M7, count_tail=True))
    assert front.zero_recompute().macs == front.unfused.macs != graph_from_model(MODEL).macs
    assert front.least_ram(1.2).compute_factor <= 1.2


def test_limits_count_instructions_and_reports_multiply_accumulates() -> None:
    data = serialize_model(MODEL)
    front = tflite_fuse.pareto(data, target="cortex-m7")
    assert front.target == "cortex-m7" and front.to_json()["points"][0]["instructions"] > 0
    assert front.error == prediction_error(Target.CORTEX_M7)
    report = tflite_fuse.rewrite(data, goal=Goal(max_compute=1.3), target="cortex-m7", inputs=2).report
    assert any("instructions of cortex-m7 expected" in note for note in report.notes)
    assert report.verified is not None and report.verified.bit_exact
    assert sum(block.macs for block in report.blocks) <= report.after.macs
    assert report.after.macs - report.before.macs == sum(block.extra_macs for block in report.blocks)


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(UsageError, match="'z80' is no target"):
        tflite_fuse.pareto(serialize_model(MODEL), target="z80")
