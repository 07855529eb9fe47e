"""A network's work in instructions of a target instead of multiply-accumulates, for the search to count."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from tflite_fuse.fusion.block.entry import Kernels
from tflite_fuse.fusion.block.layer_graph import Layer, LayerGraph, WorkUnit
from tflite_fuse.fusion.block.stages import Block, Stage
from tflite_fuse.fusion.estimate.run_lengths import rows_cost
from tflite_fuse.fusion.instructions.counts import (
    block_counts,
    expected_instructions,
    kernels_of,
    predicted_instructions,
    stage_counts,
)
from tflite_fuse.fusion.schedule.schedule import Schedule

COSTS_FILE = Path(__file__).resolve().parents[2] / "data" / "instruction_costs.json"
"""Instructions per count for each emulated core, as ``scripts/fit_instructions.py --write`` left them."""


LONGEST = 8
"""Pixels of the longest runs that are looked at: in these, an operator that runs by itself is counted."""


class Target(Enum):
    """Cores whose instructions are known, by what users call them."""

    CORTEX_M7 = "cortex-m7"
    CORTEX_M4 = "cortex-m4"
    CORTEX_M55 = "cortex-m55"
    ESP32C3 = "esp32c3"
    XTENSA = "xtensa"
    GENERIC = "generic"

    @property
    def core(self) -> str:
        """The emulated core it was measured on; portable C on rv32imc stands for the generic one."""
        return {"esp32c3": "rv32imc", "generic": "rv32imc", "xtensa": "xtensa-lx106"}.get(self.value, self.value)

    @property
    def kernels(self) -> Kernels:
        """The family of kernels the library has on it."""
        return kernels_of(self.core)


@dataclass(frozen=True)
class PredictionError:
    """How far predictions were off, as shares, on models that were left out of the fit."""

    mean: float
    largest: float

    def __str__(self) -> str:
        return f"{self.mean:.0%} off on average on models they were not fitted on, {self.largest:.0%} at most"


@dataclass(frozen=True)
class Prediction:
    """What a model is expected to take in the device library, operators outside blocks counted as if they ran there.

    Attributes:
        target: the core, as users call it.
        instructions: of one inference.
        unfused_instructions: the same when every operator runs by itself.
        error: how far such predictions were off.
    """

    target: str
    instructions: int
    unfused_instructions: int
    error: PredictionError

    @property
    def factor(self) -> float:
        """``instructions`` over those of the unfused model."""
        return self.instructions / self.unfused_instructions if self.unfused_instructions else 1.0


def instruction_costs(target: Target) -> Mapping[str, float]:
    """Instructions per count on a target."""
    costs: dict[str, float] = _fitted(target)["costs"]
    return costs


def prediction_error(target: Target) -> PredictionError:
    """How far predictions for a target were off when ``instruction_costs`` were fitted."""
    return PredictionError(**_fitted(target)["error"])


@cache
def _fitted(target: Target) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(COSTS_FILE.read_text())[target.core]
    return found


def block_instructions(blocks: Iterable[tuple[Block, Schedule]], target: Target) -> int:
    """What blocks are expected to take, all their runs counted."""
    costs = instruction_costs(target)
    return sum(predicted_instructions(block_counts(block, plan, target.kernels), costs) for block, plan in blocks)


def in_instructions(graph: LayerGraph, target: Target, longest: int) -> LayerGraph:
    """The graph with the work of every layer counted in the instructions the device library is expected to take.

    Operators no block can hold count as if their multiply-accumulates were those of a plain convolution.

    Args:
        longest: pixels of the longest runs; ``work`` is what a layer takes in these, row by row.
    """
    cost = _Instructions(graph, target, longest)
    layers = tuple(cost.of_layer(index) for index in range(len(graph.layers)))
    return replace(graph, layers=layers, unit=WorkUnit.INSTRUCTIONS)


@dataclass(frozen=True)
class _Instructions:
    graph: LayerGraph
    target: Target
    longest: int

    def of_layer(self, index: int) -> Layer:
        layer, tensors = self.graph.layers[index], self.graph.tensors
        costs = instruction_costs(self.target)
        if layer.stage is None:
            return replace(layer, work=predicted_instructions({"plain macs": layer.work}, costs))
        stage = replace(layer.stage, inputs=layer.inputs, output=layer.outputs[0])
        if self.graph.accumulates(index):
            return self._accumulator(layer, stage)
        runs = tuple(self._run(stage, length) for length in range(1, self.longest + 1))
        alone = rows_cost(tensors[stage.output], runs) + self._block
        return replace(layer, work=alone, run_costs=runs, pull_cost=ceil(costs["pulls"]))

    def _accumulator(self, layer: Layer, stage: Stage) -> Layer:
        """Its runs are those in which it adds up its input; what makes its output comes on top."""
        visits = (ceil(instruction_costs(self.target)["runs"]),) * self.longest
        source = self.graph.tensors[self.graph.through_views(layer.inputs[0])]
        return replace(layer, work=rows_cost(source, visits) + self._run(stage, 1) + self._block, run_costs=visits)

    @property
    def _block(self) -> int:
        """What running any block takes."""
        return ceil(instruction_costs(self.target)["blocks"])

    def _run(self, stage: Stage, length: int) -> int:
        counts = stage_counts(stage, self.graph.tensors, {length: 1}, self.target.kernels)
        return ceil(expected_instructions(counts, instruction_costs(self.target)))
