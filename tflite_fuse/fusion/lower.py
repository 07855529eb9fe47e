"""One operator of a model as one stage of a block, or the reason why it cannot be one.

A lowered stage still speaks of the model's tensor indices; ``extract.py`` assembles stages to blocks. Some operators
have no stage kind of their own and become another one that computes the same bytes: a RELU or QUANTIZE is a 1x1
depthwise convolution with weight 1, a RELU6 a 1x1 maximum with its clamp, a MEAN over rows or columns alone a depthwise
convolution with weights 1, a convolution with one input channel per group a depthwise one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion import lower_plain, lower_weighted
from tflite_fuse.fusion.block import StageKind
from tflite_fuse.fusion.lowering import Lowered, OperatorView
from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model


def lower_operator(model: Model, index: int) -> Lowered:
    """Operator ``index`` of the first subgraph as a stage.

    Raises:
        BlockError: the reason why it cannot be part of a block, as a clause that does not name the operator.
    """
    operator = model.main.operators[index]
    name = operator_name(model, operator)
    if name not in _LOWERINGS:
        raise BlockError(f"{name.replace('CUSTOM:', 'custom operator ')} is not a fusable operator")
    if len(operator.outputs or ()) != 1:
        raise BlockError(f"it has {len(operator.outputs or ())} outputs")
    view = OperatorView(model, operator.inputs or (), (operator.outputs or (-1,))[0], get_options(operator))
    lowered = _LOWERINGS[name](view)
    if lowered.stage is None:
        return lowered
    inputs = tuple(activation.index for activation in lowered.inputs)
    return replace(lowered, stage=replace(lowered.stage, inputs=inputs, output=lowered.output.index, operator=index))


_LOWERINGS: dict[str, Callable[[OperatorView], Lowered]] = {
    "ADD": lower_plain.add,
    "AVERAGE_POOL_2D": lower_plain.pool(StageKind.AVERAGE_POOL),
    "CONCATENATION": lower_plain.concatenation,
    "CONV_2D": lower_weighted.convolution,
    "DEPTHWISE_CONV_2D": lower_weighted.depthwise,
    "EXPAND_DIMS": lower_plain.alias,
    "FULLY_CONNECTED": lower_weighted.fully_connected,
    "MAX_POOL_2D": lower_plain.pool(StageKind.MAX_POOL),
    "MEAN": lower_plain.mean,
    "PAD": lower_plain.pad,
    "PADV2": lower_plain.pad,
    "QUANTIZE": lower_plain.quantize,
    "RELU": lower_plain.relu,
    "RELU6": lower_plain.relu6,
    "RESHAPE": lower_plain.alias,
    "SQUEEZE": lower_plain.alias,
}
