"""How many instructions a block takes on a microcontroller: a linear model of what its stages do.

What a stage does is counted per kind and shape: multiply-accumulates, outputs (each is requantized once), taps, runs
(calls of a kernel) and what these look up. A target's costs per count are fitted from emulated runs by
``scripts/fit_instructions.py``, which prints how far they are off on models they were not fitted on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from tflite_fuse.fusion.block.kinds.table import COUNTS as KINDS_COUNT
from tflite_fuse.fusion.block.kinds.table import KINDS, accumulates
from tflite_fuse.fusion.block.stages import Block, BlockConfig, BlockTensor, Stage
from tflite_fuse.fusion.schedule.schedule import Schedule

COUNTS = (*KINDS_COUNT, "columns", "runs")
"""What is counted of a block. ``pair``, ``single``: of two pixels or one that are left over beside the groups kernels
compute together; ``part``: of pixels whose windows are too large to be widened at once;
``plain``: convolutions the packed kernels cannot do; ``dense``: FULLY_CONNECTED; ``other``: kinds that count no work of
their own, values being those they read; ``columns``: pixels of inputs that runs look up."""


def conv_at_once(core: str) -> int:
    """Pixels the packed convolution computes together on a core, TFLITE_FUSE_CONV_AT_ONCE: two on every core so far."""
    return 2


def block_counts(block: Block, plan: Schedule, at_once: int) -> dict[str, int]:
    """What one run of a block does, recomputation included; keys are COUNTS.

    Args:
        block, plan: what runs, and how.
        at_once: ``conv_at_once`` of the core.
    """
    counts = dict.fromkeys(COUNTS, 0)
    runs = [*plan.stage_runs, *({1: 1} for _ in block.stages[plan.spatial_stages :])]
    for stage, of_stage in zip(block.stages, runs, strict=True):
        for name, count in stage_counts(stage, block.tensors, of_stage, at_once).items():
            counts[name] += count
    for stage in block.stages[plan.spatial_stages :]:
        counts["runs"] += _visits(block, stage, plan.config)
    return counts


def stage_counts(stage: Stage, tensors: Sequence[BlockTensor], runs: Mapping[int, int], at_once: int) -> dict[str, int]:
    """What a stage does in runs of these lengths, each so many times."""
    counts = {"runs": sum(runs.values()), "columns": _columns(stage, runs)}
    return counts | KINDS[stage.kind].work(stage, tensors, runs, at_once)


def _columns(stage: Stage, runs: Mapping[int, int]) -> int:
    """Pixels of its inputs that a stage's runs look up."""
    (height, _), (_, stride), (_, extent) = stage.kernel_size, stage.stride, stage.extent
    across = sum(((length - 1) * stride + extent) * times for length, times in runs.items())
    return height * across * len(stage.inputs)


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
