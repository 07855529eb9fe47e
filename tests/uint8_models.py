"""Models with uint8 inputs and outputs that compute in int8: the usual form of public image models."""

from __future__ import annotations

from scripts.zoo.borders import with_borders
from tflite_fuse.model import Model
from tflite_fuse.model.types import TensorType


def with_uint8_borders(model: Model, inputs: bool = True, outputs: bool = True, coarser: float = 1.0) -> Model:
    """The model with uint8 inputs and outputs, and a QUANTIZE between each and the int8 tensor.

    Args:
        model: inputs and outputs are int8.
        inputs, outputs: which of them.
        coarser: scale of a uint8 tensor over that of its int8 one; 1: values move by 128 and nothing else.
    """
    return with_borders(model, *(TensorType.UINT8 if converted else None for converted in (inputs, outputs)), coarser)
