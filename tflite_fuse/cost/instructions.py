"""How many instructions a block takes on a microcontroller: a linear model of what its stages do.

What a stage does is counted per kind and shape: multiply-accumulates, outputs (each is requantized once), taps, runs
(calls of a kernel) and what these look up. A target's costs per count are fitted from emulated runs by
``scripts/fit_instructions.py``, which prints how far they are off on models they were not fitted on.

A network's work in instructions of a target instead of multiply-accumulates, for the search to count. For cores with a
timing model the same counts have costs in cycles, fitted on what the model says of the same runs: ``Cycles``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from tflite_fuse.cost.estimate.rings import rows_cost
from tflite_fuse.cost.priced_program import PricedProgram, PricedStep, WorkUnit
from tflite_fuse.cost.schedule.schedule import Schedule
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, Stage
from tflite_fuse.ops.entry import Kernels
from tflite_fuse.ops.table import COUNTS as KINDS_COUNT
from tflite_fuse.ops.table import KINDS, accumulates

COUNTS = (*KINDS_COUNT, "columns", "rows", "runs", "pulls", "blocks")
"""What is counted of a block. ``four``: of pixels that are computed four by four, where there are DSP instructions
or registers for it; ``single``: of those left over beside the groups kernels compute together; ``int16``: with
weights of 16 bits; ``part``: of windows too large to be widened at once; ``apart``: of windows that lie two pixels
apart; ``slow``: outputs that are clamped once more; ``plain``: convolutions the packed kernels cannot do;
``dense``: FULLY_CONNECTED of several pixels; ``other``: kinds that count no work of their own, values being those
they read; ``columns``, ``rows``: pixels of inputs that runs look up, and rows of them; ``pulls``: runs that another
stage waits for."""


_FAMILIES = {
    "cortex-m4": Kernels.DSP,
    "cortex-m7": Kernels.DSP,
    "cortex-m55": Kernels.HELIUM,
    "rv32imc": Kernels.ROOMY,
}


def kernels_of(core: str) -> Kernels:
    """The family of kernels the library has on an emulated core."""
    return _FAMILIES.get(core, Kernels.PLAIN)


def block_counts(block: Block, plan: Schedule, kernels: Kernels) -> dict[str, int]:
    """What one run of a block does, recomputation included; keys are COUNTS.

    Args:
        block, plan: what runs, and how.
        kernels: ``kernels_of`` the core.
    """
    counts = dict.fromkeys(COUNTS, 0) | {"blocks": 1}
    read = {tensor for stage in block.stages[: plan.spatial_stages] for tensor in stage.inputs}
    runs = [*plan.stage_runs, *({1: 1} for _ in block.stages[plan.spatial_stages :])]
    for stage, of_stage in zip(block.stages, runs, strict=True):
        for name, count in stage_counts(stage, block.tensors, of_stage, kernels).items():
            counts[name] += count
        if stage.output in read:
            counts["pulls"] += sum(of_stage.values())
    for stage in block.stages[plan.spatial_stages :]:
        counts["runs"] += _visits(block, stage, plan.config)
    return counts


def stage_counts(
    stage: Stage, tensors: Sequence[BlockTensor], runs: Mapping[int, int], kernels: Kernels
) -> dict[str, int]:
    """What a stage does in runs of these lengths, each so many times."""
    number = sum(runs.values())
    counts = {"runs": number, "rows": number * _rows(stage), "columns": _columns(stage, runs)}
    return counts | KINDS[stage.kind].work.of(stage, tensors, runs, kernels)


def _rows(stage: Stage) -> int:
    """Rows of its inputs that a stage looks up in every run."""
    return stage.kernel_size[0] * len(stage.inputs)


def _columns(stage: Stage, runs: Mapping[int, int]) -> int:
    """Pixels of its inputs that a stage's runs look up."""
    (_, stride), (_, extent) = stage.stride, stage.extent
    across = sum(((length - 1) * stride + extent) * times for length, times in runs.items())
    return _rows(stage) * across


def _visits(block: Block, stage: Stage, config: BlockConfig) -> int:
    """Calls that add up the pixels of an accumulator's input, beside the one that makes its output."""
    if not accumulates(stage, block.tensors):
        return 0
    source = block.tensors[stage.inputs[0]]
    width = min(config.tile_width, source.width)
    strips, rest = divmod(source.width, width)
    return source.height * (strips * ceil(width / config.chunk) + ceil(rest / config.chunk))


def predicted_instructions(counts: Mapping[str, int], costs: Mapping[str, float]) -> int:
    """Instructions of what was counted, at a target's costs."""
    return round(expected_instructions(counts, costs))


def expected_instructions(counts: Mapping[str, int], costs: Mapping[str, float]) -> float:
    """The same, not rounded."""
    return sum(count * costs.get(name, 0.0) for name, count in counts.items())


LEAST_GAIN = 1 / 1000
"""Share of predicted instructions that a point with more RAM must save to be on the front."""

