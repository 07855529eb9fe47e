"""Predicted instructions and cycles of blocks: a linear model of counted work.

Per kind and shape of a stage, ``COUNTS`` are counted: multiply-accumulates, outputs (each is requantized once), taps,
runs (calls of a kernel), pixels read. A target's instructions per count are fitted to emulated runs by
``scripts/fit_instructions.py``, which prints the prediction error on models left out of the fit. For cores with a
timing model, cycles per count are fitted to its results for the same runs (``Cycles``).
"""

from __future__ import annotations

import json
from collections import Counter
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
from tflite_fuse.cost.schedule.tile_order import window_pointers
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, Stage
from tflite_fuse.ir.limits import TABLE_POINTERS
from tflite_fuse.ops.entry import Kernels
from tflite_fuse.ops.packing import packs_sums
from tflite_fuse.ops.table import COUNTS as KINDS_COUNT
from tflite_fuse.ops.table import KINDS, accumulates

COUNTS = (*KINDS_COUNT, "columns", "rows", "runs", "pulls", "blocks")
"""Names of the counts of a block. ``four``: pixels computed four at a time, with DSP instructions or enough registers;
``single``: pixels that remain after a kernel's groups; ``int16``: with 16-bit weights; ``part``: windows too large
to be widened at once; ``apart``: windows two pixels apart; ``slow``: outputs that are clamped once more; ``plain``:
convolutions that the packed kernels do not support; ``dense``: FULLY_CONNECTED of several pixels, plain as well;
``other``: kinds without counts of their own, with the values that they read; ``widened``: weights in float16 read as
float32; ``runs``: calls of kernels; ``columns``, ``rows``: pixels and rows of inputs that these look up; ``pulls``:
runs for which another stage waits.
"""


_FAMILIES = {"cortex-m4": Kernels.DSP, "cortex-m7": Kernels.DSP, "cortex-m55": Kernels.HELIUM, "rv32imc": Kernels.ROOMY}


def kernels_of(core: str) -> Kernels:
    """Return the family of kernels that the library has on an emulated core."""
    return _FAMILIES.get(core, Kernels.PLAIN)


def block_counts(block: Block, plan: Schedule, kernels: Kernels) -> dict[str, int]:
    """Return the counts of one run of a block, recomputation included; keys are COUNTS.

    Args:
        block, plan: the block and its schedule.
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
        for name, count in _visit_counts(stage, block.tensors, kernels).items():
            counts[name] += count * _visits(block, stage, plan.config)
    return counts


def _visit_counts(stage: Stage, tensors: Sequence[BlockTensor], kernels: Kernels) -> dict[str, int]:
    """Return the counts of one call that adds pixels to an accumulator; packed weights are a convolution's."""
    output = tensors[stage.output]
    if not packs_sums(stage.kind, tensors[stage.inputs[0]], output):
        return {"runs": 1}
    outputs = "conv single outputs" if kernels is Kernels.HELIUM else "conv part outputs"
    return {"runs": 1, "conv groups": 1, outputs: output.channels}


def stage_counts(
    stage: Stage, tensors: Sequence[BlockTensor], runs: Mapping[int, int], kernels: Kernels
) -> dict[str, int]:
    """Return the counts of a stage; ``runs`` has the number of runs of each length in pixels."""
    calls = _in_calls(stage, runs)
    number = sum(calls.values())
    counts = {"runs": number, "rows": number * _rows(stage), "columns": _columns(stage, calls)}
    return counts | KINDS[stage.kind].work.of(stage, tensors, calls, kernels)


def _in_calls(stage: Stage, runs: Mapping[int, int]) -> Mapping[int, int]:
    """Return the kernel calls of each length in pixels: long runs are split until their pointers fit the C stack."""
    if window_pointers(stage, max(runs, default=1)) <= TABLE_POINTERS:
        return runs
    calls: Counter[int] = Counter()
    for length, number in runs.items():
        at_once = length
        while at_once > 1 and window_pointers(stage, at_once) > TABLE_POINTERS:
            at_once = (at_once - 1) // 4 * 4 or min(2, at_once - 1)
        calls[at_once] += length // at_once * number
        calls[length % at_once] += number
    del calls[0]
    return calls


