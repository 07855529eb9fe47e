"""MAXIMUM and MINIMUM: the larger, or the smaller, of two bytes, whatever they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tflite_fuse.fusion.block.arithmetic import Int64Array
from tflite_fuse.fusion.block.entry import Kind, Operand
from tflite_fuse.fusion.block.operators.view import Fit, Lowered, OperatorView
from tflite_fuse.fusion.block.stages import BlockTensor, Stage, StageKind


def _kind(number: StageKind, extreme: Callable[[Int64Array, Int64Array], Int64Array]) -> Kind:
    """The kind of one of the two: TFLM compares bytes and never looks at their quantization."""

    def reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
        (_, first), (_, second) = operands
        return extreme(first, second)

    def lower(view: OperatorView) -> Lowered:
        first, second, output = view.pair()
        return Lowered(Stage(number, (), -1), (first, second), output, output.shape, Fit.PIXELS)

    return Kind(
        number,
        inputs=(2, 2),
        by_value=True,
        check=lambda check: check.pair(),
        reference=reference,
        lowerings={number.name: lower},
    )


MAXIMUM = _kind(StageKind.MAXIMUM, np.maximum)
MINIMUM = _kind(StageKind.MINIMUM, np.minimum)
