"""What lowering an operator means: its view of the model, its result, and the geometry of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import isfinite
from typing import Any

import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Stage
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.operands import (
    Activation,
    Shape,
    read_activation,
    read_border,
    read_moved,
    read_operand,
    read_real,
)
from tflite_fuse.ops.lowering.requantization import NO_ACTIVATION, activation_range

SAME = 0
"""Number of SAME in the schema's ``Padding``; VALID is 1."""


Values = npt.NDArray[Any]

Function = Callable[[Sequence[Values]], Values]
"""From the values of an operator's inputs at the same places to those of its output: int64 where tensors are int8, else
float32. Raises BlockError where the runtime's result would not be defined."""


class Fit(Enum):
    """How freely a stage reads a tensor that RESHAPE has given another shape."""

    EXACT = "height, width and channels as the operator says"
    PIXELS = "any height and width with as many pixels, and the operator's channels"
    BYTES = "any shape of as many bytes"


@dataclass(frozen=True)
class Lowered:
    """An operator as a stage.

    Attributes:
        stage: with ``inputs`` and ``output`` as indices of the model's tensors; None if the operator leaves the bytes
            as they are (RESHAPE and its like), so that its output is its input under another name.
        inputs: the activations read.
        output: the activation written.
        output_shape: of the stage's output; the model's tensor may lack dimensions of 1.
        fit: of the inputs' shapes.
        sees: the input's shape where the operator looks at it in another one than the model's tensor has.
        folds_padding: True where zeros around the input may become the stage's own padding.
        function: of an operator on or between float32 tensors that may be a part of a table: what it computes.
        operation: of such a one on two tensors that rounds once: its name, and what it clamps its result to.
        part_alone: whether no stage computes it by itself: a block holds it as a part of a table or not at all.
        table: the stage it becomes together with the operators before it that are functions of the same one value; None
            where there are none.
        unit: the operators that become tables together, this one among them: a block holds all of them or none. Empty
            for an operator by itself.
        inner: whether what it writes is gone once its unit is tables.
        passed_over: whether a table of its unit does without what it writes, which others read: in a block of several
            tiles no stage may need all of that.
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
        """An input's shape as this operator looks at it.

        Raises:
            BlockError: it minds the shape, and the input is no image.
        """
        if self.sees is not None:
            return self.sees
        bytes_alone = self.stage is None or self.fit is Fit.BYTES
        return source.flattened if bytes_alone else source.shape


@dataclass(frozen=True)
class OperatorView:
    """An operator about to be lowered: its tensors by position, and its options by schema name."""

    model: Model
    inputs: tuple[int, ...]
    output: int
    options: dict[str, int | float | bool | tuple[int, ...]]

    def operand(self, position: int) -> int:
        """Tensor index of an input, −1 where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else -1

    def read(self, position: int = 0) -> Activation:
        """An input that is an activation."""
        return read_activation(self.model, self.operand(position))

    def write(self) -> Activation:
        """The output."""
        return read_activation(self.model, self.output)

    def image(self, position: int = 0) -> tuple[Activation, Activation]:
        """Input and output of an operator that TFLM runs on [1, H, W, C] tensors alone."""
        return four_dimensional(self.read(position), self.write())

    def moved(self) -> tuple[Activation, Activation]:
        """Input and output of an operator that moves values, int8 or float32."""
        return read_moved(self.model, self.operand(0)), read_moved(self.model, self.output)

    def elementwise(self) -> tuple[Activation, Activation]:
        """Input and output of an operator that maps value by value."""
        return one_to_one(self.read(), self.write())

    def border(self) -> tuple[Activation, Activation]:
        """Input and output, either of them int8 or, where the application sees it, uint8.

        Raises:
            BlockError: a uint8 input is read by others, too: it is converted where it lies.
        """
        source, output = (read_border(self.model, index) for index in (self.operand(0), self.output))
        self.require_alone(source)
        return source, output

    def require_alone(self, source: Activation) -> None:
        """Raises BlockError: an input is uint8 and read by others, too."""
        graph = self.model.main
        readers = sum(source.index in (operator.inputs or ()) for operator in graph.operators)
        if self.types(source)[0] == TensorType.UINT8 and (readers > 1 or source.index in graph.outputs):
            raise BlockError(
                f"tensor {source.name} is uint8 and read by others, too: a block would convert it in place",
                source.name,
            )

    @property
    def is_real(self) -> bool:
        """Whether its first input is float32."""
        index = self.operand(0)
        return index >= 0 and self.model.main.tensors[index].type == TensorType.FLOAT32

    def same(self) -> tuple[Activation, Activation]:
        """Input and output of an operator on float32."""
        source, output = read_real(self.model, self.operand(0)), read_real(self.model, self.output)
        if source.constant is not None:
            raise BlockError(f"tensor {source.name} is a constant where blocks read an activation", source.name)
        return source, output

    def types(self, *activations: Activation) -> tuple[int, ...]:
        """Types of the model's tensors."""
        return tuple(self.model.main.tensors[activation.index].type for activation in activations)

    def pair(self, thin: bool = False) -> tuple[Activation, Activation, Activation]:
        """Two inputs and the output, all of one shape; an input may be a constant that broadcasts to it, or a pixel.

        One that is computed may have a single channel for all of the other's, if ``thin``.
        """
        operands = (read_operand(self.model, self.operand(position)) for position in (0, 1))
        first, second, output = by_value(*operands, self.write())
        check_pair(first, second, output, thin)
        return first, second, output

    def option(self, name: str, default: int | None = None) -> int:
        """An option; ``default`` stands in for a missing options table."""
        value = self.options.get(name, default)
        if not isinstance(value, int):
            raise BlockError(f"its option {name} is missing")
        return value

    def number(self, name: str) -> float:
        """A finite option that is no whole number, 0 where it is missing."""
        value = self.options.get(name, 0.0)
        if not isinstance(value, float) or not isfinite(value):
            raise BlockError(f"its {name} is {value}")
        return value

    def positive(self, first: str, second: str) -> tuple[int, int]:
        """Two options that must be at least 1."""
        for name in (first, second):
            if self.option(name) < 1:
                raise BlockError(f"its option {name} is {self.option(name)}")
        return self.option(first), self.option(second)

    def clamp(self, output: Activation) -> tuple[int, int]:
        """The int8 range its fused activation leaves."""
        number = self.option("fused_activation_function", default=NO_ACTIVATION)
        return activation_range(number, output.scale, output.zero_point)


