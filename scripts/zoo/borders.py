"""uint8 or float32 inputs and outputs of int8 models, as converters write them for applications with these types."""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.errors import UsageError
from tflite_fuse.model.edit import add_operator_code, add_tensor, replace_main
from tflite_fuse.model.schema import Model, Operator, Quantization, Tensor
from tflite_fuse.model.types import TensorType


def with_borders(
    model: Model, inputs: TensorType | None = None, outputs: TensorType | None = None, coarser: float = 1.0
) -> Model:
    """Return the model with ends of another type, and a QUANTIZE or DEQUANTIZE between each and the int8 tensor.

    Args:
        model: its inputs and outputs are int8.
        inputs, outputs: UINT8 or FLOAT32; None leaves them int8.
        coarser: scale of a uint8 tensor over that of its int8 one; 1: values move by 128 and nothing else.

    Raises:
        UsageError: another type, or a tensor that is not quantized.
    """
    before: list[Operator] = []
    behind: list[Operator] = []
    entering, leaving = list(model.main.inputs), list(model.main.outputs)
    for at, tensor in enumerate(entering if inputs is not None else ()):
        model, entering[at] = add_tensor(model, _outer(model.main.tensors[tensor], inputs, coarser))
        model, code = add_operator_code(model, builtin="QUANTIZE")
        before.append(Operator(code, (entering[at],), (tensor,)))
    for at, tensor in enumerate(leaving if outputs is not None else ()):
        model, leaving[at] = add_tensor(model, _outer(model.main.tensors[tensor], outputs, coarser))
        model, code = add_operator_code(model, builtin="QUANTIZE" if outputs is TensorType.UINT8 else "DEQUANTIZE")
        behind.append(Operator(code, (tensor,), (leaving[at],)))
    operators = (*before, *model.main.operators, *behind)
    graph = replace(model.main, operators=operators, inputs=tuple(entering), outputs=tuple(leaving))
    return replace_main(model, graph)


def _outer(tensor: Tensor, kind: TensorType | None, coarser: float) -> Tensor:
    found = tensor.quantization
    if kind is TensorType.FLOAT32:
        return replace(tensor, type=kind, name=f"{tensor.name}/float32", quantization=None)
    if kind is not TensorType.UINT8 or found is None or not found.scale or not found.zero_point:
        raise UsageError(f"{tensor.name} cannot become uint8 or float32")
    quantization = Quantization(scale=(found.scale[0] * coarser,), zero_point=(found.zero_point[0] + 128,))
    return replace(tensor, type=kind, name=f"{tensor.name}/uint8", quantization=quantization)
