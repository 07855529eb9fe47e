"""One depthwise convolution in place of several with different lengths over parts of a window's channels.

    SPLIT along channels, of each part the last k steps, DEPTHWISE_CONV_2D, CONCATENATION   =   one DEPTHWISE_CONV_2D

Its weights are zero at steps that a part does not read, which adds nothing to a sum. A block then reads the window in
place: neither its parts nor the results are copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, drop_unread, prune, replace_operators
from tflite_fuse.model.operators import VALID, get_options, operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator, Quantization, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import note
from tflite_fuse.ops.kinds.state import STATE_OPERATOR
from tflite_fuse.ops.lowering.movement import MOST_VALUES, MOVES
from tflite_fuse.ops.lowering.operands import Activation, read_activation, read_bias, read_filter
from tflite_fuse.ops.lowering.requantization import NO_ACTIVATION
from tflite_fuse.ops.lowering.view import OperatorView
from tflite_fuse.passes.base import PassResult
from tflite_fuse.passes.streaming.rings import Moves

MOST_TAPS = 2
"""Largest ratio of a joint kernel's taps to those of its parts, at which it costs about as much as the copies saved."""


@dataclass(frozen=True)
class _Part:
    """A depthwise convolution of some rows and channels of a window.

    Attributes:
        operator: operator of the model.
        window: tensor of which it reads a part.
        row, channel: start of that part.
        weights: int8 [taps, tap columns, channels].
        scales: scales of the weights, one per channel.
        bias: int32 [channels].
    """

    operator: Operator
    window: Activation
    row: int
    channel: int
    weights: npt.NDArray[np.int8]
    scales: tuple[float, ...]
    bias: npt.NDArray[np.int32]


