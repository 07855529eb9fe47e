"""How many instructions a block takes on a microcontroller: a linear model of what its stages do.

What a stage does is counted per kind and shape: multiply-accumulates, outputs (each is requantized once), taps (pixels
looked up), runs (calls of a kernel). A target's costs per count are fitted from emulated runs by
``scripts/fit_instructions.py``, which prints how far they are off on models they were not fitted on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import UsageError
from tflite_fuse.fusion.block import ACCUMULATORS, Block, BlockConfig, BlockTensor, Stage, StageKind
from tflite_fuse.fusion.packing import can_pack, packs_as_conv
from tflite_fuse.fusion.schedule import STACK_POINTERS, schedule

COUNTS = (
    "conv macs",
    "conv outputs",
    "conv taps",
    "depthwise macs",
    "depthwise outputs",
    "depthwise taps",
    "plain macs",
    "plain outputs",
    "plain taps",
    "dense macs",
    "dense outputs",
    "other values",
    "other outputs",
    "runs",
)
"""What is counted of a block. ``plain``: convolutions the packed kernels cannot do; ``dense``: FULLY_CONNECTED;
``other``: every kind without weights, values being those it reads."""


def block_counts(block: Block, config: BlockConfig) -> dict[str, int]:
    """What one run of a block does, recomputation included; keys are COUNTS.

    Raises:
        BlockError: the block cannot run under this configuration.
    """
    plan = schedule(block, config)
    counts = dict.fromkeys(COUNTS, 0)
    tail = block.stages[plan.spatial_stages :]
    counts["runs"] = sum(plan.stage_runs) + sum(_tail_runs(block, stage, config) for stage in tail)
    for stage, pixels, macs in zip(block.stages, plan.stage_pixels, plan.stage_macs, strict=True):
        for name, count in stage_counts(stage, block.tensors, pixels, macs).items():
            counts[name] += count
    return counts


def stage_counts(stage: Stage, tensors: Sequence[BlockTensor], pixels: int, macs: int) -> dict[str, int]:
    """What a stage does to compute some pixels with so many multiply-accumulates, but for the number of runs."""
    channels, taps = tensors[stage.output].channels, pixels * prod(stage.kernel_size)
    if stage.kind in (StageKind.CONV, StageKind.DEPTHWISE):
        kind = _kernel(tensors, stage)
        return {f"{kind} macs": macs, f"{kind} outputs": pixels * channels, f"{kind} taps": taps}
    if stage.kind is StageKind.FULLY_CONNECTED:
        return {"dense macs": macs, "dense outputs": channels}
    return {"other values": _values(tensors, stage, taps), "other outputs": pixels * channels}


def _kernel(tensors: Sequence[BlockTensor], stage: Stage) -> str:
    source = tensors[stage.inputs[0]]
    if not can_pack(stage, source, STACK_POINTERS):
        return "plain"
    return "conv" if packs_as_conv(stage.kind, source) else "depthwise"


def _values(tensors: Sequence[BlockTensor], stage: Stage, taps: int) -> int:
    if stage.kind is StageKind.GLOBAL_AVERAGE:
        return tensors[stage.inputs[0]].nbytes
    return sum(taps * tensors[source].channels for source in stage.inputs)


def _tail_runs(block: Block, stage: Stage, config: BlockConfig) -> int:
    """Calls of the kernel of a stage behind accumulators: one for each run of the pixels it adds up."""
    if stage.kind not in ACCUMULATORS:
        return 1
    source = block.tensors[stage.inputs[0]]
    return source.height * ceil(source.width / config.chunk)


def predicted_instructions(counts: Mapping[str, int], costs: Mapping[str, float]) -> int:
    """Instructions of what was counted, at a target's costs."""
    return round(sum(count * costs.get(name, 0.0) for name, count in counts.items()))


def fit_costs(counts: list[dict[str, int]], instructions: list[int]) -> dict[str, float]:
    """Costs ≥ 0 that make the relative errors least, in the sense of least squares.

    Args:
        counts: of blocks that were run.
        instructions: what each took, > 0.

    Raises:
        UsageError: there are no runs, or one took no instructions.
    """
    if not counts or min(instructions, default=0) <= 0:
        raise UsageError("costs are fitted from runs that took instructions, and there are none")
    seen = np.array([[row[name] for name in COUNTS] for row in counts], dtype=np.float64)
    scaled = seen / np.array(instructions, dtype=np.float64)[:, None]
    return dict(zip(COUNTS, _non_negative(scaled, np.ones(len(counts))).tolist(), strict=True))


def _non_negative(matrix: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Least squares with all unknowns ≥ 0: Lawson and Hanson, Solving Least Squares Problems, chapter 23."""
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1.0
    unit = matrix / scale
    solution, free = np.zeros(unit.shape[1]), np.zeros(unit.shape[1], dtype=bool)
    for _ in range(3 * unit.shape[1]):
        gradient = np.where(free, -np.inf, unit.T @ (wanted - unit @ solution))
        if gradient.max() <= 1e-10:
            break
        free[gradient.argmax()] = True
        solution = _stay_positive(unit, wanted, solution, free)
    result: npt.NDArray[np.float64] = solution / scale
    return result


def _stay_positive(
    unit: npt.NDArray[np.float64],
    wanted: npt.NDArray[np.float64],
    solution: npt.NDArray[np.float64],
    free: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """The least-squares solution over the free unknowns, freeing fewer of them until none is negative."""
    while True:
        best = np.zeros_like(solution)
        best[free] = np.linalg.lstsq(unit[:, free], wanted, rcond=None)[0]
        negative = free & (best <= 0)
        if not negative.any():
            return best
        steps = solution[negative] / (solution[negative] - best[negative])
        solution = solution + steps.min() * (best - solution)
        free &= solution > 1e-12
        solution = np.where(free, solution, 0.0)