COSTS_FILE = Path(__file__).resolve().parents[1] / "data" / "instruction_costs.json"
"""Instructions per count for each emulated core, as ``scripts/fit_instructions.py --write`` left them."""

CYCLES_FILE = COSTS_FILE.with_name("cycle_costs.json")
"""Cycles per count for each core with a timing model, as ``scripts/fit_instructions.py --cycles --write`` left them."""


LONGEST = 8
"""Pixels of the longest runs that are looked at: in these, an operator that runs by itself is counted."""


class Target(str, Enum):
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

    @property
    def has_cycles(self) -> bool:
        """Whether cycles of this very core are predicted."""
        return self is not Target.GENERIC and self.core in _file(CYCLES_FILE)


@dataclass(frozen=True)
class Cycles:
    """A core whose predicted cycles count in the place of its instructions; raises KeyError if none are known."""

    target: Target

    @property
    def value(self) -> str:
        """The core, as users call it."""
        return self.target.value

    @property
    def kernels(self) -> Kernels:
        """The family of kernels the library has on it."""
        return self.target.kernels


Core = Target | Cycles
"""A core and what is counted on it: instructions of a target, or its cycles."""


@dataclass(frozen=True)
class PredictionError:
    """How far predictions were off, as shares, on models that were left out of the fit."""

    mean: float
    largest: float

    def __str__(self) -> str:
        return f"{self.mean:.0%} off on average on models they were not fitted on, {self.largest:.0%} at most"


@dataclass(frozen=True)
class PredictedCycles:
    """What a model is expected to take, in cycles of the core's timing model.

    Attributes:
        cycles: of one inference.
        unfused_cycles, trimmed_cycles: as in ``Prediction``.
        error: how far such predictions were off what the timing model says.
    """

    cycles: int
    unfused_cycles: int
    trimmed_cycles: int
    error: PredictionError


@dataclass(frozen=True)
class Prediction:
    """What a model is expected to take in the device library, operators outside blocks counted as if they ran there.

    Attributes:
        target: the core, as users call it.
        instructions: of one inference.
        unfused_instructions: the same of the model as its file has it, every operator by itself.
        trimmed_instructions: those of the model that blocks are made of, dead channels left out.
        error: how far such predictions were off.
        cycles: the same in cycles, of cores with a timing model.
    """

    target: str
    instructions: int
    unfused_instructions: int
    trimmed_instructions: int
    error: PredictionError
    cycles: PredictedCycles | None = None

    @property
    def factor(self) -> float:
        """``instructions`` over those of the unfused model."""
        return self.instructions / self.unfused_instructions if self.unfused_instructions else 1.0


def instruction_costs(target: Core) -> Mapping[str, float]:
    """Instructions per count on a target, or cycles per count."""
    costs: dict[str, float] = _fitted(target)["costs"]
    return costs


def prediction_error(target: Core) -> PredictionError:
    """How far predictions for a target were off when ``instruction_costs`` were fitted."""
    return PredictionError(**_fitted(target)["error"])


def _fitted(target: Core) -> dict[str, Any]:
    found: dict[str, Any] = (
        _file(CYCLES_FILE)[target.target.core] if isinstance(target, Cycles) else _file(COSTS_FILE)[target.core]
    )
    return found


@cache
def _file(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def block_instructions(blocks: Iterable[tuple[Block, Schedule]], target: Core) -> int:
    """What blocks are expected to take, all their runs counted: instructions, or cycles."""
    costs = instruction_costs(target)
    return sum(predicted_instructions(block_counts(block, plan, target.kernels), costs) for block, plan in blocks)


def in_instructions(graph: PricedProgram, target: Core, longest: int) -> PricedProgram:
    """The graph with the work of every layer counted in what the device library is expected to take.

    Operators no block can hold count as if their multiply-accumulates were those of a plain convolution.

    Args:
        longest: pixels of the longest runs; ``work`` is what a layer takes in these, row by row.
    """
    cost = _Instructions(graph, target, longest)
    layers = tuple(cost.of_layer(index) for index in range(len(graph.steps)))
    return replace(graph, steps=layers, unit=WorkUnit.CYCLES if isinstance(target, Cycles) else WorkUnit.INSTRUCTIONS)


@dataclass(frozen=True)
class _Instructions:
    graph: PricedProgram
    target: Core
    longest: int

    def of_layer(self, index: int) -> PricedStep:
        layer, tensors = self.graph.steps[index], self.graph.tensors
        costs = instruction_costs(self.target)
        if layer.stage is None:
            return replace(layer, work=predicted_instructions({"plain macs": layer.work}, costs))
        stage = replace(layer.stage, inputs=layer.inputs, output=layer.outputs[0])
        if self.graph.accumulates(index):
            return self._accumulator(layer, stage)
        runs = tuple(self._run(stage, length) for length in range(1, self.longest + 1))
        alone = rows_cost(tensors[stage.output], runs) + self._block
        return replace(layer, work=alone, run_costs=runs, pull_cost=ceil(costs["pulls"]))

    def _accumulator(self, layer: PricedStep, stage: Stage) -> PricedStep:
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