def by_value(*activations: Activation) -> tuple[Activation, ...]:
    """Activations of an operator that goes value by value, whatever their dimensions."""
    return tuple(replace(each, by_value=True) for each in activations)


def four_dimensional(source: Activation, output: Activation) -> tuple[Activation, Activation]:
    """Both. Raises BlockError: one of them is no [1, H, W, C] tensor."""
    for activation in (source, output):
        if len(activation.dims) != 4:
            raise BlockError(f"tensor {activation.name} has {len(activation.dims)} dimensions, not 4", activation.name)
    return source, output


def one_to_one(source: Activation, output: Activation) -> tuple[Activation, Activation]:
    """Both, of an operator that maps value by value.

    Raises:
        BlockError: the input is a constant, or they have other shapes.
    """
    source, output = by_value(source, output)
    if source.constant is not None or source.shape != output.shape:
        raise BlockError(f"it maps the shape {list(source.dims)} to {list(output.dims)}")
    return source, output


def check_pair(first: Activation, second: Activation, output: Activation, thin: bool = False) -> None:
    """Raises BlockError unless an activation has the output's shape, and the other input broadcasts to it.

    An activation does so if it is one pixel, of as many channels; if ``thin``, also with one channel.
    """
    if first.constant is not None and second.constant is not None:
        raise BlockError("both of its inputs are constants")
    if all(part.constant is not None or part.shape != output.shape for part in (first, second)):
        raise BlockError(f"it broadcasts {list(first.dims)} and {list(second.dims)}")
    for part in (first, second):
        height, width, channels = output.shape
        shapes = [output.shape, (1, 1, channels), *([(height, width, 1)] if thin else [])]
        if part.constant is None and part.shape not in shapes:
            raise BlockError(f"it broadcasts {list(first.dims)} and {list(second.dims)}")
        if part.shape != output.shape and not _broadcasts(part.dims, output.dims):
            raise BlockError(f"it makes {list(output.dims)} of {list(first.dims)} and {list(second.dims)}")


def _broadcasts(dims: tuple[int, ...], wide: tuple[int, ...]) -> bool:
    padded = (1,) * (len(wide) - len(dims)) + dims
    return len(padded) == len(wide) and all(dim in (1, size) for dim, size in zip(padded, wide, strict=True))


def rename(view: OperatorView) -> Lowered:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the same bytes under another name."""
    source, output = view.same() if view.is_real else view.border()
    if view.types(source, output) not in ((TensorType.INT8,) * 2, (TensorType.UINT8,) * 2, (TensorType.FLOAT32,) * 2):
        raise BlockError(f"it turns the type of {source.name} into another")
    if source.elements != output.elements:
        raise BlockError(f"it maps {source.elements} to {output.elements} values")
    return Lowered(None, (source,), output)


def same_padding(size: int, extent: int, stride: int) -> tuple[int, int]:
    """Output size, and padding before the first row (or column), of SAME padding as TFLM computes them."""
    out = -(-size // stride)
    return out, max(0, (out - 1) * stride + extent - size) // 2


def window_padding(view: OperatorView, source: Activation, output: Activation, stage: Stage) -> tuple[int, int]:
    """(top, left) padding of a window stage.

    Raises:
        BlockError: the operator's options do not lead to the shape its output has in the file.
    """
    sizes: list[int] = []
    before: list[int] = []
    for size, extent, stride in zip(source.shape[:2], stage.extent, stage.stride, strict=True):
        if view.option("padding") == SAME:
            out, pad = same_padding(size, extent, stride)
        else:
            out, pad = (size - extent) // stride + 1, 0
        sizes.append(out)
        before.append(pad)
    if tuple(sizes) != output.shape[:2]:
        raise BlockError(f"its output {output.name} has the shape {list(output.dims)}, its options give {sizes}")
    return before[0], before[1]


def window_fit(stage: Stage) -> Fit:
    """A window of one pixel that moves by one pixel does not care how pixels are arranged."""
    return Fit.PIXELS if stage.kernel_size == stage.stride == (1, 1) else Fit.EXACT
