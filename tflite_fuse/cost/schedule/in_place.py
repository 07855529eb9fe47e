"""Stages of a block that compute in place, so that their input and their output share a ring.

depthwise -> ring of a run of pixels -> 1 x 1 convolution -> ring of rows      two rings
depthwise -> ring of rows, whose new pixels the 1 x 1 convolution replaces     one
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tflite_fuse.cost.schedule.tiles import split_block
from tflite_fuse.ir.block import Block, Stage, Storage
from tflite_fuse.ops.table import KINDS


def with_stages_in_place(block: Block) -> Block:
    """Return the block in which all stages that can compute in place do so."""
    split = split_block(block)
    readers = Counter(tensor for stage in block.stages for tensor in set(stage.inputs))
    rings = {stage.output for stage in split.spatial if block.tensors[stage.output].storage is Storage.SCRATCH}
    own = {tensor for tensor in rings if readers[tensor] == 1 and tensor != split.driven}

    def in_place(stage: Stage) -> Stage:
        if stage.output not in rings:
            return stage
        kind, output = KINDS[stage.kind], block.tensors[stage.output]
        possible = (t for t in stage.inputs if t in own and kind.may_overwrite(stage, block.tensors[t], output))
        return replace(stage, overwrites=next(possible, -1))

    return replace(block, stages=tuple(map(in_place, block.stages)))
