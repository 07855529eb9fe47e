"""Blocks of one operator each, for what is in no block: the device library then runs a model that TFLM ran parts of."""

from __future__ import annotations

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.stages import BlockConfig
from tflite_fuse.fusion.lower.operators import lower_model
from tflite_fuse.fusion.search.front import BlockChoice
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.fusing.insert_blocks import insert_blocks

_WHOLE = BlockConfig(2**31 - 1, 2**31 - 1)
"""One tile, whatever the size."""


def with_lone_blocks(model: Model) -> tuple[Model, tuple[str, ...]]:
    """Make a block of every operator that can be a stage and is in no block; one that only renames bytes stays.

    Such a block computes what its operator did, from whole tensors to whole tensors; RESHAPEs behind it are part of it.

    Args:
        model: without an offline plan, as tensor indices change.

    Returns:
        The model, and labels of the operators that became blocks.
    """
    found = [
        index
        for index, lowered in enumerate(lower_model(model))
        if not isinstance(lowered, str) and lowered.stage is not None and not lowered.unit
    ]
    labels = []
    for index in reversed(found):  # a block takes the place of its operator and of RESHAPEs behind it
        try:
            made, _ = insert_blocks(model, [BlockChoice((index,), _WHOLE, 0, 0, 0, "line-buffers")])
        except BlockError:
            continue
        labels.append(operator_label(model, index))
        model = made
    return model, tuple(reversed(labels))