def _rows(stage: Stage) -> int:
    """Return the input rows that a stage looks up in every run."""
    return stage.kernel_size[0] * len(stage.inputs)


def _columns(stage: Stage, runs: Mapping[int, int]) -> int:
    """Return the input pixels that a stage's runs look up."""
    (_, stride), (_, extent) = stage.stride, stage.extent
    across = sum(((length - 1) * stride + extent) * times for length, times in runs.items())
    return _rows(stage) * across


def _visits(block: Block, stage: Stage, config: BlockConfig) -> int:
    """Return the calls that add pixels to an accumulator, without the one that writes its output."""
    if not accumulates(stage, block.tensors):
        return 0
    source = block.tensors[stage.inputs[0]]
    width = min(config.tile_width, source.width)
    strips, rest = divmod(source.width, width)
    return source.height * (strips * ceil(width / config.chunk) + ceil(rest / config.chunk))


def predicted_instructions(counts: Mapping[str, int], costs: Mapping[str, float]) -> int:
    """Return the instructions for some counts at a target's costs, rounded."""
    return round(expected_instructions(counts, costs))


def expected_instructions(counts: Mapping[str, int], costs: Mapping[str, float]) -> float:
    """Return the instructions for some counts at a target's costs, not rounded."""
    return sum(count * costs.get(name, 0.0) for name, count in counts.items())


LEAST_GAIN = 1 / 1000
"""Share of predicted instructions that a point with more RAM must save to be on the front."""

COSTS_FILE = Path(__file__).resolve().parents[1] / "data" / "instruction_costs.json"
"""Instructions per count for each emulated core, written by ``scripts/fit_instructions.py --write``."""

CYCLES_FILE = COSTS_FILE.with_name("cycle_costs.json")
"""Cycles per count for each core with a timing model, written by ``scripts/fit_instructions.py --cycles --write``."""


LONGEST = 8
"""Pixels of the longest runs considered; an operator outside blocks is counted in runs of this length."""


class Target(str, Enum):
    """Cores with measured instruction costs, by the names used in options."""

    CORTEX_M7 = "cortex-m7"
    CORTEX_M4 = "cortex-m4"
    CORTEX_M55 = "cortex-m55"
    ESP32C3 = "esp32c3"
    XTENSA = "xtensa"
    GENERIC = "generic"

    @property
    def core(self) -> str:
        """Return the emulated core on which it was measured; portable C on rv32imc represents the generic one."""
        return {"esp32c3": "rv32imc", "generic": "rv32imc", "xtensa": "xtensa-lx106"}.get(self.value, self.value)

    @property
    def kernels(self) -> Kernels:
        """Return the family of kernels that the library has on it."""
        return kernels_of(self.core)

    @property
    def has_cycles(self) -> bool:
        """Return whether cycles of this core itself can be predicted."""
        return self is not Target.GENERIC and self.core in _file(CYCLES_FILE)


@dataclass(frozen=True)
class Cycles:
    """A core whose predicted cycles replace its instructions; costs raise KeyError if it has no timing model."""

    target: Target

    @property
    def value(self) -> str:
        """Return the name of the core used in options."""
        return self.target.value

    @property
    def kernels(self) -> Kernels:
        """Return the family of kernels that the library has on it."""
        return self.target.kernels


Core = Target | Cycles
"""A core and the unit counted on it: instructions of a target, or its cycles."""


@dataclass(frozen=True)
class PredictionError:
    """Relative error of predictions, as shares, on models that were left out of the fit."""

    mean: float
    largest: float

    def __str__(self) -> str:
        return f"{self.mean:.0%} off on average on models they were not fitted on, {self.largest:.0%} at most"