@dataclass(frozen=True)
class MixedDepthwise:
    """Join depthwise convolutions that each read a part of a state's window."""

    name: ClassVar[str] = "mixed-depthwise"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. If it changes, an offline memory plan is dropped, because tensor indices change."""
        moves, editor, labels = Moves(model), Editor(remove_plan(model)), []
        operators = list(model.main.operators)
        for index, operator in enumerate(model.main.operators):
            try:
                parts = _parts(moves, operator)
                if not parts:
                    continue
                operators[index] = _joined(editor, parts, operator.output)
            except BlockError:
                continue
            labels.append(operator_label(model, index))
        if not labels:
            return PassResult(model, False)
        changed = editor.finish()
        read = {tensor for operator in operators for tensor in operator.inputs or ()} | {*model.main.outputs}
        kept = [op for op in operators if _has_readers(changed, op, read)]
        changed = prune(replace_operators(changed, drop_unread(changed, kept, MOVES)))
        return PassResult(changed, True, (note("changed", "depthwise of a state", *labels),))


def _has_readers(model: Model, operator: Operator, read: set[int]) -> bool:
    return operator_name(model, operator) != "DEPTHWISE_CONV_2D" or not read.isdisjoint(operator.outputs or ())


def _parts(moves: Moves, operator: Operator) -> Sequence[_Part]:
    """Return the depthwise convolutions that an operator joins, or the one of a part of a window that it is; or none.

    Raises:
        BlockError: one of them cannot be joined.
    """
    model, name = moves.model, operator_name(moves.model, operator)
    writers, operators = model.main.writers, model.main.operators
    if name == "DEPTHWISE_CONV_2D":
        part = _part(moves, operator)
        whole = part.channel == 0 and part.weights.shape[2] == part.window.shape[2]
        return (part,) if part.row and whole and _is_state(moves, part) else ()
    if name != "CONCATENATION" or get_options(operator).get("fused_activation_function", 0) != NO_ACTIVATION:
        return ()
    output = read_activation(model, operator.output)
    if get_options(operator).get("axis") not in (-1, len(output.dims) - 1):
        return ()
    parts: list[_Part] = []
    for tensor in operator.inputs or ():
        if tensor not in writers or operator_name(model, operators[writers[tensor]]) != "DEPTHWISE_CONV_2D":
            return ()
        joined = read_activation(model, tensor)
        if (joined.scale, joined.zero_point) != (output.scale, output.zero_point):
            return ()
        parts.append(_part(moves, operators[writers[tensor]]))
    if not parts:
        return ()
    first = parts[0]
    ends = np.cumsum([0, *(part.weights.shape[2] for part in parts)]).tolist()
    alike = all(_alike(part, first) and part.channel == at for part, at in zip(parts, ends, strict=False))
    return parts if alike and ends[-1] == first.window.shape[2] and _is_state(moves, first) else ()


def _is_state(moves: Moves, part: _Part) -> bool:
    graph = moves.model.main
    writer = graph.writers.get(part.window.index)
    return writer is not None and operator_name(moves.model, graph.operators[writer]) == f"CUSTOM:{STATE_OPERATOR}"


def _alike(part: _Part, other: _Part) -> bool:
    first, second = get_options(part.operator), get_options(other.operator)
    columns = part.weights.shape[1] == other.weights.shape[1]
    return part.window == other.window and first == second and columns


def _part(moves: Moves, operator: Operator) -> _Part:
    """Return a depthwise convolution's part. Raises BlockError unless it reads neighbouring rows and channels."""
    model, options = moves.model, get_options(operator)
    view = OperatorView(model, operator.inputs or (), operator.output, options)
    window_index, indices = moves.origin(view.read().index)
    window = read_activation(model, window_index)
    weights, scales = read_filter(model, view.operand(1), 3, 4)
    bias = read_bias(model, view.operand(2), weights.shape[3])
    if options.get("padding") != VALID or options.get("depth_multiplier") != 1 or len(window.dims) != 4:
        raise BlockError("it pads")
    if window.elements > MOST_VALUES:
        raise BlockError(f"it reads a window of more than {MOST_VALUES:,} values")
    height, width, channels = window.shape
    place = np.arange(height * width * channels).reshape(height, width, channels)
    seen = place if indices is None else indices.reshape(indices.shape[1:]) if indices.ndim == 4 else indices
    row, rest = divmod(int(seen.ravel()[0]), width * channels)
    expected = place[row : row + seen.shape[0], :, rest : rest + seen.shape[-1]]
    if rest + seen.shape[-1] > channels or not np.array_equal(seen, expected):
        raise BlockError("it reads no neighbouring rows and channels")
    dilation = options.get("dilation_h_factor", 1)
    if not isinstance(dilation, int) or row % max(dilation, 1):
        raise BlockError("its part does not begin at a tap")
    if row + seen.shape[0] != height:
        raise BlockError("its part ends before the end of the window")
    bias = np.zeros(weights.shape[3], np.int32) if bias is None else bias
    scales = scales if len(scales) > 1 else scales * weights.shape[3]
    return _Part(operator, window, row // max(dilation, 1), rest, weights[0], scales, bias)


def _joined(editor: Editor, parts: Sequence[_Part], output: int) -> Operator:
    """Return one convolution of the whole window. Raises BlockError if it would have too many taps."""
    taps = max(part.row + part.weights.shape[0] for part in parts)
    window = parts[0].window
    weights = np.zeros((taps, parts[0].weights.shape[1], window.shape[2]), np.int8)
    if weights.size > MOST_TAPS * sum(part.weights.size for part in parts):
        raise BlockError("most of its taps would be zeros")
    for part in parts:
        rows, _, channels = part.weights.shape
        weights[part.row : part.row + rows, :, part.channel : part.channel + channels] = part.weights
    scales = tuple(scale for part in parts for scale in part.scales)
    bias = np.concatenate([part.bias for part in parts])
    name = editor.tensors[output].name
    filter_ = _constant(editor, f"{name}/weights", weights[None], TensorType.INT8, scales, 3)
    input_scale = parts[0].window.scale
    bias_scales = tuple(float(np.float32(input_scale * scale)) for scale in scales)
    biases = _constant(editor, f"{name}/bias", bias, TensorType.INT32, bias_scales, 0)
    inputs = (window.index, filter_, biases)
    return replace(parts[0].operator, inputs=inputs, outputs=(output,))


def _constant(
    editor: Editor, name: str, values: npt.NDArray[np.generic], type_: TensorType, scales: tuple[float, ...], axis: int
) -> int:
    quantization = Quantization(scale=scales, zero_point=(0,) * len(scales), quantized_dimension=axis)
    tensor = Tensor(values.shape, type_, 0, name, quantization)
    return editor.constant(tensor, values.astype(values.dtype.newbyteorder("<")).tobytes())
