"""Interface of lowering: an operator's view of the model, its result, and the geometry of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import isfinite, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Stage
from tflite_fuse.model.operators import SAME, same_padding
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.operands import (
    Activation,
    Shape,
    read_activation,
    read_border,
    read_constant,
    read_moved,
    read_operand,
    read_real,
)
from tflite_fuse.ops.lowering.requantization import NO_ACTIVATION, activation_range

Values = npt.NDArray[Any]

Function = Callable[[Sequence[Values]], Values]
"""Function from the values of an operator's inputs at the same places to those of its output: int64 for int8 tensors,
else float32. Raises BlockError if the runtime's result would be undefined.
"""


class Fit(Enum):
    """Shapes in which a stage can read a tensor that RESHAPE has given another shape."""

    EXACT = "height, width and channels as the operator says"
    PIXELS = "any height and width with as many pixels, and the operator's channels"
    BYTES = "any shape of as many bytes"

    def accepts(self, written: Shape, seen: Shape) -> bool:
        """Return whether a stage that sees an input of shape ``seen`` can read one that was written as ``written``."""
        if self is Fit.BYTES:
            return prod(written) == prod(seen)
        if self is Fit.PIXELS:
            return written[0] * written[1] == seen[0] * seen[1] and written[2] == seen[2]
        return written == seen


@dataclass(frozen=True)
class Lowered:
    """An operator as a stage.

    Attributes:
        stage: stage with ``inputs`` and ``output`` as indices of the model's tensors; None if the operator leaves the
            bytes unchanged (RESHAPE and similar), so that its output is its input under another name.
        inputs: activations that it reads.
        output: activation that it writes.
        output_shape: shape of the stage's output; the model's tensor may lack dimensions of 1.
        fit: accepted shapes of the inputs.
        sees: the input's shape for this operator, if it differs from that of the model's tensor.
        folds_padding: True if zeros around the input may become the stage's own padding.
        function: function of an operator on or between float32 tensors that can be part of a table.
        operation: for such an operator on two tensors that rounds once: its name, and the bounds of its result.
        part_alone: whether no stage computes it by itself: a block contains it as part of a table or not at all.
        table: the stage that replaces it and the operators before it which are functions of the same value; None if
            there are none.
        unit: operators that become tables together, this one included: a block contains all of them or none. Empty for
            an operator by itself.
        inner: whether its output disappears once its unit is tables.
        passed_over: whether a table of its unit bypasses its output, which has other readers: in a block of several
            tiles no stage may need all of that output.
    """

    stage: Stage | None
    inputs: tuple[Activation, ...]
    output: Activation
    output_shape: Shape = (1, 1, 1)
    fit: Fit = Fit.EXACT
    folds_padding: bool = False
    function: Function | None = None
    operation: tuple[str, float, float] | None = None
    part_alone: bool = False
    table: Stage | None = None
    unit: tuple[int, ...] = ()
    inner: bool = False
    passed_over: bool = False
    sees: Shape | None = None

    def seen(self, source: Activation) -> Shape:
        """Return an input's shape as this operator reads it.

        Raises:
            BlockError: the operator depends on the shape, and the input is no image.
        """
        if self.sees is not None:
            return self.sees
        bytes_alone = self.stage is None or self.fit is Fit.BYTES
        return source.flattened if bytes_alone else source.shape


@dataclass(frozen=True)
class OperatorView:
    """An operator to lower: its tensors by position, and its options by schema name."""

    model: Model
    inputs: tuple[int, ...]
    output: int
    options: dict[str, int | float | bool | tuple[int, ...]]

    def operand(self, position: int) -> int:
        """Return the tensor index of an input, −1 if it is absent."""
        return self.inputs[position] if position < len(self.inputs) else -1

    def read(self, position: int = 0) -> Activation:
        """Return an input that is an activation."""
        return read_activation(self.model, self.operand(position))

    def write(self) -> Activation:
        """Return the output."""
        return read_activation(self.model, self.output)

    def integers(self, position: int, role: str) -> list[int]:
        """Return the int32 numbers of a constant input, flat.

        Raises:
            BlockError: as ``read_constant``.
        """
        numbers: list[int] = read_constant(self.model, self.operand(position), TensorType.INT32, role).ravel().tolist()
        return numbers

    def paddings(self, source: Activation) -> list[list[int]]:
        """Return the values before and behind each axis of a padded input; nothing for another number of axes."""
        amounts = self.integers(1, "paddings")
        fits = len(amounts) == 2 * len(source.dims)
        return [list(pair) for pair in zip(amounts[::2], amounts[1::2], strict=True)] if fits else []

    def both(self, position: int = 0) -> tuple[Activation, Activation]:
        """Return an input and the output, both float32 if the input is, else both int8."""
        index = self.operand(position)
        if index >= 0 and self.model.main.tensors[index].type == TensorType.FLOAT32:
            return self.same(position)
        return self.read(position), self.write()

    def image(self, position: int = 0) -> tuple[Activation, Activation]:
        """Return input and output of an operator that TFLM runs only on [1, H, W, C] tensors, int8 or float32."""
        return four_dimensional(*self.both(position))

    def moved(self) -> tuple[Activation, Activation]:
        """Return input and output of an operator that moves values, int8 or float32."""
        return read_moved(self.model, self.operand(0)), read_moved(self.model, self.output)

    def elementwise(self) -> tuple[Activation, Activation]:
        """Return input and output of an operator that maps value by value."""
        return one_to_one(self.read(), self.write())

    def border(self) -> tuple[Activation, Activation]:
        """Return input and output, each int8, or uint8 at the border to the application.

        Raises:
            BlockError: a uint8 input has other readers: a block converts it in place.
        """
        source, output = (read_border(self.model, index) for index in (self.operand(0), self.output))
        self.require_alone(source)
        return source, output

    def require_alone(self, source: Activation) -> None:
        """Raise BlockError if an input is uint8 and has other readers."""
        graph = self.model.main
        readers = set(graph.readers.get(source.index, ()))
        if self.types(source)[0] == TensorType.UINT8 and (len(readers) > 1 or source.index in graph.outputs):
            raise BlockError(
                f"tensor {source.name} is uint8 and read by others, too: a block would convert it in place", source.name
            )

    @property
    def is_real(self) -> bool:
        """Return whether its first input is float32."""
        index = self.operand(0)
        return index >= 0 and self.model.main.tensors[index].type == TensorType.FLOAT32

    def same(self, position: int = 0) -> tuple[Activation, Activation]:
        """Return an input and the output of an operator on float32."""
        source, output = read_real(self.model, self.operand(position)), read_real(self.model, self.output)
        if source.constant is not None:
            raise BlockError(f"tensor {source.name} is a constant where blocks read an activation", source.name)
        return source, output

    def types(self, *activations: Activation) -> tuple[int, ...]:
        """Return the types of the model's tensors."""
        return tuple(self.model.main.tensors[activation.index].type for activation in activations)

    def pair(self, thin: bool = False) -> tuple[Activation, Activation, Activation]:
        """Return two inputs and the output, all of one shape; a pixel or a constant may broadcast to it.

        With ``thin``, a computed input may have a single channel used with all of the output's.
        """
        operands = (read_operand(self.model, self.operand(position)) for position in (0, 1))
        first, second, output = by_value(*operands, self.write())
        check_pair(first, second, output, thin)
        return first, second, output

    def option(self, name: str, default: int | None = None) -> int:
        """Return an option; ``default`` replaces a missing options table."""
        value = self.options.get(name, default)
        if not isinstance(value, int):
            raise BlockError(f"its option {name} is missing")
        return value

    def number(self, name: str) -> float:
        """Return a finite float option, 0 if it is missing."""
        value = self.options.get(name, 0.0)
        if not isinstance(value, float) or not isfinite(value):
            raise BlockError(f"its {name} is {value}")
        return value

    def positive(self, first: str, second: str) -> tuple[int, int]:
        """Return two options that must be at least 1."""
        for name in (first, second):
            if self.option(name) < 1:
                raise BlockError(f"its option {name} is {self.option(name)}")
        return self.option(first), self.option(second)

    def clamp(self, output: Activation) -> tuple[int, int]:
        """Return the int8 range of its fused activation."""
        number = self.option("fused_activation_function", default=NO_ACTIVATION)
        return activation_range(number, output.scale, output.zero_point)


