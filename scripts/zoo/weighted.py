"""Operators that slide a window or have weights, as ``ModelBuilder`` records them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from scripts.zoo import numerics
from scripts.zoo.arguments import (
    MOST_TAPS,
    SAME,
    VALID,
    Padding,
    Size,
    activate,
    activation_code,
    int32_constant,
    need_affordable,
    pads_of,
    pair_of,
    window_options,
)
from scripts.zoo.numerics import FloatArray, Pads, Window
from scripts.zoo.quantization import expected_range, spread_weights
from scripts.zoo.recorder import Recorder
from scripts.zoo.recording import ABSENT, Bias, Constant, Operand, Ref, Shape
from tflite_fuse.errors import ModelError, UsageError
from tflite_fuse.model.operators import make_options
from tflite_fuse.model.schema import OptionsTable
from tflite_fuse.model.types import TensorType


class WeightedOperators(Recorder):
    """Convolutions and fully connected layers with random weights, and the padding in front of windows."""

    def conv(
        self,
        x: Ref,
        filters: int,
        kernel: Size = 1,
        stride: Size = 1,
        padding: Padding = "SAME",
        activation: str = "NONE",
        *,
        dilation: Size = 1,
        per_channel: bool = True,
        bias: bool = True,
        name: str | None = None,
    ) -> Ref:
        """Add a CONV_2D of (1, h, w, cin) to (1, h', w', filters)."""
        x, window, mode = self._slide(x, kernel, stride, dilation, padding)
        need_affordable(prod(window.output_size(*x.shape[1:3])) * filters)
        values = self._values(x)
        shape = (filters, *window.kernel, x.shape[3])
        options = make_options("Conv2DOptions", padding=mode, **window_options(window, activation))
        return self._weighted(
            ("CONV_2D", options, activation, name),
            x,
            (shape, 0, per_channel, bias),
            lambda weights: numerics.conv2d(values, weights, window),
        )

    def transpose_conv(
        self,
        x: Ref,
        filters: int,
        kernel: Size = 2,
        stride: Size = 2,
        activation: str = "NONE",
        *,
        per_channel: bool = True,
        bias: bool = True,
        name: str | None = None,
    ) -> Ref:
        """Add a TRANSPOSE_CONV, SAME, of (1, h, w, cin) to (1, h · stride, w · stride, filters)."""
        self._need_image(x)
        window = Window(pair_of(kernel, "a kernel"), pair_of(stride, "a stride"))
        rows, columns = x.shape[1] * window.stride[0], x.shape[2] * window.stride[1]
        need_affordable(rows * columns * filters)
        values = self._values(x)
        options = make_options(
            "TransposeConvOptions",
            padding=SAME,
            stride_h=window.stride[0],
            stride_w=window.stride[1],
            fused_activation_function=activation_code(activation),
        )
        return self._weighted(
            ("TRANSPOSE_CONV", options, activation, name),
            x,
            ((filters, *window.kernel, x.shape[3]), 0, per_channel, bias),
            lambda weights: numerics.transpose_conv2d(values, weights, window.stride),
        )

    def depthwise(
        self,
        x: Ref,
        kernel: Size = 3,
        stride: Size = 1,
        padding: Padding = "SAME",
        activation: str = "NONE",
        *,
        multiplier: int = 1,
        dilation: Size = 1,
        per_channel: bool = True,
        bias: bool = True,
        name: str | None = None,
    ) -> Ref:
        """Add a DEPTHWISE_CONV_2D of (1, h, w, c) to (1, h', w', c · multiplier)."""
        x, window, mode = self._slide(x, kernel, stride, dilation, padding)
        need_affordable(prod(window.output_size(*x.shape[1:3])) * x.shape[3] * multiplier)
        values = self._values(x)
        taps = (*window.kernel, x.shape[3], multiplier)
        shape = (1, *window.kernel, x.shape[3] * multiplier)
        options = make_options(
            "DepthwiseConv2DOptions", padding=mode, depth_multiplier=multiplier, **window_options(window, activation)
        )
        return self._weighted(
            ("DEPTHWISE_CONV_2D", options, activation, name),
            x,
            (shape, 3, per_channel, bias),
            lambda weights: numerics.depthwise_conv2d(values, weights.reshape(taps), window),
        )

    def fully_connected(
        self,
        x: Ref,
        units: int,
        activation: str = "NONE",
        *,
        per_channel: bool = False,
        bias: bool = True,
        name: str | None = None,
    ) -> Ref:
        """Add a FULLY_CONNECTED over everything but the batch axis: (1, ...) to (1, units)."""
        values = self._values(x).reshape(self._calibration, -1)
        options = make_options("FullyConnectedOptions", fused_activation_function=activation_code(activation))
        return self._weighted(
            ("FULLY_CONNECTED", options, activation, name),
            x,
            ((units, values.shape[1]), 0, per_channel, bias),
            lambda weights: np.asarray(values @ weights.T, np.float32),
        )

    def pad(self, x: Ref, pads: Pads, *, name: str | None = None) -> Ref:
        """Add a PAD with real 0: ``pads`` rows above, below, columns left, right."""
        self._need_image(x)
        pads = pads_of(pads)
        paddings = int32_constant("paddings", [(0, 0), pads[:2], pads[2:], (0, 0)])
        need_affordable((x.shape[1] + sum(pads[:2])) * (x.shape[2] + sum(pads[2:])) * x.shape[3])
        values = numerics.pad(self._values(x), pads)
        return self._share(x, self._emit("PAD", (x.index, paddings), values, make_options("PadOptions"), name))

    def _weighted(
        self,
        operator: tuple[str, OptionsTable, str, str | None],
        x: Ref,
        weights: tuple[Shape, int, bool, bool],
        forward: Callable[[FloatArray], FloatArray],
    ) -> Ref:
        """Add an operator (kind, options, activation, name) and weights (shape, channel axis, per channel, bias)."""
        kind, options, activation, name = operator
        shape, axis, per_channel, with_bias = weights
        if min(shape) < 1:
            raise UsageError(f"weights of shape {shape} make no sense: every size must be at least 1")
        need_affordable(prod(shape))
        drawn, outputs = spread_weights(shape, axis, per_channel, with_bias, forward, self._rng)
        base = name or self._name(kind)
        filters = Constant(
            f"{base}/weights", shape, TensorType.INT8, drawn.values.tobytes(), drawn.scales.tolist(), axis
        )
        operands: list[Operand] = [x.index, filters]
        if kind == "TRANSPOSE_CONV":
            operands = [int32_constant("output_shape", (1, *outputs.shape[1:])), filters, x.index]
        if with_bias:
            operands.append(Bias(f"{base}/bias", drawn, x.index))
        elif kind == "FULLY_CONNECTED":
            operands.append(ABSENT)
        output = self._emit(kind, tuple(operands), activate(outputs, activation), options, name)
        low, high = activate(np.array(expected_range(outputs), np.float32), activation)
        self._recording.activations[output.index].low = float(low)
        self._recording.activations[output.index].high = float(high)
        return output

    def _slide(self, x: Ref, kernel: Size, stride: Size, dilation: Size, padding: Padding) -> tuple[Ref, Window, int]:
        """Return the tensor to slide over (behind a PAD if needed), the window with its padding, and SAME or VALID."""
        self._need_image(x)
        bare = Window(pair_of(kernel, "a kernel"), pair_of(stride, "a stride"), pair_of(dilation, "a dilation"))
        height, width = x.shape[1:3]
        same = replace(bare, pads=numerics.same_pads(height, width, bare))
        by_name = {"SAME": (same, SAME), "VALID": (bare, VALID)}
        if isinstance(padding, str) and padding not in by_name:
            raise UsageError(f"padding must be SAME, VALID or four numbers, not {padding!r}")
        needed = by_name[padding][0] if isinstance(padding, str) else replace(bare, pads=pads_of(padding))
        size = needed.output_size(height, width)
        if min(size) < 1:
            raise ModelError(f"a window of {bare.extent} pixels does not fit into {x.shape} with padding {padding}")
        need_affordable(prod(size) * prod(bare.kernel) * x.shape[3], MOST_TAPS)
        if isinstance(padding, str):
            return x, *by_name[padding]
        # Rows that no window reaches do not matter, so only the padding before the image and the output's size count.
        for candidate, mode in by_name.values():
            if needed.pads[::2] == candidate.pads[::2] and size == candidate.output_size(height, width):
                return x, candidate, mode
        return self.pad(x, needed.pads), bare, VALID
