"""Inputs and outputs of two models that are float32 or uint8 in one and int8 in the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tflite_fuse.errors import VerificationError
from tflite_fuse.model import Model
from tflite_fuse.model.outside import with_inputs_inside
from tflite_fuse.model.schema import Tensor
from tflite_fuse.model.types import (
    TensorType,
    affine_parameters,
    dequantize,
    is_other_sign,
    quantize,
    type_name,
    with_other_sign,
)
from tflite_fuse.runtime.processes.worker import Array


def check_signatures(models: tuple[Model, Model], names: tuple[str, str]) -> None:
    """Check that the inputs and outputs of two models can be compared.

    Raises:
        VerificationError: they differ in number, shape or type.
    """
    whole = [with_inputs_inside(model).main for model in models]
    for what, indices_a, indices_b in (
        ("inputs", whole[0].inputs, whole[1].inputs),
        ("outputs", whole[0].outputs, whole[1].outputs),
    ):
        of_a = [whole[0].tensors[index] for index in indices_a]
        of_b = [whole[1].tensors[index] for index in indices_b]
        if len(of_a) != len(of_b):
            raise VerificationError(f"{names[0]} has {len(of_a)} {what} but {names[1]} has {len(of_b)}")
        for index, (tensor_a, tensor_b) in enumerate(zip(of_a, of_b, strict=True)):
            if not _same_meaning(tensor_a, tensor_b):
                raise VerificationError(
                    f"{what[:-1]} {index} is {_signature(tensor_a)} in {names[0]} "
                    f"but {_signature(tensor_b)} in {names[1]}"
                )


def _signature(tensor: Tensor) -> str:
    return f"{tensor.name} ({type_name(tensor.type)} {list(tensor.dims)})"


class Ends:
    """Conversion of inputs and outputs where one model has float32 or uint8 and the other int8."""

    def __init__(self, models: tuple[Model, Model]) -> None:
        graphs = [with_inputs_inside(model).main for model in models]
        self._inputs = [[graph.tensors[index] for index in graph.inputs] for graph in graphs]
        self._outputs = [[graph.tensors[index] for index in graph.outputs] for graph in graphs]

    def inputs_of_second(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """Return the second model's inputs, given the first one's."""
        if len(arrays) != len(self._inputs[0]):
            return arrays  # make_feed reports the error
        return [_as_other(*each) for each in zip(arrays, *self._inputs, strict=True)]

    def comparable(self, outputs: list[list[Array]]) -> list[list[Array]]:
        """Return both models' outputs in equal types."""
        pairs = [(0, 1), (1, 0)]
        return [
            [
                _as_other(array, here, there) if there.type in (TensorType.FLOAT32, TensorType.UINT8) else array
                for array, here, there in zip(outputs[a], self._outputs[a], self._outputs[b], strict=True)
            ]
            for a, b in pairs
        ]


def _as_other(array: Array, here: Tensor, there: Tensor) -> Array:
    """Return an array of one model's tensor in the other model's type."""
    if here.type == there.type:
        return array
    if _differ_in_sign(here, there):
        return with_other_sign(array) if np.asarray(array).dtype in (np.int8, np.uint8) else array
    if here.type == TensorType.FLOAT32 and (parameters := affine_parameters(there)) is not None:
        return quantize(array, *parameters) if np.asarray(array).dtype == np.float32 else array
    if (parameters := affine_parameters(here)) is not None:
        return dequantize(array, *parameters) if np.asarray(array).dtype == np.int8 else array
    return array


def _differ_in_sign(a: Tensor, b: Tensor) -> bool:
    return is_other_sign(a, b) or is_other_sign(b, a)


def _same_meaning(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are of one type, or int8 that represents the float32 or uint8 of the other."""
    if a.dims != b.dims:
        return False
    if a.type == b.type or _differ_in_sign(a, b):
        return True
    return any(x.type == TensorType.FLOAT32 and affine_parameters(y) is not None for x, y in ((a, b), (b, a)))