def by_value(*activations: Activation) -> tuple[Activation, ...]:
    """Return activations of an operator that computes value by value, with any dimensions."""
    return tuple(replace(each, by_value=True) for each in activations)


def four_dimensional(source: Activation, output: Activation) -> tuple[Activation, Activation]:
    """Return both tensors. Raises BlockError if one of them is no [1, H, W, C] tensor."""
    for activation in (source, output):
        if len(activation.dims) != 4:
            raise BlockError(f"tensor {activation.name} has {len(activation.dims)} dimensions, not 4", activation.name)
    return source, output


def one_to_one(source: Activation, output: Activation) -> tuple[Activation, Activation]:
    """Return input and output of an operator that maps value by value.

    Raises:
        BlockError: the input is a constant, or the shapes differ.
    """
    source, output = by_value(source, output)
    if source.constant is not None or source.shape != output.shape:
        raise BlockError(f"it maps the shape {list(source.dims)} to {list(output.dims)}")
    return source, output


def check_pair(first: Activation, second: Activation, output: Activation, thin: bool = False) -> None:
    """Raise BlockError unless an activation has the output's shape and the other input broadcasts to it.

    An activation broadcasts if it is one pixel with as many channels, or, with ``thin``, has one channel. With
    ``thin``, an activation of one channel and a constant may also make the output's shape together.
    """
    if first.constant is not None and second.constant is not None:
        raise BlockError("both of its inputs are constants")
    height, width, channels = output.shape
    shapes = [part.shape for part in (first, second) if part.constant is None]
    together = thin and shapes == [(height, width, 1)] and _make_together(first.dims, second.dims, output.dims)
    if output.shape not in shapes and not together:
        raise BlockError(f"it broadcasts {list(first.dims)} and {list(second.dims)}")
    for part in (first, second):
        shapes = [output.shape, (1, 1, channels), *([(height, width, 1)] if thin else [])]
        if part.constant is not None and not thin and part.elements > 1 and part.dims[-1:] != (channels,):
            raise BlockError(f"its constant {part.name} of shape {list(part.dims)} has one channel for {channels}")
        if part.constant is None and part.shape not in shapes:
            raise BlockError(f"it broadcasts {list(first.dims)} and {list(second.dims)}")
        if part.shape != output.shape and not _broadcasts(part.dims, output.dims):
            raise BlockError(f"it makes {list(output.dims)} of {list(first.dims)} and {list(second.dims)}")


