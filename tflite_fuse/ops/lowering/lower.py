"""Padding that the convolution behind it can do itself: then a block neither computes nor keeps the padded image.

Operators of two tensors of which one is a constant.

Operators that together are a function of two int8 values, by way of float32: one stage.

x ── DEQUANTIZE ─┐
                DIV ── QUANTIZE
y ── DEQUANTIZE ─┘

One operator of a model as one stage of a block, or the reason why it cannot be one.

A lowered stage still speaks of the model's tensor indices; ``extract.py`` assembles stages to blocks. Some operators
have no stage kind of their own and become another one that computes the same bytes: a RELU or QUANTIZE is a 1x1
depthwise convolution with weight 1, a RELU6 a 1x1 maximum with its clamp, a MEAN over rows or columns alone a depthwise
convolution with weights 1, a convolution with one input channel per group a depthwise one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Stage, StageKind
from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import Reason
from tflite_fuse.ops.kinds.by_channel import offset_by_channel, scale_by_channel
from tflite_fuse.ops.kinds.lookup import VALUES, lookup_parameters
from tflite_fuse.ops.kinds.real import REAL_LOWERINGS, RealPairParameters, one_value, quantize_parameters
from tflite_fuse.ops.lowering.operands import Activation, by_channel
from tflite_fuse.ops.lowering.tables import Table, find_tables, function_of
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView, Values
from tflite_fuse.ops.table import LOWERINGS


def absorb(absorbed: Lowered, reader: Lowered) -> Lowered | None:
    """The reader of a stage's output, reading that stage's input instead and doing its work, too.

    None unless the stage is a PAD and the reader a convolution.
    """
    if absorbed.stage is None or reader.stage is None:
        return None
    if absorbed.stage.kind is StageKind.PAD and reader.folds_padding:
        return _absorb_padding(absorbed, absorbed.stage, reader, reader.stage)
    return None


def _absorb_padding(padded: Lowered, pad: Stage, reader: Lowered, stage: Stage) -> Lowered | None:
    """The convolution with more padding of its own.

    None if the pad value is not zero in both quantizations, or a window would see nothing but padding.
    """
    source = padded.inputs[0]
    if not pad.pad_value == source.zero_point == padded.output.zero_point:
        return None
    if not _sees_what_is_left(padded, pad, reader, stage):
        return None
    top, left = (a + b for a, b in zip(pad.padding, stage.padding, strict=True))
    # A window that saw nothing but padding would leave the executor without a pixel to ask for.
    sides = zip((top, left), stage.extent, stage.stride, reader.output_shape[:2], source.shape[:2], strict=True)
    if any(pad >= extent or (out - 1) * step - pad >= size for pad, extent, step, out, size in sides):
        return None
    stage = replace(stage, inputs=(source.index,), padding=(top, left))
    return replace(reader, stage=stage, inputs=(source,), fit=Fit.EXACT)


def _sees_what_is_left(padded: Lowered, pad: Stage, reader: Lowered, stage: Stage) -> bool:
    """Whether no window leaves an image along an axis that was cut: behind the cut there are zeros, in front values.

    A convolution of single pixels that starts at the first one is read without regard to rows: it cuts nothing.
    """
    cuts = False
    for axis in (0, 1):
        left, before = padded.output_shape[axis], padded.inputs[0].shape[axis]
        if pad.padding[axis] >= 0 and left >= before + pad.padding[axis]:
            continue
        cuts = True
        end = (reader.output_shape[axis] - 1) * stage.stride[axis] + stage.extent[axis] - stage.padding[axis]
        if stage.padding[axis] > 0 or end > left:
            return False
    moved = any(a + b for a, b in zip(pad.padding, stage.padding, strict=True))
    return not cuts or moved or (stage.kernel_size, stage.stride) != ((1, 1), (1, 1))


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


Lowerings = tuple[Lowered | str, ...]
"""For each operator of the first subgraph its stage, or the reason why it cannot be one."""


_last: list[tuple[Model, Lowerings]] = []
"""The model asked for last and its stages: one pass asks after the other, often for the same model."""


def lower_model(model: Model) -> Lowerings:
    """All operators of the first subgraph as stages: worked out once, for whoever asks about the model."""
    if not _last or _last[0][0] is not model:
        _last[:] = [(model, _lowered(model))]
    return _last[0][1]


def _lowered(model: Model) -> Lowerings:
    """All operators of the first subgraph.

    Operators that are tables together know the others; one that is a stage only so and has none is a reason.
    """
    written = {*model.main.inputs, *(t for operator in model.main.operators for t in operator.outputs or ())}
    found = [_lower_or_reason(model, index, written) for index in range(len(model.main.operators))]
    readers: dict[int, list[int]] = {}
    for index, operator in enumerate(model.main.operators):
        for tensor in operator.inputs or ():
            readers.setdefault(tensor, []).append(index)
    lowered = {index: each for index, each in enumerate(found) if not isinstance(each, str)}
    found_tables = find_tables(lowered, readers, lambda tensor: tensor in model.main.outputs)
    tables = {**find_pairs(lowered, readers, lambda tensor: tensor in model.main.outputs), **found_tables}
    gone = {each for table in tables.values() for each in table.operators} - tables.keys()
    passed_over = {each for table in tables.values() for each in table.passed_over}
    for unit in _units(tables):
        for index in unit:
            stage = tables[index].lowered.stage if index in tables else None
            is_inner, is_kept = index in gone, index in passed_over
            found[index] = replace(lowered[index], table=stage, unit=unit, inner=is_inner, passed_over=is_kept)
    return tuple(
        PART_ALONE if not isinstance(each, str) and each.part_alone and not each.unit else each for each in found
    )


PART_ALONE = "it computes with float32, and not from one int8 value to another"


def _units(tables: Mapping[int, Table]) -> list[tuple[int, ...]]:
    """The operators of tables and those they pass over, of tables that share one together; a table of one operator by
    itself has none."""
    units: list[set[int]] = []
    for index, table in tables.items():
        joined = {index, *table.operators, *table.passed_over}
        apart = []
        for unit in units:
            if unit & joined:
                joined |= unit
            else:
                apart.append(unit)
        units = [*apart, joined]
    return [tuple(sorted(unit)) for unit in units if len(unit) > 1]


def _lower_or_reason(model: Model, index: int, written: Set[int]) -> Lowered | str:
    """What is in a tensor that nobody writes is known to nobody: no proof could say that a block reads the same."""
    try:
        lowered = lower_operator(model, index)
    except BlockError as error:
        return Reason(str(error), error.tensor)
    unknown = [activation.index for activation in lowered.inputs if activation.index not in written]
    return f"it reads {model.main.tensors[unknown[0]].name}, which nothing writes" if unknown else lowered


def lower_operator(model: Model, index: int) -> Lowered:
    """Operator ``index`` of the first subgraph as a stage.

    Raises:
        BlockError: the reason why it cannot be part of a block, as a clause that does not name the operator.
    """
    operator = model.main.operators[index]
    name = operator_name(model, operator)
    lowerings = REAL_LOWERINGS if name in REAL_LOWERINGS and _is_real(model, operator) else LOWERINGS
    if name not in lowerings:
        raise BlockError(f"{name.replace('CUSTOM:', 'custom operator ')} is not a fusable operator")
    if len(operator.outputs or ()) != 1:
        raise BlockError(f"it has {len(operator.outputs or ())} outputs")
    view = OperatorView(model, operator.inputs or (), (operator.outputs or (-1,))[0], get_options(operator))
    lowered = fold_constant(lowerings[name](view))
    for source in lowered.inputs:
        lowered.seen(source)
    if lowered.stage is None:
        if any(source.zero_point != lowered.output.zero_point for source in lowered.inputs):
            raise BlockError("it keeps its bytes and changes their zero point")
        return lowered
    inputs = tuple(activation.index for activation in lowered.inputs)
    return replace(lowered, stage=replace(lowered.stage, inputs=inputs, output=lowered.output.index, operator=index))


def _is_real(model: Model, operator: Operator) -> bool:
    """Whether an operator reads or writes float32."""
    tensors = (*(operator.inputs or ()), *(operator.outputs or ()))
    return any(tensor >= 0 and model.main.tensors[tensor].type == TensorType.FLOAT32 for tensor in tensors)
