"""Operands of operators in blocks: int8 activations of one image, and constants stored in the file.

Failed checks raise ``BlockError``; its text is a clause with the reason, without the operator's name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.enums import ElementType
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType, tensor_nbytes, type_name

Shape = tuple[int, int, int]
"""Height, width, channels."""

_DTYPES: dict[TensorType, npt.DTypeLike] = {
    TensorType.INT8: np.int8,
    TensorType.INT32: np.dtype("<i4"),
    TensorType.FLOAT32: np.dtype("<f4"),
}


@dataclass(frozen=True)
class Activation:
    """A tensor of one image: ``real = scale * (value − zero_point)``; ``scale`` is exactly float32.

    Attributes:
        index, name, dims: those of the model's tensor.
        scale, zero_point: 1 and 0 if the values are not int8.
        type: INT8 for values in blocks; FLOAT32 before a QUANTIZE, behind a DEQUANTIZE, and between operators that
            become one table.
        constant: its values, if it is stored in the file.
        by_value: whether its readers or writer depend only on its values and their order.
    """

    index: int
    name: str
    dims: tuple[int, ...]
    scale: float
    zero_point: int
    type: TensorType = TensorType.INT8
    constant: npt.NDArray[Any] | None = field(default=None, compare=False)
    by_value: bool = field(default=False, compare=False)

    @property
    def is_real(self) -> bool:
        """Return whether it is float32."""
        return self.type == TensorType.FLOAT32

    @property
    def element_type(self) -> ElementType:
        """Return the element type of its block tensor; uint8 counts as int8, because only borders distinguish them."""
        return ElementType.FLOAT32 if self.type == TensorType.FLOAT32 else ElementType.INT8

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def shape(self) -> Shape:
        """Return its image: [1, H, W, C]; [1, W, C] as one row; [1, C] or [C] as one pixel.

        Batches are more pixels if it is read by value.

        Raises:
            BlockError: a batch of more than one, or more than four dimensions, and not by value.
        """
        if self.by_value and len(self.dims) > 1 and (len(self.dims) > 4 or self.dims[0] != 1):
            return math.prod(self.dims[:-2]), self.dims[-2], self.dims[-1]
        if len(self.dims) > 4:
            raise BlockError(f"tensor {self.name} has {len(self.dims)} dimensions", self.name)
        if len(self.dims) > 1 and self.dims[0] != 1:
            raise BlockError(f"tensor {self.name} has a batch of {self.dims[0]}", self.name)
        image = self.dims[1:] if len(self.dims) > 1 else self.dims
        height, width, channels = (1, 1, 1, *image)[-3:]
        return height, width, channels

    @property
    def flattened(self) -> Shape:
        """Return its image, or all its values as one pixel, for readers that need only the bytes' order."""
        if len(self.dims) > 4 or (len(self.dims) > 1 and self.dims[0] != 1):
            return 1, 1, self.elements
        return self.shape


def tensor_name(model: Model, index: int) -> str:
    """Return the tensor's name, or its number if it has none."""
    return model.main.tensors[index].name or f"tensor {index}"


def read_border(model: Model, index: int) -> Activation:
    """Return an int8 activation, or a uint8 one with the int8 values of blocks, which are 128 less.

    Raises:
        BlockError: as ``read_activation``.
    """
    is_unsigned = index >= 0 and model.main.tensors[index].type == TensorType.UINT8
    return read_activation(model, index, TensorType.UINT8 if is_unsigned else TensorType.INT8)


def read_bytes(model: Model, index: int) -> Activation:
    """Return int8 or uint8 values regardless of their quantization; those of uint8 minus 128.

    Raises:
        BlockError: as ``read_activation``, except for missing quantization.
    """
    is_unsigned = index >= 0 and model.main.tensors[index].type == TensorType.UINT8
    type_ = TensorType.UINT8 if is_unsigned else TensorType.INT8
    quantization = _checked(model, index, type_).quantization
    if quantization is not None and quantization.scale:
        return read_activation(model, index, type_)
    name, dims = tensor_name(model, index), model.main.tensors[index].dims
    return Activation(index, name, dims, 1.0, -128 if is_unsigned else 0)


