"""Lowering of one operator to one stage of a block.

A lowered stage has the model's tensor indices; ``extract.py`` assembles stages to blocks. Some operators have no kind
of their own and become another one that computes the same bytes: a MEAN over rows or columns is a depthwise convolution
with weights 1, a convolution with one input channel per group a depthwise one. An operator on a tensor and a constant
becomes a table or a kind with a number for every channel. A convolution may absorb the PAD before it, so a block
neither computes nor stores the padded image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Stage, StageKind
from tflite_fuse.ir.limits import MAX_EXTENT
from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import Reason
from tflite_fuse.ops.kinds.by_channel import offset_by_channel, scale_by_channel
from tflite_fuse.ops.kinds.lookup import VALUES, lookup_parameters
from tflite_fuse.ops.lowering.operands import Activation, is_by_channel
from tflite_fuse.ops.lowering.tables import Table, find_tables, function_of
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView
from tflite_fuse.ops.table import FLOAT_LOWERINGS, LOWERINGS


def absorb(padded: Lowered, reader: Lowered) -> Lowered | None:
    """Return the reader of a PAD with the PAD's input and its own padding extended, or None.

    None unless the reader is a convolution, the PAD adds something, its value is zero in both quantizations, and every
    window covers at least one pixel of the input.
    """
    pad, stage = padded.stage, reader.stage
    if pad is None or stage is None or pad.kind is not StageKind.PAD or not reader.folds_padding:
        return None
    source = padded.inputs[0]
    if not pad.pad_value == source.zero_point == padded.output.zero_point or padded.output_shape == source.shape:
        return None  # A copy stays a tensor of its own.
    if not _reads_no_cut_values(padded, pad, reader, stage):
        return None
    top, left = (a + b for a, b in zip(pad.padding, stage.padding, strict=True))
    # A window of padding alone would leave the executor without a pixel to request.
    sides = zip((top, left), stage.extent, stage.stride, reader.output_shape[:2], source.shape[:2], strict=True)
    if any(before >= extent or (out - 1) * step - before >= size for before, extent, step, out, size in sides):
        return None
    stage = replace(stage, inputs=(source.index,), padding=(top, left))
    return replace(reader, stage=stage, inputs=(source,), fit=Fit.EXACT)


def _reads_no_cut_values(padded: Lowered, pad: Stage, reader: Lowered, stage: Stage) -> bool:
    """Return whether no window leaves the image along a cut axis, where the cut-off values differ from padding.

    A 1x1 convolution that starts at the first pixel is read without regard to rows and cannot represent a cut.
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
    """Return the stage without constant operands where its parameters can hold them, else unchanged.

    It becomes a table if one value replaces the constant, and a kind by channel if all pixels have the same values. Any
    other constant becomes an operand of the block, which reads it from flash.

    Raises:
        BlockError: a constant has neither the pixels of the output nor one pixel.
    """
    constants = [part for part in lowered.inputs if part.constant is not None]
    function = function_of(lowered)
    if not constants or lowered.stage is None:
        return lowered
    if function is None:
        return _with_operands(lowered, constants)
    source = next(part for part in lowered.inputs if part.constant is None)
    values = np.unique(constants[0].constant if constants[0].constant is not None else [])
    if values.size != 1 or source.shape != lowered.output_shape:
        if lowered.stage.kind not in _BY_CHANNEL or not is_by_channel(constants[0], lowered.output_shape[2]):
            return _with_operands(lowered, constants)
        numbers = np.asarray(constants[0].constant, np.int64).ravel()
        return _BY_CHANNEL[lowered.stage.kind](lowered, numbers)
    operands = [VALUES if part is source else np.full_like(VALUES, values[0]) for part in lowered.inputs]
    stage = Stage(StageKind.LOOKUP, parameters=lookup_parameters(function(operands)))
    return Lowered(stage, (source,), lowered.output, lowered.output_shape, Fit.PIXELS)


