"""Operators of two tensors of which one is a constant."""

from __future__ import annotations

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.kinds.elementwise.lookup import VALUES, lookup_parameters
from tflite_fuse.fusion.block.kinds.elementwise.offset import offset_by_channel
from tflite_fuse.fusion.block.kinds.elementwise.real import one_value
from tflite_fuse.fusion.block.kinds.elementwise.scale import scale_by_channel
from tflite_fuse.fusion.block.operators.operands import by_channel
from tflite_fuse.fusion.block.operators.view import Fit, Lowered
from tflite_fuse.fusion.block.stages import Stage, StageKind
from tflite_fuse.fusion.lower.tables import function_of

_BY_CHANNEL = {StageKind.ADD: offset_by_channel, StageKind.MULTIPLY: scale_by_channel}


def fold_constant(lowered: Lowered) -> Lowered:
    """The same without constant operands: a table where all values of one are equal, else one number per channel.

    Raises:
        BlockError: a constant differs from pixel to pixel, or no kind has such numbers.
    """
    constants = [part for part in lowered.inputs if part.constant is not None]
    if not constants:
        return lowered
    function = function_of(lowered)
    if function is None or lowered.stage is None:
        raise BlockError(f"its input {constants[0].name} is a constant")
    if np.unique(constants[0].constant if constants[0].constant is not None else []).size != 1:
        if lowered.stage.kind not in _BY_CHANNEL:
            raise BlockError(f"its constant {constants[0].name} holds different values")
        return _BY_CHANNEL[lowered.stage.kind](lowered, by_channel(constants[0], lowered.output_shape[2]))
    values = [VALUES if part.constant is None else np.full_like(VALUES, one_value(part)[0]) for part in lowered.inputs]
    source = next(part for part in lowered.inputs if part.constant is None)
    stage = Stage(StageKind.LOOKUP, (), -1, parameters=lookup_parameters(function(values)))
    return Lowered(stage, (source,), lowered.output, lowered.output_shape, Fit.PIXELS)
