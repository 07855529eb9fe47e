"""A network's work in instructions of a target instead of multiply-accumulates, for the search to count."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from tflite_fuse.fusion.block import Block, BlockConfig, BlockTensor
from tflite_fuse.fusion.geometry import Layer, LayerGraph
from tflite_fuse.fusion.instructions import (
    block_counts,
    conv_at_once,
    expected_instructions,
    predicted_instructions,
    stage_counts,
)

COSTS_FILE = Path(__file__).resolve().parents[1] / "data" / "instruction_costs.json"
"""Instructions per count for each emulated core, as ``scripts/fit_instructions.py --write`` left them."""


class Target(Enum):
    """Cores whose instructions are known, by what users call them."""

    CORTEX_M7 = "cortex-m7"
    CORTEX_M4 = "cortex-m4"
    ESP32C3 = "esp32c3"
    XTENSA = "xtensa"
    GENERIC = "generic"

    @property
    def core(self) -> str:
        """The emulated core it was measured on; portable C on rv32imc stands for the generic one."""
        return {"esp32c3": "rv32imc", "generic": "rv32imc", "xtensa": "xtensa-lx106"}.get(self.value, self.value)

    @property
    def conv_at_once(self) -> int:
        """Pixels its packed convolution computes together."""
        return conv_at_once(self.core)


@dataclass(frozen=True)
class PredictionError:
    """How far predictions were off, as shares, on models that were left out of the fit."""

    mean: float
    largest: float

    def __str__(self) -> str:
        return f"{self.mean:.0%} off on average on models they were not fitted on, {self.largest:.0%} at most"


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


def block_instructions(blocks: Iterable[tuple[Block, BlockConfig]], target: Target) -> int:
    """What blocks are expected to take, all their runs counted.

    Raises:
        BlockError: a block cannot run under its configuration.
    """
    costs = instruction_costs(target)
    return sum(
        predicted_instructions(block_counts(block, config, target.conv_at_once), costs) for block, config in blocks
    )


def in_instructions(graph: LayerGraph, target: Target, longest: int) -> LayerGraph:
    """The graph with ``macs`` of every layer replaced by the instructions the device library is expected to take.

    Operators no block can hold count as if their multiply-accumulates were those of a plain convolution.

    Args:
        longest: pixels of the longest runs; ``macs`` is what a layer takes in these, row by row.
    """
    cost = _Instructions(graph.tensors, target)
    return replace(graph, layers=tuple(cost.of_layer(layer, longest) for layer in graph.layers))


@dataclass(frozen=True)
class _Instructions:
    tensors: Sequence[BlockTensor]
    target: Target

    def of_layer(self, layer: Layer, longest: int) -> Layer:
        costs = instruction_costs(self.target)
        if layer.stage is None:
            return replace(layer, macs=predicted_instructions({"plain macs": layer.macs}, costs))
        stage = replace(layer.stage, inputs=layer.inputs, output=layer.outputs[0])
        counts = [
            stage_counts(stage, self.tensors, {length: 1}, self.target.conv_at_once) for length in range(1, longest + 1)
        ]
        runs = tuple(ceil(expected_instructions(each, costs)) for each in counts)
        output = self.tensors[stage.output]
        rest = output.width % longest
        row = output.width // longest * runs[-1] + (runs[rest - 1] if rest else 0)
        return replace(layer, macs=output.height * row, run_costs=runs)
