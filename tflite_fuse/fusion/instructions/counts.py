"""How many instructions a block takes on a microcontroller: a linear model of what its stages do.

What a stage does is counted per kind and shape: multiply-accumulates, outputs (each is requantized once), taps, runs
(calls of a kernel) and what these look up. A target's costs per count are fitted from emulated runs by
``scripts/fit_instructions.py``, which prints how far they are off on models they were not fitted on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import UsageError
from tflite_fuse.fusion.block.limits import STACK_POINTERS
from tflite_fuse.fusion.block.packing import can_pack, packs_as_conv
from tflite_fuse.fusion.block.stages import Block, BlockConfig, BlockTensor, Stage, StageKind
from tflite_fuse.fusion.schedule.schedule import products_per_pixel, schedule
from tflite_fuse.fusion.schedule.tiles import accumulates

COUNTS = (
    "conv macs",
    "conv outputs",
    "conv pair macs",
    "conv pair outputs",
    "conv single macs",
    "conv single outputs",
    "conv part macs",
    "conv part outputs",
    "conv taps",
    "depthwise macs",
    "depthwise outputs",
    "depthwise pair macs",
    "depthwise pair outputs",
    "depthwise single macs",
    "depthwise single outputs",
    "plain macs",
    "plain outputs",
    "plain taps",
    "dense macs",
    "dense outputs",
    "other values",
    "other outputs",
    "columns",
    "runs",
)
"""What is counted of a block. ``pair``, ``single``: of two pixels or one that are left over beside the groups kernels
compute together; ``part``: of pixels whose windows are too large to be made pairs of at once, on cores that make pairs;
``plain``: convolutions the packed kernels cannot do; ``dense``: FULLY_CONNECTED; ``other``: every kind without weights,
values being those it reads; ``columns``: pixels of inputs that runs look up."""

DEPTHWISE_AT_ONCE = 4
"""Pixels the depthwise kernels compute together, TFLITE_FUSE_DEPTHWISE_PIXELS; a group may lack some, which takes as
long."""

PAIRED_VALUES = 160
"""Values of two windows each that the convolution with pairs keeps as pairs, TFLITE_FUSE_PATCH_VALUES."""

_OWN_KERNEL = 3
"""Width of the depthwise window for which few pixels left over have kernels of their own."""


def conv_at_once(core: str) -> int:
    """Pixels the packed convolution computes together on a core, TFLITE_FUSE_CONV_AT_ONCE: 2 as pairs, 4 in plain C."""
    return 2 if core in ("cortex-m7", "cortex-m4") else 4


def block_counts(block: Block, config: BlockConfig, at_once: int) -> dict[str, int]:
    """What one run of a block does, recomputation included; keys are COUNTS.

    Args:
        at_once: ``conv_at_once`` of the core.

    Raises:
        BlockError: the block cannot run under this configuration.
    """
    plan = schedule(block, config)
    counts = dict.fromkeys(COUNTS, 0)
    runs = [*plan.stage_runs, *({1: 1} for _ in block.stages[plan.spatial_stages :])]
    for stage, of_stage in zip(block.stages, runs, strict=True):
        for name, count in stage_counts(stage, block.tensors, of_stage, at_once).items():
            counts[name] += count
    for stage in block.stages[plan.spatial_stages :]:
        counts["runs"] += _visits(block, stage, config)
    return counts


def stage_counts(stage: Stage, tensors: Sequence[BlockTensor], runs: Mapping[int, int], at_once: int) -> dict[str, int]:
    """What a stage does in runs of these lengths, each so many times."""
    counts = {"runs": sum(runs.values()), "columns": _columns(stage, runs)}
    channels, pixels = tensors[stage.output].channels, sum(length * times for length, times in runs.items())
    macs, taps = products_per_pixel(stage, tensors), pixels * prod(stage.kernel_size)
    if stage.kind is StageKind.FULLY_CONNECTED:
        return counts | {"dense macs": macs, "dense outputs": channels}
    if stage.kind not in (StageKind.CONV, StageKind.DEPTHWISE):
        return counts | {"other values": _values(tensors, stage, taps), "other outputs": pixels * channels}
    kind = _kernel(tensors, stage)
    if kind == "plain":
        return counts | {"plain macs": pixels * macs, "plain outputs": pixels * channels, "plain taps": taps}
    computed = _conv_pixels(stage, tensors, runs, at_once) if kind == "conv" else _depthwise_pixels(stage, runs)
    for way, number in computed.items():
        counts |= {f"{way} macs": number * macs, f"{way} outputs": number * channels}
    return counts | ({"conv taps": taps} if kind == "conv" else {})


def _conv_pixels(stage: Stage, tensors: Sequence[BlockTensor], runs: Mapping[int, int], at_once: int) -> dict[str, int]:
    """Pixels by how the packed convolution computes them."""
    found = Counter[str]()
    row = stage.kernel_size[1] * tensors[stage.inputs[0]].channels
    values = stage.kernel_size[0] * ceil(row / 4) * 4
    for length, times in runs.items():
        rest = length % at_once
        found["conv"] += (length - rest) * times
        found["conv pair"] += (rest - rest % 2) * times
        found["conv single"] += rest % 2 * times
    if at_once == 2 and values > PAIRED_VALUES:
        found["conv part"] = found.pop("conv")
        if values > 2 * PAIRED_VALUES:
            found["conv part"] += 2 * found.pop("conv single")  # twice the same pixel
    return found


def _depthwise_pixels(stage: Stage, runs: Mapping[int, int]) -> dict[str, int]:
    """Pixels by how the packed depthwise convolution computes them; those a group lacks count too."""
    found = Counter[str]()
    for length, times in runs.items():
        left_over = length % DEPTHWISE_AT_ONCE
        few = stage.kernel_size[1] == _OWN_KERNEL and 0 < left_over <= 3 - stage.stride[1]
        found["depthwise"] += (length // DEPTHWISE_AT_ONCE + (left_over > 0 and not few)) * DEPTHWISE_AT_ONCE * times
        if few:
            found["depthwise single" if left_over == 1 else "depthwise pair"] += left_over * times
    return found


def _columns(stage: Stage, runs: Mapping[int, int]) -> int:
    """Pixels of its inputs that a stage's runs look up."""
    (height, _), (_, stride), (_, extent) = stage.kernel_size, stage.stride, stage.extent
    across = sum(((length - 1) * stride + extent) * times for length, times in runs.items())
    return height * across * len(stage.inputs)


def _kernel(tensors: Sequence[BlockTensor], stage: Stage) -> str:
    source = tensors[stage.inputs[0]]
    if not can_pack(stage, source, STACK_POINTERS):
        return "plain"
    return "conv" if packs_as_conv(stage.kind, source) else "depthwise"


def _values(tensors: Sequence[BlockTensor], stage: Stage, taps: int) -> int:
    if stage.kind is StageKind.GLOBAL_AVERAGE:
        return tensors[stage.inputs[0]].nbytes
    return sum(taps * tensors[source].channels for source in stage.inputs)


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
