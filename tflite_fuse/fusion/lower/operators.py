"""One operator of a model as one stage of a block, or the reason why it cannot be one.

A lowered stage still speaks of the model's tensor indices; ``extract.py`` assembles stages to blocks. Some operators
have no stage kind of their own and become another one that computes the same bytes: a RELU or QUANTIZE is a 1x1
depthwise convolution with weight 1, a RELU6 a 1x1 maximum with its clamp, a MEAN over rows or columns alone a depthwise
convolution with weights 1, a convolution with one input channel per group a depthwise one.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.kinds.table import LOWERINGS
from tflite_fuse.fusion.block.operators.view import Lowered, OperatorView
from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model

Lowerings = tuple[Lowered | str, ...]
"""For each operator of the first subgraph its stage, or the reason why it cannot be one."""


def lower_model(model: Model) -> Lowerings:
    """All operators of the first subgraph as stages: worked out once, for whoever asks about the model."""
    written = {*model.main.inputs, *(t for operator in model.main.operators for t in operator.outputs or ())}
    return tuple(_lower_or_reason(model, index, written) for index in range(len(model.main.operators)))


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
    if name not in LOWERINGS:
        raise BlockError(f"{name.replace('CUSTOM:', 'custom operator ')} is not a fusable operator")
    if len(operator.outputs or ()) != 1:
        raise BlockError(f"it has {len(operator.outputs or ())} outputs")
    view = OperatorView(model, operator.inputs or (), (operator.outputs or (-1,))[0], get_options(operator))
    lowered = LOWERINGS[name](view)
    for source in lowered.inputs:
        lowered.seen(source)
    if lowered.stage is None:
        return lowered
    inputs = tuple(activation.index for activation in lowered.inputs)
    return replace(lowered, stage=replace(lowered.stage, inputs=inputs, output=lowered.output.index, operator=index))
