"""Build int8 .tflite models without TensorFlow: random weights, ranges from a float run over calibration images.

    from tflite_fuse.zoo import ModelBuilder
    b = ModelBuilder(seed=0)
    x = b.input((1, 32, 32, 3))
    y = b.conv(x, 16, kernel=3, stride=2, activation="RELU6")
    y = b.depthwise(y, kernel=(3, 3), padding=(1, 1, 1, 1))      # explicit: rows above, below, columns left, right
    z = b.add(b.conv(y, 16, kernel=1), y)
    z = b.fully_connected(b.mean(z), 10)
    model = b.build(outputs=[b.softmax(z)])                      # tflite_fuse.model.schema.Model

Tensors are NHWC with batch 1. Kernels, strides and dilations are one number or (rows, columns). Operators appear in the
model in the order of the calls. Explicit padding that SAME or VALID can express becomes that; any other becomes a PAD
before a VALID operator, as converters write it. Everything is a function of the seed and the calls.

Methods raise ``UsageError`` for arguments that make no sense and ``ModelError`` for tensors that do not fit them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from scripts.zoo import numerics
from scripts.zoo.arguments import Padding, Size, activate, activation_code, int32_constant
from scripts.zoo.numerics import FloatArray, Window
from scripts.zoo.quantization import LOG_SOFTMAX_PARAMETERS, SOFTMAX_PARAMETERS, ActivationParameters
from scripts.zoo.recording import Constant, Ref, Shape
from scripts.zoo.weighted import WeightedOperators
from tflite_fuse.errors import ModelError, UsageError
from tflite_fuse.model.operators import make_options
from tflite_fuse.model.types import TensorType


@dataclass(frozen=True)
class Variable:
    """Handle of a variable while building; ``values`` is its content at the start, once per calibration image."""

    handle: Ref
    shape: Shape
    values: FloatArray


class ModelBuilder(WeightedOperators):
    """Records operators, running each in float over the calibration images, and writes the quantized model.

    Args:
        seed: of weights and calibration images.
        calibration: number of calibration images.
    """

    # ---- operators on one tensor

    def average_pool(
        self,
        x: Ref,
        kernel: Size,
        stride: Size = 1,
        padding: Padding = "VALID",
        activation: str = "NONE",
        *,
        name: str | None = None,
    ) -> Ref:
        """Add an AVERAGE_POOL_2D; SAME padding does not count into the mean."""
        return self._pool("AVERAGE_POOL_2D", numerics.average_pool, x, (kernel, stride, padding), activation, name)

    def max_pool(
        self,
        x: Ref,
        kernel: Size,
        stride: Size = 1,
        padding: Padding = "VALID",
        activation: str = "NONE",
        *,
        name: str | None = None,
    ) -> Ref:
        """Add a MAX_POOL_2D; SAME padding does not take part."""
        return self._pool("MAX_POOL_2D", numerics.max_pool, x, (kernel, stride, padding), activation, name)

    def mean(self, x: Ref, axes: Sequence[int] = (1, 2), *, keep_dims: bool = False, name: str | None = None) -> Ref:
        """Add a MEAN over ``axes`` (not the batch axis)."""
        if not axes or not all(0 < axis < len(x.shape) for axis in axes):
            raise UsageError(f"mean of a tensor of shape {x.shape} cannot run over axes {tuple(axes)}")
        values = self._values(x).mean(axis=tuple(axes), keepdims=keep_dims)
        options = make_options("ReducerOptions", keep_dims=keep_dims)
        return self._emit("MEAN", (x.index, int32_constant("axes", axes)), values, options, name)

    def reshape(self, x: Ref, shape: Shape, *, name: str | None = None) -> Ref:
        """Add a RESHAPE to a full shape with batch 1."""
        if not shape or shape[0] != 1 or prod(shape) != prod(x.shape):
            raise ModelError(f"a tensor of shape {x.shape} cannot take the shape {tuple(shape)}")
        values = self._values(x).reshape(self._calibration, *shape[1:])
        options = make_options("ReshapeOptions", new_shape=tuple(shape))
        return self._share(
            x, self._emit("RESHAPE", (x.index, int32_constant("new_shape", shape)), values, options, name)
        )

    def resize(self, x: Ref, size: tuple[int, int], *, bilinear: bool = False, name: str | None = None) -> Ref:
        """Add a RESIZE_NEAREST_NEIGHBOR or RESIZE_BILINEAR to so many rows and columns."""
        self._need_image(x)
        operator = "RESIZE_BILINEAR" if bilinear else "RESIZE_NEAREST_NEIGHBOR"
        options = make_options("ResizeBilinearOptions" if bilinear else "ResizeNearestNeighborOptions")
        values = numerics.resize(self._values(x), size, bilinear)
        return self._share(x, self._emit(operator, (x.index, int32_constant("size", size)), values, options, name))

    def softmax(self, x: Ref, beta: float = 1.0, *, name: str | None = None) -> Ref:
        """Add a SOFTMAX over the last axis, output scale 1/256, zero point −128."""
        options = make_options("SoftmaxOptions", beta=beta)
        return self._fix(self._emit("SOFTMAX", (x.index,), numerics.softmax(self._values(x), beta), options, name))

    def log_softmax(self, x: Ref, *, name: str | None = None) -> Ref:
        """Add a LOG_SOFTMAX over the last axis, output scale 1/16, zero point 127."""
        logarithms = self._emit("LOG_SOFTMAX", (x.index,), numerics.log_softmax(self._values(x)), None, name)
        return self._fix(logarithms, LOG_SOFTMAX_PARAMETERS)

    def logistic(self, x: Ref, *, name: str | None = None) -> Ref:
        """Add a LOGISTIC, output scale 1/256, zero point −128."""
        return self._fix(self._emit("LOGISTIC", (x.index,), numerics.logistic(self._values(x)), None, name))

    def hard_swish(self, x: Ref, *, name: str | None = None) -> Ref:
        """Add a HARD_SWISH: x * relu6(x + 3) / 6."""
        values = self._values(x)
        swished = (values * np.clip(values + 3, 0, 6) / 6).astype(np.float32)
        return self._emit("HARD_SWISH", (x.index,), swished, None, name)

    def quantize(self, x: Ref, *, name: str | None = None) -> Ref:
        """QUANTIZE of float32, or of int8 to a scale of its own."""
        return self._emit("QUANTIZE", (x.index,), self._values(x, x.type), None, name)

    def dequantize(self, x: Ref, *, name: str | None = None) -> Ref:
        """Add a DEQUANTIZE to float32."""
        return self._emit("DEQUANTIZE", (x.index,), self._values(x), None, name, TensorType.FLOAT32)

    def split(self, x: Ref, parts: int, axis: int = 3, *, name: str | None = None) -> list[Ref]:
        """SPLIT into equal parts: one operator with several outputs."""
        if not 0 < axis < len(x.shape) or parts < 1 or x.shape[axis] % parts:
            raise ModelError(f"a tensor of shape {x.shape} cannot be split into {parts} equal parts along axis {axis}")
        base = name or self._name("SPLIT")
        pieces = np.split(self._values(x), parts, axis=axis)
        refs = [self._activation(f"{base}:{number}", piece) for number, piece in enumerate(pieces)]
        self._record(
            "SPLIT", (int32_constant("axis", axis), x.index), refs, make_options("SplitOptions", num_splits=parts)
        )
        return [self._share(x, ref) for ref in refs]

    # ---- operators on several tensors

    def add(self, a: Ref, b: Ref, activation: str = "NONE", *, name: str | None = None) -> Ref:
        """ADD, shapes equal or broadcast."""
        self._need_broadcast(a, b)
        values = activate(self._values(a) + self._values(b), activation)
        options = make_options("AddOptions", fused_activation_function=activation_code(activation))
        return self._emit("ADD", (a.index, b.index), values, options, name)

    def mul(self, a: Ref, b: Ref, activation: str = "NONE", *, name: str | None = None) -> Ref:
        """Add a MUL, shapes equal or broadcast."""
        self._need_broadcast(a, b)
        values = activate(self._values(a) * self._values(b), activation)
        options = make_options("MulOptions", fused_activation_function=activation_code(activation))
        return self._emit("MUL", (a.index, b.index), values, options, name)

    def add_stored(self, x: Ref, activation: str = "NONE", *, thin: bool = False, name: str | None = None) -> Ref:
        """Add an ADD of a random constant for each value, as an embedding of positions, or one for each pixel."""
        shape = (*x.shape[:-1], 1) if thin else x.shape
        stored, scale = self._rng.integers(-128, 128, shape).astype(np.int8), 1 / 64
        constant = Constant("stored", shape, TensorType.INT8, stored.tobytes(), [scale])
        values = activate(self._values(x) + stored.astype(np.float32) * np.float32(scale), activation)
        options = make_options("AddOptions", fused_activation_function=activation_code(activation))
        return self._emit("ADD", (x.index, constant), values, options, name)

    def concat(self, parts: Sequence[Ref], axis: int = 3, *, name: str | None = None) -> Ref:
        """Add a CONCATENATION; all parts take the output's scale, as the reference kernel copies bytes."""
        remainders = {(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts}
        if len(remainders) != 1 or not 0 < axis < len(parts[0].shape):
            raise ModelError(f"tensors of shapes {[part.shape for part in parts]} cannot be joined along axis {axis}")
        values = np.concatenate([self._values(part) for part in parts], axis=axis)
        options = make_options("ConcatenationOptions", axis=axis)
        joined = self._emit("CONCATENATION", tuple(part.index for part in parts), values, options, name)
        for part in parts:
            self._share(joined, part)
        return joined

    # ---- variables, kept from one inference to the next

    def variable(self, shape: Shape, *, name: str | None = None) -> Variable:
        """Add a VAR_HANDLE to an int8 variable of shape (1, ...) that starts as real zeros."""
        values = np.zeros((self._calibration, *shape[1:]), np.float32)
        name = name or self._name("VAR_HANDLE")
        handle = self._activation(name, np.zeros((1, 1), np.float32), TensorType.RESOURCE)
        self._record(
            "VAR_HANDLE", (), [handle], replace(make_options("VarHandleOptions"), vectors=((1, 1, name.encode()),))
        )
        return Variable(handle, tuple(shape), values)

    def read_variable(self, variable: Variable, *, name: str | None = None) -> Ref:
        """Add a READ_VARIABLE: its present content."""
        content = self._emit("READ_VARIABLE", (variable.handle.index,), variable.values, None, name)
        return self._share(variable.handle, content)

    def assign_variable(self, variable: Variable, x: Ref) -> None:
        """Add an ASSIGN_VARIABLE: an operator with no output. What is read and assigned shares one scale."""
        if x.shape != variable.shape:
            raise ModelError(f"a variable of shape {variable.shape} cannot hold a tensor of shape {x.shape}")
        self._record("ASSIGN_VARIABLE", (variable.handle.index, x.index), [], None)
        self._share(variable.handle, x)

    # ---- what several of them share

    def _pool(
        self,
        operator: str,
        forward: Callable[[FloatArray, Window], FloatArray],
        x: Ref,
        sliding: tuple[Size, Size, Padding],
        activation: str,
        name: str | None,
    ) -> Ref:
        kernel, stride, padding = sliding
        x, window, mode = self._slide(x, kernel, stride, 1, padding)
        options = make_options(
            "Pool2DOptions",
            padding=mode,
            stride_h=window.stride[0],
            stride_w=window.stride[1],
            filter_height=window.kernel[0],
            filter_width=window.kernel[1],
            fused_activation_function=activation_code(activation),
        )
        values = activate(forward(self._values(x), window), activation)
        return self._share(x, self._emit(operator, (x.index,), values, options, name))

    def _fix(self, ref: Ref, parameters: ActivationParameters = SOFTMAX_PARAMETERS) -> Ref:
        self._recording.activations[ref.index].fixed = parameters
        return ref
