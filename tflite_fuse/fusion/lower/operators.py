"""One operator of a model as one stage of a block, or the reason why it cannot be one.

A lowered stage still speaks of the model's tensor indices; ``extract.py`` assembles stages to blocks. Some operators
have no stage kind of their own and become another one that computes the same bytes: a RELU or QUANTIZE is a 1x1
depthwise convolution with weight 1, a RELU6 a 1x1 maximum with its clamp, a MEAN over rows or columns alone a depthwise
convolution with weights 1, a convolution with one input channel per group a depthwise one.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.kinds.elementwise.real import REAL_LOWERINGS
from tflite_fuse.fusion.block.kinds.table import LOWERINGS
from tflite_fuse.fusion.block.operators.view import Lowered, OperatorView
from tflite_fuse.fusion.lower.constants import fold_constant
from tflite_fuse.fusion.lower.pairs import find_pairs
from tflite_fuse.fusion.lower.tables import Table, find_tables
from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import TensorType

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
        return str(error)
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
