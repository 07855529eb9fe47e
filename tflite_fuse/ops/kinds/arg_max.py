"""ARG_MAX and FLOAT_ARG_MAX: the number of the first largest channel of each pixel.

Blocks hold bytes, so the int32 of a pixel is four channels of int8: its bytes, the lowest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.model.types import TensorType, type_name
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.entry import Kind, Operand, StageCheck, by_pixel
from tflite_fuse.ops.lowering.operands import Activation, read_moved
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView

NUMBER_BYTES = 4


def _check(check: StageCheck) -> None:
    check.same_shape(check.sources[0], channels=False)
    check.require(check.output.channels == NUMBER_BYTES, f"writes other than {NUMBER_BYTES} channels")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    """Return the bytes; a later channel counts if its value is greater, which a NaN never is and nothing is than it."""
    ((_, values),) = operands
    largest, indices = values[:, :, 0], np.zeros(values.shape[:2], "<i4")
    for channel in range(1, values.shape[2]):
        greater = values[:, :, channel] > largest
        largest, indices = np.where(greater, values[:, :, channel], largest), np.where(greater, channel, indices)
    numbers = indices.astype("<i4")[:, :, None].view(np.int8)
    return numbers.astype(np.int64)


def _lower(view: OperatorView) -> Lowered:
    """Lower ARG_MAX along the last dimension."""
    source, index = replace(read_moved(view.model, view.operand(0)), by_value=True), view.output
    axes = view.integers(1, "axis")
    written = view.model.main.tensors[index]
    if written.type != TensorType.INT32:
        raise BlockError(f"its output is {type_name(written.type)}, which TFLM refuses")
    if len(source.dims) < 2 or axes not in ([-1], [len(source.dims) - 1]):
        raise BlockError(f"it searches along axes {axes}, not along channels")
    if written.dims != source.dims[:-1] or written.is_variable:
        raise BlockError(f"its output {written.name} has the shape {list(written.dims)}")
    kind = StageKind.FLOAT_ARG_MAX if source.is_real else StageKind.ARG_MAX
    output = Activation(index, written.name or f"tensor {index}", (*written.dims, NUMBER_BYTES), 1.0, 0, by_value=True)
    return Lowered(Stage(kind), (source,), output, output.shape, Fit.PIXELS)


ARG_MAX = Kind(
    StageKind.ARG_MAX,
    check=_check,
    reference=_reference,
    work=by_pixel("compared values", "largest values")(lambda stage, tensors: (tensors[stage.inputs[0]].channels, 1)),
    lowerings={"ARG_MAX": _lower},
)

FLOAT_ARG_MAX = Kind(
    StageKind.FLOAT_ARG_MAX,
    reads_real=True,
    check=_check,
    reference=_reference,
    work=by_pixel("float summed", "float values")(lambda stage, tensors: (tensors[stage.inputs[0]].channels, 1)),
)

KINDS = (ARG_MAX, FLOAT_ARG_MAX)

LOWERINGS = {"ARG_MAX": _lower}
"""It is one of these kinds where it reads float32, too."""
