"""How weights are stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tflite_fuse.fusion.block.kinds.table import KINDS
from tflite_fuse.fusion.block.stages import Block, WeightForm
from tflite_fuse.fusion.lower.operators import Lowerings


def with_weights(lowerings: Lowerings, form: WeightForm) -> Lowerings:
    """The same stages, their weights stored in this form."""
    if form is WeightForm.EIGHT:
        return lowerings
    return tuple(
        replace(each, stage=replace(each.stage, weight_form=form)) if not isinstance(each, str) and each.stage else each
        for each in lowerings
    )


def flash_of_16_bits(blocks: Iterable[Block]) -> int:
    """Bytes that weights of 16 bits take more than those of 8 would."""
    return sum(
        len(KINDS[stage.kind].encode_table(stage, block.tensors).weights)
        - len(KINDS[stage.kind].encode_table(replace(stage, weight_form=WeightForm.EIGHT), block.tensors).weights)
        for block in blocks
        for stage in block.stages
        if stage.weight_form is WeightForm.SIXTEEN
    )
