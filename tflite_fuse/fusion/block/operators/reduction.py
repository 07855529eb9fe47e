"""What MEAN and REDUCE_MAX reduce: rows, columns, both, or channels."""

from __future__ import annotations

from dataclasses import dataclass

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.operators.operands import Activation, Shape, read_constant
from tflite_fuse.fusion.block.operators.view import OperatorView
from tflite_fuse.model.types import TensorType


@dataclass(frozen=True)
class Reduction:
    """An operator that makes one value of many.

    Attributes:
        source, output: what it reads and writes.
        window: rows and columns of the source that become one, both 1 where channels do.
        channels: whether all channels of a pixel become one.
        shape: of the output as an image.
    """

    source: Activation
    output: Activation
    window: tuple[int, int]
    channels: bool
    shape: Shape

    @property
    def count(self) -> int:
        """Values that become one."""
        return self.source.shape[2] if self.channels else self.window[0] * self.window[1]


def read_reduction(view: OperatorView) -> Reduction:
    """The axes of a reduction.

    Raises:
        BlockError: they are no constant, out of range, or channels together with rows or columns.
    """
    source, output = view.read(), view.write()
    rank = len(source.dims)
    listed = read_constant(view.model, view.operand(1), TensorType.INT32, "axes").ravel().tolist()
    if not all(-rank <= axis < rank for axis in listed):
        raise BlockError(f"its axes {listed} are outside the {rank} dimensions of its input")
    axes = {axis % rank for axis in listed}
    height, width, channels = source.shape
    rows = height if rank == 4 and 1 in axes else 1
    columns = width if rank >= 3 and rank - 2 in axes else 1
    over_channels = rank - 1 in axes and channels > 1
    if over_channels and rows * columns > 1:
        raise BlockError("it reduces channels together with rows or columns")
    shape = (height // rows, width // columns, 1 if over_channels else channels)
    if output.elements != shape[0] * shape[1] * shape[2]:
        raise BlockError(f"its output {output.name} has the shape {list(output.dims)} after axes {sorted(axes)}")
    return Reduction(source, output, (rows, columns), over_channels, shape)
