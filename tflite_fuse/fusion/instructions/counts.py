"""How many instructions a block takes on a microcontroller: a linear model of what its stages do.

What a stage does is counted per kind and shape: multiply-accumulates, outputs (each is requantized once), taps, runs
(calls of a kernel) and what these look up. A target's costs per count are fitted from emulated runs by
``scripts/fit_instructions.py``, which prints how far they are off on models they were not fitted on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from tflite_fuse.fusion.block.entry import Kernels
from tflite_fuse.fusion.block.kinds.table import COUNTS as KINDS_COUNT
from tflite_fuse.fusion.block.kinds.table import KINDS, accumulates
from tflite_fuse.fusion.block.stages import Block, BlockConfig, BlockTensor, Stage
from tflite_fuse.fusion.schedule.schedule import Schedule

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
    return counts | KINDS[stage.kind].work(stage, tensors, runs, kernels)


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
