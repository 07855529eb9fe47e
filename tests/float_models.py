"""Models with float32 inputs and outputs that compute in int8."""

from __future__ import annotations

from scripts.zoo.borders import with_borders
from tflite_fuse.model import Model
from tflite_fuse.model.types import TensorType


def with_float_borders(model: Model, inputs: bool = True, outputs: bool = True) -> Model:
    """The model with float32 inputs and outputs, a QUANTIZE behind and a DEQUANTIZE before each."""
    return with_borders(model, *(TensorType.FLOAT32 if converted else None for converted in (inputs, outputs)))
