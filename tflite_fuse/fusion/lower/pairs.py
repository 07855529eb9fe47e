"""Operators that together are a function of two int8 values, by way of float32: one stage.

x ── DEQUANTIZE ─┐
                DIV ── QUANTIZE
y ── DEQUANTIZE ─┘
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.kinds.borders import quantize_parameters
from tflite_fuse.fusion.block.kinds.elementwise.lookup import VALUES
from tflite_fuse.fusion.block.kinds.real_pair import RealPairParameters
from tflite_fuse.fusion.block.operators.operands import Activation
from tflite_fuse.fusion.block.operators.view import Fit, Lowered, Values
from tflite_fuse.fusion.block.stages import Stage, StageKind
from tflite_fuse.fusion.lower.tables import Table


def find_pairs(
    lowered: Mapping[int, Lowered], readers: Mapping[int, Collection[int]], leaves: Callable[[int], bool]
) -> dict[int, Table]:
    """Such stages among some operators, by the QUANTIZE that writes their output.

    Args: as ``tables.find_tables``.
    """
    writer = {each.output.index: index for index, each in lowered.items()}
    found: dict[int, Table] = {}
    for index, last in lowered.items():
        if last.stage is None or last.stage.kind is not StageKind.QUANTIZE:
            continue
        middle = writer.get(last.inputs[0].index)
        operation = None if middle is None else lowered[middle].operation
        if middle is None or operation is None or len(lowered[middle].inputs) != 2:
            continue
        try:
            sides = [_side(lowered, writer, each) for each in lowered[middle].inputs]
        except BlockError:
            continue
        operators = {middle, index, *sides[0][1], *sides[1][1]}
        inner = [lowered[each].output.index for each in operators - {index}]
        if any(leaves(tensor) or not operators.issuperset(readers.get(tensor, ())) for tensor in inner):
            continue
        starts = sides[0][0], sides[1][0]
        if starts[0].shape != last.output.shape or starts[1].shape != last.output.shape:
            continue
        name, low, high = operation
        quantize = quantize_parameters(last.output.scale, last.output.zero_point, low, high)
        parameters = RealPairParameters(name, sides[0][2], sides[1][2], quantize)
        inputs = tuple(start.index for start in starts)
        stage = Stage(StageKind.REAL_PAIR, inputs, last.output.index, index, parameters=parameters)
        made = Lowered(stage, starts, last.output, last.output.shape, Fit.PIXELS)
        found[index] = Table(made, tuple(sorted(operators)))
    return found


def _side(
    lowered: Mapping[int, Lowered], writer: Mapping[int, int], real: Activation
) -> tuple[Activation, list[int], bytes]:
    """The int8 tensor a float32 one is a function of, the operators between, and its 256 numbers as float32.

    Raises:
        BlockError: it is none, or one of the numbers is not finite.
    """
    behind: list[int] = []
    tensor = real
    while not behind or lowered[behind[-1]].stage is None or not _reads_bytes(lowered[behind[-1]]):
        index = writer.get(tensor.index)
        each = None if index is None else lowered[index]
        if index is None or each is None or each.function is None or len(each.inputs) != 1:
            raise BlockError(f"{real.name} is no function of one int8 value")
        behind.append(index)
        tensor = each.inputs[0]
    values: Values = VALUES
    with np.errstate(all="ignore"):
        for index in reversed(behind):
            function = lowered[index].function
            assert function is not None
            values = function([values])
    if not np.isfinite(values).all():
        raise BlockError(f"{real.name} is not finite for all int8 values")
    return tensor, behind, np.asarray(values, "<f4").tobytes()


def _reads_bytes(lowered: Lowered) -> bool:
    return not any(each.is_real for each in lowered.inputs)