@dataclass(frozen=True)
class PredictedCycles:
    """Predicted cycles of a model, by the core's timing model.

    Attributes:
        cycles: cycles of one inference.
        unfused_cycles, trimmed_cycles: as in ``Prediction``.
        error: relative error of such predictions against the timing model.
    """

    cycles: int
    unfused_cycles: int
    trimmed_cycles: int
    error: PredictionError


@dataclass(frozen=True)
class Prediction:
    """Predicted cost of a model in the device library; operators outside blocks count as if it ran them, too.

    Attributes:
        target: name of the core used in options.
        instructions: instructions of one inference.
        unfused_instructions: instructions of the model as in its file, each operator by itself.
        trimmed_instructions: instructions of the model from which blocks are made, without dead channels.
        error: relative error of such predictions.
        cycles: the same in cycles, for cores with a timing model.
    """

    target: str
    instructions: int
    unfused_instructions: int
    trimmed_instructions: int
    error: PredictionError
    cycles: PredictedCycles | None = None

    @property
    def factor(self) -> float:
        """Return ``instructions`` divided by those of the unfused model."""
        return self.instructions / self.unfused_instructions if self.unfused_instructions else 1.0


def instruction_costs(target: Core) -> Mapping[str, float]:
    """Return the instructions (or cycles) per count on a target."""
    costs: dict[str, float] = _fitted(target)["costs"]
    return costs


def prediction_error(target: Core) -> PredictionError:
    """Return the relative error of the predictions for a target when ``instruction_costs`` were fitted."""
    return PredictionError(**_fitted(target)["error"])


def _fitted(target: Core) -> dict[str, Any]:
    costs: dict[str, Any] = (
        _file(CYCLES_FILE)[target.target.core] if isinstance(target, Cycles) else _file(COSTS_FILE)[target.core]
    )
    return costs


@cache
def _file(path: Path) -> dict[str, Any]:
    contents: dict[str, Any] = json.loads(path.read_text())
    return contents


def block_instructions(blocks: Iterable[tuple[Block, Schedule]], target: Core) -> int:
    """Return the predicted instructions (or cycles) of blocks, all their runs included."""
    costs = instruction_costs(target)
    return sum(predicted_instructions(block_counts(block, plan, target.kernels), costs) for block, plan in blocks)


def in_instructions(graph: PricedProgram, target: Core, longest: int) -> PricedProgram:
    """Return the graph with the work of every layer in predicted instructions or cycles of the device library.

    Operators that no block can contain count as a plain convolution with their multiply-accumulates.

    Args:
        longest: pixels of the longest runs; ``work`` is the cost of a layer in these, row by row.
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
            return self._accumulator(index, stage)
        runs = tuple(self._run(stage, length) for length in range(1, self.longest + 1))
        alone = rows_cost(tensors[stage.output], runs) + self._block
        return replace(layer, work=alone, run_costs=runs, pull_cost=ceil(costs["pulls"]))

    def _accumulator(self, index: int, stage: Stage) -> PricedStep:
        """Return the costs of a layer that adds up its input: runs are those over the input; its output is added."""
        layer = self.graph.steps[index]
        counts = _visit_counts(stage, self.graph.tensors, self.target.kernels)
        visits = (ceil(expected_instructions(counts, instruction_costs(self.target))),) * self.longest
        source = self.graph.tensors[self.graph.summed(index)]
        return replace(layer, work=rows_cost(source, visits) + self._run(stage, 1) + self._block, run_costs=visits)

    @property
    def _block(self) -> int:
        """Return the fixed cost of running any block."""
        return ceil(instruction_costs(self.target)["blocks"])

    def _run(self, stage: Stage, length: int) -> int:
        counts = stage_counts(stage, self.graph.tensors, {length: 1}, self.target.kernels)
        return ceil(expected_instructions(counts, instruction_costs(self.target)))
