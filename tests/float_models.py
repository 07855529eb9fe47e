"""Models that speak float32 to the application and compute in int8."""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.model import Model
from tflite_fuse.model.edit import add_operator_code, add_tensor, replace_main
from tflite_fuse.model.schema import Operator
from tflite_fuse.model.types import TensorType


def with_float_borders(model: Model, inputs: bool = True, outputs: bool = True) -> Model:
    """The model with float32 inputs and outputs, a QUANTIZE behind and a DEQUANTIZE before each.

    Args:
        model: inputs and outputs are int8.
        inputs, outputs: which of them.
    """
    before: list[Operator] = []
    behind: list[Operator] = []
    entering, leaving = list(model.main.inputs), list(model.main.outputs)
    for at, tensor in enumerate(entering if inputs else ()):
        model, entering[at] = _real(model, tensor)
        model, code = add_operator_code(model, builtin="QUANTIZE")
        before.append(Operator(code, (entering[at],), (tensor,)))
    for at, tensor in enumerate(leaving if outputs else ()):
        model, leaving[at] = _real(model, tensor)
        model, code = add_operator_code(model, builtin="DEQUANTIZE")
        behind.append(Operator(code, (tensor,), (leaving[at],)))
    operators = (*before, *model.main.operators, *behind)
    graph = replace(model.main, operators=operators, inputs=tuple(entering), outputs=tuple(leaving))
    return replace_main(model, graph)


def _real(model: Model, tensor: int) -> tuple[Model, int]:
    found = model.main.tensors[tensor]
    return add_tensor(model, replace(found, type=TensorType.FLOAT32, name=f"{found.name}/float", quantization=None))
