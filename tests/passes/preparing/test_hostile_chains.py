"""Preparing passes on chains of many operators: their work grows with the operators, not with their square."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.drawing.raw_models import VALID, RawModel
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType
from tflite_fuse.passes.base import Pass
from tflite_fuse.passes.preparing import channels_last, constant_channels, quantize_first, sink_transpose
from tflite_fuse.passes.preparing.channels_last import ChannelsLast
from tflite_fuse.passes.preparing.constant_channels import ConstantChannels
from tflite_fuse.passes.preparing.quantize_first import QuantizeFirst
from tflite_fuse.passes.preparing.sink_transpose import SinkTranspose

FIRST, LAST = np.array([0, 3, 1, 2], np.int32), np.array([0, 2, 3, 1], np.int32)


def unread_convolutions(count: int) -> Model:
    """Convolutions of each channel alone, behind which one reads nothing: each hides channels of the one before."""
    raw, options = RawModel(), make_options("Conv2DOptions", padding=VALID, stride_h=1, stride_w=1)
    first = last = raw.tensor((1, 2, 2, 8))
    for number in range(count):
        weights = np.eye(8, dtype=np.int8).reshape(8, 1, 1, 8) * (number + 1 < count)
        source, last = last, raw.tensor((1, 2, 2, 8))
        raw.operator("CONV_2D", [source, raw.constant(weights.astype(np.int8), [1.0])], [last], options)
    return raw.build([first], [last])


def moved_floats(count: int, chains: int = 1) -> Model:
    """A DEQUANTIZE, RESHAPEs and a QUANTIZE, several times."""
    raw, inputs, outputs = RawModel(), [], []
    for _ in range(chains):
        inputs.append(raw.tensor((1, 2, 2, 8)))
        last = raw.tensor((1, 2, 2, 8), (), type_=TensorType.FLOAT32)
        raw.operator("DEQUANTIZE", [inputs[-1]], [last], None)
        for number in range(count):
            dims = ((1, 4, 1, 8), (1, 2, 2, 8))[number % 2]
            source, last = last, raw.tensor(dims, (), type_=TensorType.FLOAT32)
            raw.operator("RESHAPE", [source], [last], make_options("ReshapeOptions", new_shape=dims))
        outputs.append(raw.tensor(raw.tensors[last].shape or ()))
        raw.operator("QUANTIZE", [last], [outputs[-1]], None)
    return raw.build(inputs, outputs)


def nested_transposes(count: int) -> Model:
    """TRANSPOSEs of a cube, each with a RELU behind it, and as many back."""
    raw = RawModel()
    first = last = raw.tensor((1, 4, 4, 4))
    for order in [FIRST] * count + [LAST] * count:
        turned, source, last = raw.tensor((1, 4, 4, 4)), last, raw.tensor((1, 4, 4, 4))
        raw.operator("TRANSPOSE", [source, raw.constant(order)], [turned], None)
        raw.operator("RELU", [turned], [last], None)
    return raw.build([first], [last])


def means(count: int) -> Model:
    raw, inputs, outputs = RawModel(), [], []
    for _ in range(count):
        inputs.append(raw.tensor((1, 2, 2, 8)))
        turned = raw.tensor((1, 8, 2, 2))
        raw.operator("TRANSPOSE", [inputs[-1], raw.constant(FIRST)], [turned], None)
        outputs.append(raw.tensor((1, 8)))
        axes, options = raw.constant(np.array([2, 3], np.int32)), make_options("ReducerOptions", keep_dims=False)
        raw.operator("MEAN", [turned, axes], [outputs[-1]], options)
    return raw.build(inputs, outputs)


@pytest.mark.parametrize(
    ("step", "make", "owner", "name", "per_operator"),
    [
        (ConstantChannels(), unread_convolutions, constant_channels._Facts, "_unneeded", 3),
        (QuantizeFirst(), moved_floats, quantize_first._Values, "_follow", 70),
        (QuantizeFirst(), lambda count: moved_floats(1, count), quantize_first._Values, "_follow", 10),
        (ChannelsLast(), nested_transposes, channels_last, "layout_of", 70),
        (SinkTranspose(), means, sink_transpose, "layout_of", 10),
    ],
)
def test_calls_grow_with_the_operators(
    monkeypatch: pytest.MonkeyPatch, step: Pass, make: Callable[[int], Model], owner: Any, name: str, per_operator: int
) -> None:
    calls, counted = [], getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given: calls.append(name) or counted(*given))
    assert step.run(make(150)).changed
    assert len(calls) <= 150 * per_operator
