"""How many bits a weight is stored in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

from tflite_fuse.fusion.block.kinds.table import KINDS
from tflite_fuse.fusion.block.stages import Block
from tflite_fuse.fusion.lower.operators import Lowerings


class WeightBits(Enum):
    """What users may ask for. 16 bits are taken where kernels know them; the others stay 8."""

    EIGHT = "8bit"
    SIXTEEN = "16bit"


def with_weights(lowerings: Lowerings, bits: WeightBits) -> Lowerings:
    """The same stages, their weights stored in so many bits."""
    if bits is WeightBits.EIGHT:
        return lowerings
    return tuple(
        replace(each, stage=replace(each.stage, weight_bits=16)) if not isinstance(each, str) and each.stage else each
        for each in lowerings
    )


def flash_of_16_bits(blocks: Iterable[Block]) -> int:
    """Bytes that weights of 16 bits take more than those of 8 would."""
    return sum(
        len(KINDS[stage.kind].encode_table(stage, block.tensors).weights)
        - len(KINDS[stage.kind].encode_table(replace(stage, weight_bits=8), block.tensors).weights)
        for block in blocks
        for stage in block.stages
        if stage.weight_bits == 16
    )