def read_activation(model: Model, index: int, type_: TensorType = TensorType.INT8) -> Activation:
    """Return an activation of type int8 or uint8 that a block can hold.

    Raises:
        BlockError: it is absent, constant, variable, of another type, of dynamic shape, or not quantized per tensor.
    """
    tensor = _checked(model, index, type_)
    affine = _read_affine(model, index, "an activation", type_)
    return Activation(index, tensor_name(model, index), tensor.dims, *affine)


def read_moved(model: Model, index: int) -> Activation:
    """Return an int8 or float32 activation, which operators that move values read and write.

    Raises:
        BlockError: as ``read_activation``.
    """
    if index < 0 or model.main.tensors[index].type != TensorType.FLOAT32:
        return read_activation(model, index)
    tensor = _checked(model, index, TensorType.FLOAT32)
    return Activation(index, tensor_name(model, index), tensor.dims, 1.0, 0, TensorType.FLOAT32)


def _checked(model: Model, index: int, type_: TensorType) -> Tensor:
    """Return a tensor of this type that every inference computes."""
    if index < 0:
        raise BlockError("one of its inputs is left out")
    tensor, name = model.main.tensors[index], tensor_name(model, index)
    if tensor.type != type_:
        where = "have this operator in int8 alone" if tensor.type == TensorType.FLOAT32 else "compute in int8"
        raise BlockError(f"tensor {name} is {type_name(tensor.type)}, blocks {where}", name)
    if model.buffers[tensor.buffer].data:
        raise BlockError(f"tensor {name} is a constant where blocks read an activation", name)
    if tensor.is_variable:
        raise BlockError(f"tensor {name} keeps its value between inferences", name)
    if _is_dynamic(tensor):
        raise BlockError(f"tensor {name} has a dynamic shape", name)
    return tensor


def _read_affine(model: Model, index: int, role: str, type_: TensorType = TensorType.INT8) -> tuple[float, int]:
    """Return scale and zero point of an int8 tensor with one of each, or of a uint8 tensor as int8 values."""
    scales, zero_points = read_quantization(model, index)
    name = tensor_name(model, index)
    if len(scales) != 1 or len(zero_points) != 1:
        raise BlockError(f"tensor {name} is {role} with per-channel quantization", name)
    zero_point = zero_points[0] - (128 if type_ == TensorType.UINT8 else 0)
    if not -128 <= zero_point <= 127:
        raise BlockError(f"tensor {name} has zero point {zero_points[0]}, outside {type_name(type_)}", name)
    if scales[0] <= 0:
        raise BlockError(f"tensor {name} has scale {scales[0]:g}", name)
    return scales[0], zero_point


def read_operand(model: Model, index: int) -> Activation:
    """Return an int8 activation, or an int8 constant with its values in ``constant``.

    Raises:
        BlockError: as ``read_activation`` and ``read_constant``.
    """
    if not is_constant(model, index):
        return read_activation(model, index)
    values = read_constant(model, index, TensorType.INT8, "constant")
    quantization = _read_affine(model, index, "a constant")
    return Activation(index, tensor_name(model, index), values.shape, *quantization, constant=values)


def read_real(model: Model, index: int) -> Activation:
    """Return a computed float32 tensor, or a constant one with its values in ``constant``.

    Raises:
        BlockError: it is absent, variable, of another type or of dynamic shape.
    """
    if index < 0:
        raise BlockError("one of its inputs is left out")
    tensor, name = model.main.tensors[index], tensor_name(model, index)
    if _is_dynamic(tensor):
        raise BlockError(f"tensor {name} has a dynamic shape", name)
    if tensor.type != TensorType.FLOAT32 or tensor.is_variable:
        raise BlockError(f"tensor {name} is no float32 tensor", name)
    stored = read_constant(model, index, TensorType.FLOAT32, "constant") if is_constant(model, index) else None
    return Activation(index, name, tensor.dims, 1.0, 0, TensorType.FLOAT32, stored)


def is_by_channel(part: Activation, channels: int) -> bool:
    """Return whether a constant is the same for all pixels, [channels]."""
    return part.constant is not None and part.constant.size == channels and part.constant.shape[-1:] == (channels,)


def by_channel(part: Activation, channels: int) -> npt.NDArray[Any]:
    """Return the values of a constant that is the same for all pixels, [channels].

    Raises:
        BlockError: it differs between pixels.
    """
    if part.constant is None or not is_by_channel(part, channels):
        raise BlockError(f"its constant {part.name} of shape {list(part.dims)} differs from pixel to pixel")
    return part.constant.ravel()


