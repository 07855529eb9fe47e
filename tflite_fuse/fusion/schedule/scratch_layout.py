"""Where a block's rings and sums lie in its scratch, and how many bytes each takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflite_fuse.fusion.block.axes import stage_windows
from tflite_fuse.fusion.block.kinds.table import KINDS, accumulates, sum_bytes
from tflite_fuse.fusion.block.limits import CURSOR_BYTES, POINTER_BYTES, STACK_POINTERS
from tflite_fuse.fusion.block.stages import Block, BlockTensor, Stage, Storage
from tflite_fuse.fusion.schedule.tiles import Split
from tflite_fuse.units import Count, round_up

SCRATCH_ALIGNMENT = 4
"""Every tensor and every accumulator in scratch starts at a multiple of this many bytes."""


@dataclass(frozen=True)
class ScratchLayout:
    """Where things lie in scratch, in bytes; −1 for what is not in it."""

    offsets: tuple[int, ...]
    accumulator_offsets: tuple[int, ...]
    reserved_bytes: int
    scratch_bytes: int


def ring_bytes(pixels: Count, pixel_bytes: int) -> Count:
    """Bytes of a ring that holds so many pixels."""
    return round_up(pixels * pixel_bytes, SCRATCH_ALIGNMENT)


def window_pointers(stage: Stage) -> int:
    """Pixel pointers the executor needs to compute one output pixel of a stage: its window's and the output's.

    Kinds that read two tensors at once need one more.
    """
    fewest, _ = KINDS[stage.kind].inputs
    rows, columns = stage_windows(stage)
    return (stage.kernel_size[0] if rows.spread == 1 else rows.most(1)) * columns.most(1) + fewest


def reserved_bytes(spatial_stages: int, pointers: int) -> int:
    """Bytes at the start of scratch for cursors, and for the pointers of a window too large for the C stack.

    Args:
        spatial_stages: how many there are.
        pointers: ``window_pointers`` of the stage that needs the most.
    """
    on_stack = pointers <= STACK_POINTERS
    return round_up(CURSOR_BYTES * spatial_stages, POINTER_BYTES) + (0 if on_stack else POINTER_BYTES * pointers)


def accumulator_bytes(stage: Stage, tensors: Sequence[BlockTensor]) -> int:
    """Bytes a stage's sums take in scratch, 0 if it keeps none."""
    return round_up(sum_bytes(stage, tensors), SCRATCH_ALIGNMENT)


def lay_out(block: Block, split: Split, capacities: Sequence[int]) -> ScratchLayout:
    """Places rings and accumulators one behind the other.

    When the tail runs, the rings of the spatial stages are done: what the tail writes lies over them, behind the sums
    it reads.
    """
    offsets, sums = [-1] * len(block.tensors), [-1] * len(block.stages)
    reserved = end = reserved_bytes(len(split.spatial), max(map(window_pointers, block.stages)))
    for index, stage in enumerate(split.tail, len(split.spatial)):
        if accumulates(stage, block.tensors) and stage.inputs[0] == split.driven:
            sums[index] = end
            end += accumulator_bytes(stage, block.tensors)
    tail_end = end
    for stage in split.spatial:
        end = _place(block, stage.output, capacities, offsets, end)
    for index, stage in enumerate(split.tail, len(split.spatial)):
        tail_end = _place(block, stage.output, capacities, offsets, tail_end)
        if accumulates(stage, block.tensors) and sums[index] < 0:
            sums[index] = tail_end
            tail_end += accumulator_bytes(stage, block.tensors)
    return ScratchLayout(tuple(offsets), tuple(sums), reserved, max(end, tail_end))


def _place(block: Block, index: int, capacities: Sequence[int], offsets: list[int], end: int) -> int:
    if block.tensors[index].storage is not Storage.SCRATCH:
        return end
    offsets[index] = end
    return end + ring_bytes(capacities[index], block.tensors[index].pixel_bytes)