def _broadcasts(dims: tuple[int, ...], wide: tuple[int, ...]) -> bool:
    padded = (1,) * (len(wide) - len(dims)) + dims
    return len(padded) == len(wide) and all(dim in (1, size) for dim, size in zip(padded, wide, strict=True))


def _make_together(first: tuple[int, ...], second: tuple[int, ...], wide: tuple[int, ...]) -> bool:
    return _broadcasts(first, wide) and _broadcasts(second, wide) and np.broadcast_shapes(first, second) == wide


def rename(view: OperatorView) -> Lowered:
    """Lower RESHAPE, SQUEEZE, EXPAND_DIMS: the same bytes under another name."""
    source, output = view.same() if view.is_real else view.border()
    if view.types(source, output) not in ((TensorType.INT8,) * 2, (TensorType.UINT8,) * 2, (TensorType.FLOAT32,) * 2):
        raise BlockError(f"it turns the type of {source.name} into another")
    if source.elements != output.elements:
        raise BlockError(f"it maps {source.elements} to {output.elements} values")
    return Lowered(None, (source,), output)


def window_padding(view: OperatorView, source: Activation, output: Activation, stage: Stage) -> tuple[int, int]:
    """Return (top, left) padding of a window stage.

    Raises:
        BlockError: the operator's options contradict the shape of its output.
    """
    sizes: list[int] = []
    before: list[int] = []
    for size, extent, stride in zip(source.shape[:2], stage.extent, stage.stride, strict=True):
        if view.option("padding") == SAME:
            out, (pad, _) = same_padding(size, extent, stride)
        else:
            out, pad = (size - extent) // stride + 1, 0
        sizes.append(out)
        before.append(pad)
    if tuple(sizes) != output.shape[:2]:
        raise BlockError(f"its output {output.name} has the shape {list(output.dims)}, its options give {sizes}")
    return before[0], before[1]


def transposed_padding(
    view: OperatorView, source: Activation, output: Activation, kernel: tuple[int, int]
) -> tuple[int, int]:
    """Return (top, left) padding of a TRANSPOSE_CONV's windows on the input's pixels spread out.

    Raises:
        BlockError: the operator's options do not lead from the input's shape to the output's.
    """
    padding = []
    strides = view.positive("stride_h", "stride_w")
    for size, length, taps, stride in zip(output.shape[:2], source.shape[:2], kernel, strides, strict=True):
        same = view.option("padding") == SAME
        expected, (before, _) = same_padding(size, taps, stride) if same else ((size - taps) // stride + 1, (0, 0))
        if expected != length:
            raise BlockError(f"its output {output.name} of {size} rows or columns does not come from {length}")
        padding.append(taps - 1 - before)
    return padding[0], padding[1]


def window_fit(stage: Stage) -> Fit:
    """Return PIXELS for 1x1 windows with stride 1, which do not depend on the arrangement of pixels, else EXACT."""
    return Fit.PIXELS if stage.kernel_size == stage.stride == (1, 1) else Fit.EXACT