def is_constant(model: Model, index: int) -> bool:
    """Return whether the file contains values of a tensor."""
    return index >= 0 and bool(model.buffers[model.main.tensors[index].buffer].data)


def read_filter(
    model: Model, index: int, channel_axis: int, rank: int
) -> tuple[npt.NDArray[np.int8], tuple[float, ...]]:
    """Return constant int8 weights in the model's layout, and their scales: one, or one per slice of ``channel_axis``.

    Scales may be 0 or negative: converters that fold batch normalization leave such channels in public models.

    Raises:
        BlockError: they are not constant, not int8, not symmetric, or quantized along another axis.
    """
    values = read_constant(model, index, TensorType.INT8, "weights")
    tensor, name = model.main.tensors[index], tensor_name(model, index)
    if len(tensor.dims) != rank:
        raise BlockError(f"its weights {name} have {len(tensor.dims)} dimensions, not {rank}")
    scales, zero_points = read_quantization(model, index)
    if any(zero_points):
        raise BlockError(f"its weights {name} have zero points other than 0")
    axis = tensor.quantization.quantized_dimension if tensor.quantization else 0
    if len(scales) > 1 and (axis != channel_axis or len(scales) != tensor.dims[channel_axis]):
        raise BlockError(f"its weights {name} have {len(scales)} scales along dimension {axis}")
    return values, scales


def read_bias(model: Model, index: int, channels: int, type_: TensorType = TensorType.INT32) -> npt.NDArray[Any] | None:
    """Return the bias of an operator with weights, or None without one.

    Raises:
        BlockError: it is not a constant of ``channels`` values of the type.
    """
    if index < 0:
        return None
    values = read_constant(model, index, type_, "bias")
    if values.size != channels:
        raise BlockError(f"its bias has {values.size} values for {channels} output channels")
    return values.ravel()


def read_constant(model: Model, index: int, type_: TensorType, role: str) -> npt.NDArray[Any]:
    """Return a constant's values in its own shape.

    Raises:
        BlockError: it is absent, computed at run time, a variable, of another type, sparse, compressed or truncated.
    """
    if index < 0:
        raise BlockError(f"its {role} are left out")
    tensor, name = model.main.tensors[index], tensor_name(model, index)
    data = model.buffers[tensor.buffer].data
    if not data:
        raise BlockError(f"its {role} {name} are not a constant in the file")
    if tensor.is_variable:
        # The runtime gives a variable its own memory and ignores its bytes in the file.
        raise BlockError(f"its {role} {name} are a variable")
    if tensor.type != type_:
        raise BlockError(f"its {role} {name} are {type_name(tensor.type)}, not {type_name(type_)}")
    if tensor.sparsity is not None:
        raise BlockError(f"its {role} {name} are sparse")
    if _is_dynamic(tensor) or len(data) != tensor_nbytes(tensor):
        raise BlockError(f"its {role} {name} are not stored plainly: {len(data)} bytes for shape {list(tensor.dims)}")
    return np.frombuffer(data, _DTYPES[type_]).reshape(tensor.dims)


def stored_numbers(model: Model, operator: Operator, position: int) -> tuple[int, ...]:
    """Return the numbers of an int32 constant that an operator reads; none if the operand is another or left out."""
    inputs = operator.inputs or ()
    try:
        index = inputs[position] if position < len(inputs) else -1
        return tuple(read_constant(model, index, TensorType.INT32, "numbers").ravel().tolist())
    except BlockError:
        return ()


def _is_dynamic(tensor: Tensor) -> bool:
    # Converters leave the batch open in the signature while the shape has 1; TFLM uses the shape.
    return any(dim < 1 for dim in tensor.dims) or tensor.is_open


def read_quantization(model: Model, index: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return a tensor's scales, exactly as float32, and zero points.

    Raises:
        BlockError: it has none, they are not affine, or a scale is not a number.
    """
    quantization, name = model.main.tensors[index].quantization, tensor_name(model, index)
    if quantization is None or not quantization.scale or not quantization.zero_point:
        raise BlockError(f"tensor {name} is not quantized", name)
    if quantization.details is not None:
        raise BlockError(f"tensor {name} has a quantization of its own kind", name)
    scales = tuple(float(np.float32(scale)) for scale in quantization.scale)
    if not all(map(math.isfinite, scales)):
        raise BlockError(f"tensor {name} has a scale that is not a number", name)
    return scales, quantization.zero_point
