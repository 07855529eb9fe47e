"""A network's work in instructions of a target instead of multiply-accumulates, for the search to count."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from tflite_fuse.fusion.geometry import Layer, LayerGraph
from tflite_fuse.fusion.instructions import predicted_instructions, stage_counts

COSTS_FILE = Path(__file__).resolve().parents[1] / "data" / "instruction_costs.json"
"""Instructions per count for each emulated core, as ``scripts/fit_instructions.py --write`` left them."""

_RUN = 4
"""Pixels a kernel is taken to compute in one call: what blocks mostly do."""


class Target(Enum):
    """Cores whose instructions are known; the value is the emulated core that stands for them."""

    CORTEX_M7 = "cortex-m7"
    CORTEX_M4 = "cortex-m4"
    ESP32C3 = "rv32imc"
    XTENSA = "xtensa-lx106"
    GENERIC = "generic"

    @property
    def label(self) -> str:
        """What users call it."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True)
class PredictionError:
    """How far predictions were off, as shares, on models that were left out of the fit."""

    mean: float
    largest: float

    def __str__(self) -> str:
        return f"{self.mean:.0%} off on average on models they were not fitted on, {self.largest:.0%} at most"


def instruction_costs(target: Target) -> Mapping[str, float]:
    """Instructions per count on a target; portable C on rv32imc stands for the generic one."""
    costs: dict[str, float] = _fitted(target)["costs"]
    return costs


def prediction_error(target: Target) -> PredictionError:
    """How far predictions for a target were off when ``instruction_costs`` were fitted."""
    return PredictionError(**_fitted(target)["error"])


@cache
def _fitted(target: Target) -> dict[str, Any]:
    core = Target.ESP32C3 if target is Target.GENERIC else target
    found: dict[str, Any] = json.loads(COSTS_FILE.read_text())[core.value]
    return found


def in_instructions(graph: LayerGraph, target: Target) -> LayerGraph:
    """The graph with ``macs`` of every layer replaced by the instructions the device library is expected to take.

    Operators no block can hold count as if their multiply-accumulates were those of a plain convolution.
    """
    costs = instruction_costs(target)
    return replace(graph, layers=tuple(replace(each, macs=_instructions(graph, each, costs)) for each in graph.layers))


def _instructions(graph: LayerGraph, layer: Layer, costs: Mapping[str, float]) -> int:
    if layer.stage is None:
        return predicted_instructions({"plain macs": layer.macs}, costs)
    stage = replace(layer.stage, inputs=layer.inputs, output=layer.outputs[0])
    pixels = graph.tensors[stage.output].pixels
    counts = stage_counts(stage, graph.tensors, pixels, layer.macs)
    per_pixel = (predicted_instructions(counts, costs) + costs["runs"] * pixels / _RUN) / pixels
    return round(per_pixel) * pixels
