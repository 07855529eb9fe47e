"""Operators that together are a function of one int8 value: one table.

    x ── LOGISTIC ─┐            x ── DEQUANTIZE ── ADD 3 ── RELU6 ── MUL 1/6 ── QUANTIZE
    └──────────── MUL  (SiLU)

An operator by value whose inputs all are functions of one tensor's value is such a function, too. A table reaches back
as far as possible, but not beyond a tensor that is kept anyway. The intermediate tensors, int8 or float32, disappear.

    x ── DEQUANTIZE ─┐
                    DIV ── QUANTIZE
    y ── DEQUANTIZE ─┘

An operation between two such functions, in float32, is a stage of kind REAL_PAIR.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.kinds.lookup import VALUES, LookupParameters, lookup_parameters
from tflite_fuse.ops.kinds.real import RealPairParameters, quantize_parameters
from tflite_fuse.ops.lowering.operands import Activation
from tflite_fuse.ops.lowering.view import Fit, Function, Lowered, Values
from tflite_fuse.ops.table import KINDS


@dataclass(frozen=True)
class Table:
    """Several operators as one stage.

    Attributes:
        lowered: the stage; it reads the tensor from which they all start and writes the last output.
        operators: operators that it replaces, ascending.
        passed_over: operators in between that stay, because their outputs have other readers. A block without them
            cannot derive that the result is a function of the table's input.
    """

    lowered: Lowered
    operators: tuple[int, ...]
    passed_over: tuple[int, ...] = ()


Chains = dict[int, tuple[Activation, ...]]
"""For an operator the tensors each of which alone determines its output, the farthest first."""


def find_tables(
    lowered: Mapping[int, Lowered], readers: Mapping[int, Collection[int]], leaves: Callable[[int], bool]
) -> dict[int, Table]:
    """Return the tables among some operators, by the operator that writes their output, without those of one LOOKUP.

    Operations between two int8 tensors are included.

    Args:
        lowered: the operators, in a possible execution order.
        readers: for each tensor, the operators of the model that read it.
        leaves: function that returns whether a tensor has readers outside these operators.
    """
    functions = {index: function for index, each in lowered.items() if (function := function_of(each)) is not None}
    while True:
        chains = _chains(lowered, functions)
        kept = {
            lowered[index].output.index
            for index in chains
            if leaves(lowered[index].output.index)
            or any(reader not in chains for reader in readers.get(lowered[index].output.index, ()))
        }
        refused = [i for i in chains if lowered[i].output.index in kept and not _is_int8(lowered[i].output)]
        tables: dict[int, Table] = {}
        if not refused:
            tables, refused = _tables(lowered, functions, chains, kept)
        if not refused:
            return {**_find_pairs(lowered, readers, leaves), **tables}
        for index in refused:
            del functions[index]


def function_of(lowered: Lowered) -> Function | None:
    """Return the function of an operator by value, None for any other."""
    stage = lowered.stage
    if lowered.function is not None or stage is None or not KINDS[stage.kind].by_value or KINDS[stage.kind].writes_real:
        return lowered.function

    def function(values: Sequence[Values]) -> Values:
        operands = [(_one_row(part), each.reshape(1, 1, -1)) for part, each in zip(lowered.inputs, values, strict=True)]
        answers = KINDS[stage.kind].reference(stage, operands, _one_row(lowered.output)).ravel()
        return np.clip(answers, stage.activation_min, stage.activation_max)

    return function


def _one_row(activation: Activation) -> BlockTensor:
    """Return a tensor of one pixel that contains every value once."""
    return BlockTensor(activation.name, 1, 1, len(VALUES), activation.zero_point)


def _is_int8(activation: Activation) -> bool:
    return activation.type == TensorType.INT8


def _chains(lowered: Mapping[int, Lowered], functions: Mapping[int, Function]) -> Chains:
    chains: Chains = {}
    written: dict[int, int] = {}
    for index, each in lowered.items():
        if index in functions:
            starts = [
                (*chains.get(written.get(part.index, -1), ()), *((part,) if _is_int8(part) else ()))
                for part in each.inputs
            ]
            common = set.intersection(*({start.index for start in some} for some in starts)) if starts else set()
            if common:
                chains[index] = tuple(start for start in starts[0] if start.index in common)
        written[each.output.index] = index
    return chains


def _tables(
    lowered: Mapping[int, Lowered], functions: Mapping[int, Function], chains: Chains, kept: Collection[int]
) -> tuple[dict[int, Table], list[int]]:
    """Return the tables that write kept tensors, and the operators without a result for some values."""
    writer = {lowered[index].output.index: index for index in chains}
    tables: dict[int, Table] = {}
    for index, chain in chains.items():
        if lowered[index].output.index not in kept:
            continue
        # The nearest one that is stored anyway: a kept one, or one that is no function of another.
        start = next(each for each in reversed(chain) if each.index in kept or each.index not in writer)
        operators = _between(lowered, writer, index, start.index)
        values: dict[int, Values] = {start.index: VALUES}
        for each in operators:
            try:
                with np.errstate(all="ignore"):
                    answers = functions[each]([values[part.index] for part in lowered[each].inputs])
            except BlockError:
                return {}, [each]
            values[lowered[each].output.index] = answers
        stage, output = lowered[index].stage, lowered[index].output
        if len(operators) > 1 or not isinstance(stage.parameters if stage else None, LookupParameters):
            table = lookup_parameters(values[output.index])
            lookup = Stage(StageKind.LOOKUP, (start.index,), output.index, index, parameters=table)
            merged = tuple(each for each in operators if each == index or lowered[each].output.index not in kept)
            passed_over = tuple(each for each in operators if each not in merged)
            tables[index] = Table(Lowered(lookup, (start,), output, output.shape, Fit.PIXELS), merged, passed_over)
    return tables, []


def _between(lowered: Mapping[int, Lowered], writer: Mapping[int, int], last: int, start: int) -> tuple[int, ...]:
    """Return the operators through which ``last`` depends on the tensor ``start``."""
    operators, waiting = {last}, [last]
    while waiting:
        for part in lowered[waiting.pop()].inputs:
            if part.index != start and writer[part.index] not in operators:
                operators.add(writer[part.index])
                waiting.append(writer[part.index])
    order = {index: place for place, index in enumerate(lowered)}
    return tuple(sorted(operators, key=order.__getitem__))


# ---- Functions of two values ----


def _find_pairs(
    lowered: Mapping[int, Lowered], readers: Mapping[int, Collection[int]], leaves: Callable[[int], bool]
) -> dict[int, Table]:
    """Return operations on two float32 tensors, each a function of an int8 tensor, by the QUANTIZE behind them.

    Arguments as in ``find_tables``.
    """
    writer = {each.output.index: index for index, each in lowered.items()}
    tables: dict[int, Table] = {}
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
        pair = Lowered(stage, starts, last.output, last.output.shape, Fit.PIXELS)
        tables[index] = Table(pair, tuple(sorted(operators)))
    return tables


def _side(
    lowered: Mapping[int, Lowered], writer: Mapping[int, int], real: Activation
) -> tuple[Activation, list[int], bytes]:
    """Return the int8 tensor of which a float32 one is a function, the operators between, and its 256 float32 numbers.

    Raises:
        BlockError: it is no such function, or one of the numbers is not finite.
    """
    behind: list[int] = []
    tensor = real
    while not behind or lowered[behind[-1]].stage is None or any(each.is_real for each in lowered[behind[-1]].inputs):
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
