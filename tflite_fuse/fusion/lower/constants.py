"""Operators of two tensors of which one is a constant."""

from __future__ import annotations

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.kinds.elementwise.lookup import VALUES, lookup_parameters
from tflite_fuse.fusion.block.kinds.elementwise.real import one_value
from tflite_fuse.fusion.block.operators.view import Fit, Lowered
from tflite_fuse.fusion.block.stages import Stage, StageKind
from tflite_fuse.fusion.lower.tables import function_of


def fold_constant(lowered: Lowered) -> Lowered:
    """The same without constant operands: where one value stands in all of one, a table.

    Raises:
        BlockError: a constant holds different values.
    """
    constants = [part for part in lowered.inputs if part.constant is not None]
    if not constants:
        return lowered
    function = function_of(lowered)
    if function is None:
        raise BlockError(f"its input {constants[0].name} is a constant")
    values = [VALUES if part.constant is None else np.full_like(VALUES, one_value(part)[0]) for part in lowered.inputs]
    source = next(part for part in lowered.inputs if part.constant is None)
    stage = Stage(StageKind.LOOKUP, (), -1, parameters=lookup_parameters(function(values)))
    return Lowered(stage, (source,), lowered.output, lowered.output_shape, Fit.PIXELS)
