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
from tflite_fuse.fusion.block.operators.view import Lowered, OperatorView
from tflite_fuse.fusion.block.stages import StageKind
from tflite_fuse.fusion.lower import with_weights, without_weights
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
    "ADD": without_weights.add,
    "AVERAGE_POOL_2D": without_weights.pool(StageKind.AVERAGE_POOL),
    "CONCATENATION": without_weights.concatenation,
    "CONV_2D": with_weights.convolution,
    "DEPTHWISE_CONV_2D": with_weights.depthwise,
    "EXPAND_DIMS": without_weights.alias,
    "FULLY_CONNECTED": with_weights.fully_connected,
    "MAX_POOL_2D": without_weights.pool(StageKind.MAX_POOL),
    "MEAN": without_weights.mean,
    "PAD": without_weights.pad,
    "PADV2": without_weights.pad,
    "QUANTIZE": without_weights.quantize,
    "RELU": without_weights.relu,
    "RELU6": without_weights.relu6,
    "RESHAPE": without_weights.alias,
    "SQUEEZE": without_weights.alias,
}
