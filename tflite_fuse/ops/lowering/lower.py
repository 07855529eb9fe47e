"""One operator of a model as one stage of a block, or the reason why it cannot be one.

A lowered stage still speaks of the model's tensor indices; ``extract.py`` assembles stages to blocks. Some operators
have no stage kind of their own and become another one that computes the same bytes: a MEAN over rows or columns alone
is a depthwise convolution with weights 1, a convolution with one input channel per group a depthwise one. An operator
of a tensor and a constant is a table or has a number for every channel; a PAD may be done by the convolution behind
it, so that a block neither computes nor keeps the padded image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
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
from tflite_fuse.ops.kinds.real import one_value
from tflite_fuse.ops.lowering.operands import by_channel
from tflite_fuse.ops.lowering.tables import Table, find_tables, function_of
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView
from tflite_fuse.ops.table import FLOAT_LOWERINGS, LOWERINGS


def absorb(padded: Lowered, reader: Lowered) -> Lowered | None:
    """The reader of a PAD's output, reading the PAD's input instead and padding by itself.

    None unless it is a convolution behind a PAD, whose value is zero in both quantizations, and every window sees more
    than padding.
    """
    pad, stage = padded.stage, reader.stage
    if pad is None or stage is None or pad.kind is not StageKind.PAD or not reader.folds_padding:
        return None
    source = padded.inputs[0]
    if not pad.pad_value == source.zero_point == padded.output.zero_point:
        return None
    if not _sees_what_is_left(padded, pad, reader, stage):
        return None
    top, left = (a + b for a, b in zip(pad.padding, stage.padding, strict=True))
    # A window that saw nothing but padding would leave the executor without a pixel to ask for.
    sides = zip((top, left), stage.extent, stage.stride, reader.output_shape[:2], source.shape[:2], strict=True)
    if any(before >= extent or (out - 1) * step - before >= size for before, extent, step, out, size in sides):
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


Lowerings = tuple[Lowered | str, ...]
"""For each operator of the first subgraph its stage, or the reason why it cannot be one."""


def lower_model(model: Model) -> Lowerings:
    """Return all operators of the first subgraph as stages, or why they cannot be one.

    Operators that are tables together know the others; one that is a stage only so and has none is a reason.
    """
    written = {*model.main.inputs, *(t for operator in model.main.operators for t in operator.outputs or ())}
    found = [_lower_or_reason(model, index, written) for index in range(len(model.main.operators))]
    readers = readers_of(model)
    lowered = {index: each for index, each in enumerate(found) if not isinstance(each, str)}
    tables = find_tables(lowered, readers, lambda tensor: tensor in model.main.outputs)
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


def readers_of(model: Model) -> Mapping[int, Sequence[int]]:
    """Return for each tensor of the first subgraph the operators that read it, twice where they read it twice."""
    readers: dict[int, list[int]] = {}
    for index, operator in enumerate(model.main.operators):
        for tensor in operator.inputs or ():
            readers.setdefault(tensor, []).append(index)
    return readers


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
    """Return a lowered operator or why it is in no block: no proof covers bytes of a tensor without a writer."""
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
    lowerings = FLOAT_LOWERINGS if name in FLOAT_LOWERINGS and _is_real(model, operator) else LOWERINGS
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
