"""Models that speak uint8 to the application and compute in int8: the usual form of public image models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflite_fuse.model import Model
from tflite_fuse.model.edit import add_operator_code, add_tensor, replace_main
from tflite_fuse.model.schema import Operator, Quantization
from tflite_fuse.model.types import TensorType


def with_uint8_borders(model: Model, inputs: bool = True, outputs: bool = True, coarser: float = 1.0) -> Model:
    """The model with uint8 inputs and outputs, and a QUANTIZE between each and the int8 tensor.

    Args:
        model: inputs and outputs are int8.
        inputs, outputs: which of them.
        coarser: scale of a uint8 tensor over that of its int8 one; 1: values move by 128 and nothing else.
    """
    before: list[Operator] = []
    behind: list[Operator] = []
    graph = model.main
    entering, leaving = list(graph.inputs), list(graph.outputs)
    for positions, operators, wanted in ((entering, before, inputs), (leaving, behind, outputs)):
        for at, tensor in enumerate(positions if wanted else ()):
            model, positions[at] = _unsigned(model, tensor, coarser)
            model, code = add_operator_code(model, builtin="QUANTIZE")
            ends = (positions[at], tensor) if operators is before else (tensor, positions[at])
            operators.append(Operator(code, (ends[0],), (ends[1],)))
    operators = (*before, *model.main.operators, *behind)
    graph = replace(model.main, operators=operators, inputs=tuple(entering), outputs=tuple(leaving))
    return replace_main(model, graph)


def _unsigned(model: Model, tensor: int, coarser: float) -> tuple[Model, int]:
    found = model.main.tensors[tensor]
    scales, points = _quantization(found.quantization)
    quantization = Quantization(scale=(scales[0] * coarser,), zero_point=(points[0] + 128,))
    unsigned = replace(found, type=TensorType.UINT8, name=f"{found.name}/uint8", quantization=quantization)
    return add_tensor(model, unsigned)


def _quantization(found: Quantization | None) -> tuple[Sequence[float], Sequence[int]]:
    assert found is not None and found.scale and found.zero_point
    return found.scale, found.zero_point