def _with_operands(lowered: Lowered, constants: Sequence[Activation]) -> Lowered:
    """Return a stage that reads constants as whole tensors. Raises BlockError if it cannot."""
    joins = lowered.stage is not None and lowered.stage.kind is StageKind.CONCATENATION
    has_all = joins or any(part.shape == lowered.output_shape for part in lowered.inputs)
    for each in constants:
        if not has_all or each.shape[:2] not in (lowered.output_shape[:2], (1, 1)):
            raise BlockError(f"its constant {each.name} of shape {list(each.dims)} fits no output pixel", each.name)
    return lowered


Lowerings = tuple[Lowered | str, ...]
"""For each operator of the first subgraph its stage, or the reason why it cannot be one."""


def lower_model(model: Model) -> Lowerings:
    """Return all operators of the first subgraph as stages, or the reasons why they cannot be.

    Operators that become a table together refer to each other. An operator that is a stage only as part of a table
    yields a reason if there is no table.
    """
    read = {*model.main.outputs, *model.main.readers}
    results = [_lower_or_reason(model, index, read) for index in range(len(model.main.operators))]
    lowered = {index: each for index, each in enumerate(results) if not isinstance(each, str)}
    tables = find_tables(lowered, model.main.readers, lambda tensor: tensor in model.main.outputs)
    inner = {each for table in tables.values() for each in table.operators} - tables.keys()
    passed_over = {each for table in tables.values() for each in table.passed_over}
    for unit in _units(tables):
        for index in unit:
            stage = tables[index].lowered.stage if index in tables else None
            is_inner, is_kept = index in inner, index in passed_over
            results[index] = replace(lowered[index], table=stage, unit=unit, inner=is_inner, passed_over=is_kept)
    return tuple(
        PART_ALONE if not isinstance(each, str) and each.part_alone and not each.unit else each for each in results
    )


PART_ALONE = "it computes with float32, and not from one int8 value to another"


def _units(tables: Mapping[int, Table]) -> list[tuple[int, ...]]:
    """Return the groups of operators that share tables, with those passed over; single operators have no group."""
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


def _lower_or_reason(model: Model, index: int, read: Set[int]) -> Lowered | str:
    """Return a lowered operator, or a reason; blocks compute only tensors that are ``read``."""
    try:
        lowered = lower_operator(model, index)
    except BlockError as error:
        return Reason(str(error), error.tensor)
    return lowered if lowered.output.index in read else "nothing reads its output"


def lower_operator(model: Model, index: int) -> Lowered:
    """Return operator ``index`` of the first subgraph as a stage.

    Raises:
        BlockError: the reason why it cannot be part of a block, as a clause without the operator's name.
    """
    operator = model.main.operators[index]
    name = operator_name(model, operator)
    lowerings = FLOAT_LOWERINGS if name in FLOAT_LOWERINGS and _is_real(model, operator) else LOWERINGS
    if name not in lowerings:
        raise BlockError(f"{name.replace('CUSTOM:', 'custom operator ')} is not a fusable operator")
    if len(operator.outputs or ()) != 1:
        raise BlockError(f"it has {len(operator.outputs or ())} outputs")
    view = OperatorView(model, operator.inputs or (), operator.output, get_options(operator))
    lowered = fold_constant(lowerings[name](view))
    longest = max(
        extent for shape in (*map(lowered.seen, lowered.inputs), lowered.output_shape) for extent in shape[:2]
    )
    if longest > MAX_EXTENT:
        raise BlockError(f"it reads or writes a map of {longest:,} rows or columns, and blocks take {MAX_EXTENT:,}")
    if lowered.stage is None:
        if any(source.zero_point != lowered.output.zero_point for source in lowered.inputs):
            raise BlockError("it keeps its bytes and changes their zero point")
        return lowered
    inputs = tuple(activation.index for activation in lowered.inputs)
    return replace(lowered, stage=replace(lowered.stage, inputs=inputs, output=lowered.output.index, operator=index))


def _is_real(model: Model, operator: Operator) -> bool:
    """Return whether an operator reads or writes float32."""
    tensors = (*(operator.inputs or ()), *(operator.outputs or ()))
    return any(tensor >= 0 and model.main.tensors[tensor].type == TensorType.FLOAT32 for tensor in tensors)
