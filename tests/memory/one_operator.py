"""Models of a single operator, of all kinds that TensorFlow Lite Micro's wheel loads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tflite_fuse.model import schema as s
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import BUILTIN_CODES, CUSTOM, TensorType

I8, I16, I32, I64 = TensorType.INT8, TensorType.INT16, TensorType.INT32, TensorType.INT64
F32, BOOL, I4 = TensorType.FLOAT32, TensorType.BOOL, TensorType.INT4

Shape = tuple[int, ...]


class Maker:
    """Collects tensors, then makes the model."""

    def __init__(self) -> None:
        self.tensors: list[s.Tensor] = []
        self.buffers = [s.Buffer()]
        self.variables = 0

    def data(
        self, shape: Shape, kind: TensorType = I8, scale: float | Sequence[float] = 0.5, zero: int = 0, axis: int = 0
    ) -> int:
        return self._tensor(shape, kind, 0, scale, zero, axis)

    def constant(
        self,
        shape: Shape,
        kind: TensorType = I8,
        values: Sequence[int] | None = None,
        scale: float | Sequence[float] = 0.5,
        axis: int = 0,
    ) -> int:
        count = int(np.prod(shape))
        if kind == I4:
            content = bytes((count + 1) // 2)
        else:
            types = {I8: np.int8, I16: np.int16, I32: np.int32, I64: np.int64, F32: np.float32}
            content = np.asarray(values if values is not None else np.ones(count), types[kind]).tobytes()
        self.buffers.append(s.Buffer(content))
        return self._tensor(shape, kind, len(self.buffers) - 1, scale, 0, axis)

    def variable(self, shape: Shape, kind: TensorType, scale: float = 0.5) -> int:
        index = self._tensor(shape, kind, 0, scale, 0, 0)
        tensor = self.tensors[index]
        self.tensors[index] = s.Tensor(tensor.shape, tensor.type, 0, tensor.name, tensor.quantization, is_variable=True)
        return index

    def _tensor(
        self, shape: Shape, kind: TensorType, buffer: int, scale: float | Sequence[float], zero: int, axis: int
    ) -> int:
        scales = (scale,) if isinstance(scale, float) else tuple(scale)
        quantization = s.Quantization(scale=scales, zero_point=(zero,) * len(scales), quantized_dimension=axis)
        quantized = quantization if kind in (I8, I16, I4, I32) else None
        self.tensors.append(s.Tensor(shape, kind, buffer, f"t{len(self.tensors)}", quantized))
        return len(self.tensors) - 1

    def model(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: s.OptionsTable | None = None
    ) -> s.Model:
        number = BUILTIN_CODES.get(name, CUSTOM)
        code = s.OperatorCode(min(number, 127), None if number != CUSTOM else name, 1, number)
        edges = [t for t in inputs if t >= 0 and not self.tensors[t].buffer and not self.tensors[t].is_variable]
        operator = s.Operator(0, tuple(inputs), tuple(outputs), options)
        graph = s.SubGraph(tuple(self.tensors), tuple(dict.fromkeys(edges)), tuple(outputs), (operator,), "main")
        return s.Model(3, (code,), (graph,), "", tuple(self.buffers))


def _unary(
    name: str, kind: TensorType = I8, out: TensorType | None = None, scale: float = 0.5, zero: int = 0
) -> s.Model:
    m = Maker()
    options = make_options("LeakyReluOptions", alpha=0.5) if name == "LEAKY_RELU" else None
    return m.model(
        name, [m.data((1, 4, 6), kind)], [m.data((1, 4, 6), kind if out is None else out, scale, zero)], options
    )


def _binary(name: str, kind: TensorType = I8, out: TensorType | None = None) -> s.Model:
    m = Maker()
    options = make_options("AddOptions") if name == "ADD" else make_options("SubOptions") if name == "SUB" else None
    return m.model(
        name,
        [m.data((1, 5, 4), kind), m.data((1, 5, 4), kind)],
        [m.data((1, 5, 4), kind if out is None else out)],
        options,
    )


def _reduce(name: str, kind: TensorType = I8) -> s.Model:
    m = Maker()
    options = make_options("ReducerOptions", keep_dims=True)
    return m.model(
        name, [m.data((1, 4, 5, 6), kind), m.constant((2,), I32, [1, 2])], [m.data((1, 1, 1, 6), kind)], options
    )


def _conv(weights: TensorType = I8) -> s.Model:
    m = Maker()
    filters = m.constant((6, 3, 3, 5), weights, scale=[0.01] * 6)
    options = make_options("Conv2DOptions", padding=0, stride_w=1, stride_h=1)
    return m.model("CONV_2D", [m.data((1, 4, 4, 5)), filters, m.constant((6,), I32)], [m.data((1, 4, 4, 6))], options)


def _depthwise(weights: TensorType = I8) -> s.Model:
    m = Maker()
    filters = m.constant((1, 3, 3, 5), weights, range(45), [0.01] * 5, axis=3)
    options = make_options("DepthwiseConv2DOptions", stride_w=1, stride_h=1, depth_multiplier=1)
    return m.model(
        "DEPTHWISE_CONV_2D", [m.data((1, 4, 4, 5)), filters, m.constant((5,), I32)], [m.data((1, 4, 4, 5))], options
    )


def _dense(weights: TensorType = I8, channels: int = 1) -> s.Model:
    m = Maker()
    filters = m.constant((9, 12), weights, scale=[0.01] * channels)
    options = make_options("FullyConnectedOptions")
    return m.model("FULLY_CONNECTED", [m.data((1, 12)), filters, -1], [m.data((1, 9))], options)


def _transpose_conv() -> s.Model:
    m = Maker()
    shape, filters = m.constant((4,), I32, [1, 8, 8, 6]), m.constant((6, 3, 3, 5), scale=[0.01] * 6)
    options = make_options("TransposeConvOptions", stride_w=2, stride_h=2)
    return m.model(
        "TRANSPOSE_CONV", [shape, filters, m.data((1, 4, 4, 5)), m.constant((6,), I32)], [m.data((1, 8, 8, 6))], options
    )


def _matrix_product(adj_x: bool, adj_y: bool) -> s.Model:
    m = Maker()
    left, right = ((1, 4, 3) if adj_x else (1, 3, 4)), ((1, 5, 4) if adj_y else (1, 4, 5))
    options = make_options("BatchMatMulOptions", adj_x=adj_x, adj_y=adj_y)
    return m.model("BATCH_MATMUL", [m.data(left), m.data(right)], [m.data((1, 3, 5))], options)


def _svdf() -> s.Model:
    m = Maker()
    options = s.OptionsTable(6, ((0, (2).to_bytes(4, "little")),))
    inputs = [
        m.data((1, 7), scale=0.25),
        m.constant((8, 7), scale=0.25),
        m.constant((8, 10), I16, scale=0.25),
        m.constant((4,), I32, scale=0.0625),
        m.variable((1, 80), I16, 0.25),
    ]
    return m.model("SVDF", inputs, [m.data((1, 4))], options)


def _pack() -> s.Model:
    m = Maker()
    options = s.OptionsTable(59, ((0, (2).to_bytes(4, "little")),))
    return m.model("PACK", [m.data((3, 4)), m.data((3, 4))], [m.data((2, 3, 4))], options)


def _add_n(kind: TensorType) -> s.Model:
    m = Maker()
    return m.model("ADD_N", [m.data((3, 4), kind) for _ in range(5)], [m.data((3, 4), kind)])


def _mirror_pad() -> s.Model:
    m = Maker()
    return m.model("MIRROR_PAD", [m.data((3, 4)), m.constant((2, 2), I32, [1, 1, 1, 1])], [m.data((5, 6))])


def _block(name: str, member: int, source: Shape, target: Shape) -> s.Model:
    m = Maker()
    options = s.OptionsTable(member, ((0, (2).to_bytes(4, "little")),))
    return m.model(name, [m.data(source)], [m.data(target)], options)


def _with_constants(name: str, source: Shape, constants: Sequence[Sequence[int]], target: Shape) -> s.Model:
    m = Maker()
    inputs = [m.data(source), *(m.constant((len(values),), I32, values) for values in constants)]
    return m.model(name, inputs, [m.data(target)])


def _pad(name: str) -> s.Model:
    m = Maker()
    inputs = [m.data((3, 4)), m.constant((2, 2), I32, [1, 1, 0, 0])]
    return m.model(name, inputs if name == "PAD" else [*inputs, m.constant((1,))], [m.data((5, 4))])


def _space_to_batch() -> s.Model:
    m = Maker()
    inputs = [m.data((1, 4, 4, 2)), m.constant((2,), I32, [2, 2]), m.constant((2, 2), I32, [0, 0, 0, 0])]
    return m.model("SPACE_TO_BATCH_ND", inputs, [m.data((4, 2, 2, 2))])


def _select() -> s.Model:
    m = Maker()
    inputs = [m.data((3, 4), BOOL), m.data((3, 4)), m.data((3, 4))]
    return m.model("SELECT_V2", inputs, [m.data((3, 4))])


def _reduce_all() -> s.Model:
    m = Maker()
    inputs = [m.data((3, 4), BOOL), m.constant((1,), I32, [1])]
    return m.model("REDUCE_ALL", inputs, [m.data((3, 1), BOOL)], make_options("ReducerOptions", keep_dims=True))


def _unpack() -> s.Model:
    m = Maker()
    options = s.OptionsTable(64, ((0, (2).to_bytes(4, "little")),))
    return m.model("UNPACK", [m.data((2, 3))], [m.data((3,)), m.data((3,))], options)


def _pool(name: str) -> s.Model:
    m = Maker()
    kind = F32 if name == "L2_POOL_2D" else I8
    options = make_options("Pool2DOptions", stride_w=2, stride_h=2, filter_width=2, filter_height=2)
    return m.model(name, [m.data((1, 4, 4, 5), kind)], [m.data((1, 2, 2, 5), kind)], options)


def _strided_slice() -> s.Model:
    m = Maker()
    inputs = [m.data((4, 6)), *(m.constant((2,), I32, v) for v in ([0, 0], [4, 6], [2, 2]))]
    return m.model("STRIDED_SLICE", inputs, [m.data((2, 3))], make_options("StridedSliceOptions"))


def _concatenation() -> s.Model:
    m = Maker()
    options = make_options("ConcatenationOptions", axis=1)
    return m.model("CONCATENATION", [m.data((2, 3)), m.data((2, 4))], [m.data((2, 7))], options)


def _split() -> s.Model:
    m = Maker()
    options = make_options("SplitOptions", num_splits=2)
    return m.model("SPLIT", [m.constant((1,), I32, [1]), m.data((2, 6))], [m.data((2, 3)), m.data((2, 3))], options)


def _softmax(kind: TensorType) -> s.Model:
    m = Maker()
    scale, zero = (1 / 256, -128) if kind == I8 else (1 / 32768, 0)
    return m.model(
        "SOFTMAX", [m.data((1, 9), kind)], [m.data((1, 9), kind, scale, zero)], make_options("SoftmaxOptions", beta=1.0)
    )


def _gather() -> s.Model:
    m = Maker()
    return m.model("GATHER", [m.data((4, 6)), m.constant((3,), I32, [0, 1, 2])], [m.data((3, 6))])


def _argument(name: str) -> s.Model:
    m = Maker()
    return m.model(name, [m.data((2, 6)), m.constant((1,), I32, [1])], [m.data((2,), I32)])


def _prelu() -> s.Model:
    m = Maker()
    return m.model("PRELU", [m.data((1, 2, 2, 4)), m.constant((1, 1, 4))], [m.data((1, 2, 2, 4))])


MODELS: dict[str, s.Model] = {
    **{name: _unary(name) for name in ("RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "QUANTIZE", "ABS", "ELU")},
    **{name: _unary(name, F32) for name in ("EXP", "LOG", "SIN", "COS", "SQRT", "RSQRT", "SQUARE", "FLOOR", "NEG")},
    "LOGISTIC": _unary("LOGISTIC", I8, None, 1 / 256, -128),
    "TANH": _unary("TANH", I8, None, 1 / 128),
    "LOG_SOFTMAX": _unary("LOG_SOFTMAX", I8, None, 16 / 256, 127),
    "L2_NORMALIZATION": _unary("L2_NORMALIZATION"),
    "DEQUANTIZE": _unary("DEQUANTIZE", I8, F32),
    "CAST": _unary("CAST", I8, F32),
    **{name: _binary(name) for name in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")},
    "DIV": _binary("DIV", F32),
    "FLOOR_DIV": _binary("FLOOR_DIV", F32),
    **{
        name: _binary(name, I8, BOOL)
        for name in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
    },
    **{name: _reduce(name) for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")},
    "MEAN of floats": _reduce("MEAN", F32),
    "CONV_2D": _conv(),
    "CONV_2D of 4-bit weights": _conv(I4),
    "DEPTHWISE_CONV_2D": _depthwise(),
    "DEPTHWISE_CONV_2D of 4-bit weights": _depthwise(I4),
    "FULLY_CONNECTED": _dense(),
    "FULLY_CONNECTED per channel": _dense(I8, 9),
    "FULLY_CONNECTED of 4-bit weights": _dense(I4),
    "TRANSPOSE_CONV": _transpose_conv(),
    "BATCH_MATMUL": _matrix_product(False, False),
    "BATCH_MATMUL, left transposed": _matrix_product(True, True),
    "SVDF": _svdf(),
    "PACK": _pack(),
    "ADD_N": _add_n(I8),
    "ADD_N of floats": _add_n(F32),
    "MIRROR_PAD": _mirror_pad(),
    "SPACE_TO_DEPTH": _block("SPACE_TO_DEPTH", 19, (1, 4, 4, 3), (1, 2, 2, 12)),
    "DEPTH_TO_SPACE": _block("DEPTH_TO_SPACE", 94, (1, 2, 2, 12), (1, 4, 4, 3)),
    "PAD": _pad("PAD"),
    "PADV2": _pad("PADV2"),
    "SPACE_TO_BATCH_ND": _space_to_batch(),
    "SELECT_V2": _select(),
    "REDUCE_ALL": _reduce_all(),
    "UNPACK": _unpack(),
    "CUMSUM": _with_constants("CUMSUM", (3, 4), [[1]], (3, 4)),
    "EXPAND_DIMS": _with_constants("EXPAND_DIMS", (3, 4), [[0]], (1, 3, 4)),
    "RESIZE_BILINEAR": _with_constants("RESIZE_BILINEAR", (1, 2, 2, 3), [[4, 4]], (1, 4, 4, 3)),
    "SQUEEZE": _with_constants("SQUEEZE", (1, 3, 4), [], (3, 4)),
    "TRANSPOSE": _with_constants("TRANSPOSE", (3, 4), [[1, 0]], (4, 3)),
    "SLICE": _with_constants("SLICE", (3, 4), [[0, 0], [2, 2]], (2, 2)),
    "RESIZE_NEAREST_NEIGHBOR": _with_constants("RESIZE_NEAREST_NEIGHBOR", (1, 2, 2, 3), [[4, 4]], (1, 4, 4, 3)),
    "RESHAPE": _with_constants("RESHAPE", (3, 4), [[4, 3]], (4, 3)),
    **{name: _pool(name) for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")},
    "STRIDED_SLICE": _strided_slice(),
    "CONCATENATION": _concatenation(),
    "SPLIT": _split(),
    "SOFTMAX": _softmax(I8),
    "SOFTMAX of 16 bits": _softmax(I16),
    "GATHER": _gather(),
    "ARG_MAX": _argument("ARG_MAX"),
    "ARG_MIN": _argument("ARG_MIN"),
    "PRELU": _prelu(),
}
