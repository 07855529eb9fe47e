"""The builder's models: TensorFlow Lite Micro's results match the float run, and use the int8 range."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from scripts.zoo import ModelBuilder, Ref
from tflite_fuse.errors import ModelError, UsageError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.types import TensorType
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="needs the tflite-micro wheel")

Graph = Callable[[ModelBuilder, Ref], Ref]

OPERATORS: dict[str, Graph] = {
    "conv": lambda b, x: b.conv(x, 7, 3),
    "conv_1x1": lambda b, x: b.conv(x, 7, activation="RELU"),
    "conv_same_stride": lambda b, x: b.conv(x, 5, (5, 3), (2, 3), activation="RELU6"),
    "conv_valid_rectangular": lambda b, x: b.conv(x, 5, (1, 4), (2, 1), "VALID"),
    "conv_explicit": lambda b, x: b.conv(x, 5, 3, 2, (2, 0, 1, 3)),
    "conv_dilated": lambda b, x: b.conv(x, 5, 3, dilation=(1, 2)),
    "conv_per_tensor": lambda b, x: b.conv(x, 7, 3, per_channel=False),
    "conv_without_bias": lambda b, x: b.conv(x, 7, 3, bias=False),
    "depthwise": lambda b, x: b.depthwise(x, 3, activation="RELU6"),
    "depthwise_multiplier": lambda b, x: b.depthwise(x, (3, 5), 2, multiplier=3),
    "depthwise_explicit_dilated": lambda b, x: b.depthwise(x, 3, 1, (2, 2, 0, 1), dilation=2),
    "depthwise_without_bias": lambda b, x: b.depthwise(x, 3, bias=False),
    "fully_connected": lambda b, x: b.fully_connected(x, 9, activation="RELU"),
    "fully_connected_per_channel": lambda b, x: b.fully_connected(x, 9, per_channel=True),
    "fully_connected_without_bias": lambda b, x: b.fully_connected(x, 9, bias=False),
    "pad": lambda b, x: b.pad(x, (1, 0, 2, 3)),
    "average_pool": lambda b, x: b.average_pool(x, (3, 2), (2, 1), "SAME"),
    "max_pool": lambda b, x: b.max_pool(x, 3, 2, "SAME"),
    "mean": lambda b, x: b.mean(x),
    "mean_keeping_dims": lambda b, x: b.mean(x, keep_dims=True),
    "reshape": lambda b, x: b.reshape(x, (1, x.shape[1] * x.shape[2], x.shape[3])),
    "softmax": lambda b, x: b.softmax(b.fully_connected(x, 9)),
    "logistic": lambda b, x: b.logistic(x),
    "split": lambda b, x: b.split(x, 2)[1],
    "add": lambda b, x: b.add(x, b.max_pool(x, 3, 1, "SAME")),
    "mul": lambda b, x: b.mul(x, b.mean(x, keep_dims=True), "RELU"),
    "concat": lambda b, x: b.concat([x, b.conv(x, 3, 3), x]),
    "concat_rows": lambda b, x: b.concat([x, x], axis=1),
    "quantize": lambda b, x: b.quantize(b.softmax(x)),
    "dequantize": lambda b, x: b.dequantize(x),
}


def quantized(values: np.ndarray, model: Model, tensor: int) -> np.ndarray:
    parameters = model.main.tensors[tensor].quantization
    assert parameters is not None and parameters.scale and parameters.zero_point
    return np.clip(np.round(values / parameters.scale[0]) + parameters.zero_point[0], -128, 127).astype(np.int8)


def real(values: np.ndarray, model: Model, tensor: int) -> tuple[np.ndarray, float]:
    """Real values of a tensor, and the size of one step between them."""
    if model.main.tensors[tensor].type == TensorType.FLOAT32:
        return values, 1.0 / 128
    parameters = model.main.tensors[tensor].quantization
    assert parameters is not None and parameters.scale and parameters.zero_point
    return (values.astype(np.float64) - parameters.zero_point[0]) * parameters.scale[0], parameters.scale[0]


@needs_tflm
@pytest.mark.parametrize("name", OPERATORS)
def test_int8_model_follows_the_float_run(name: str) -> None:
    b = ModelBuilder(seed=3)
    x = b.input((1, 9, 11, 6))
    y = OPERATORS[name](b, x)
    model = b.build([y])
    images = quantized(b.samples(x), model, model.main.inputs[0])
    outputs = tflm.run(serialize_model(model), [[image[None]] for image in images]).outputs
    got, step = real(np.concatenate([arrays[0] for arrays in outputs]), model, model.main.outputs[0])
    error = np.abs(got - b.samples(y)) / step
    assert error.mean() < 0.8
    assert error.max() < 4.0


def spread(outputs: np.ndarray) -> tuple[int, float, float]:
    saturated = np.mean((outputs == 127) | (outputs == -128))
    return np.unique(outputs).size, float(outputs.std()), float(saturated)


@needs_tflm
@pytest.mark.parametrize("seed", range(3))
def test_outputs_use_the_int8_range(seed: int) -> None:
    b = ModelBuilder(seed)
    x = b.input((1, 24, 24, 3))
    y = b.conv(x, 16, 3, 2)
    for _ in range(6):
        z = b.conv(b.depthwise(b.conv(y, 32, activation="RELU6"), 3, activation="RELU6"), 16)
        y = b.add(y, z)
    logits = b.fully_connected(b.mean(y), 100)
    model = serialize_model(b.build([y, logits]))
    rng = np.random.default_rng(seed)
    images = [[rng.integers(-128, 128, (1, 24, 24, 3)).astype(np.int8)] for _ in range(4)]
    outputs = tflm.run(model, images).outputs
    for number, least_distinct in ((0, 150), (1, 60)):
        values = np.stack([arrays[number] for arrays in outputs])
        distinct, deviation, saturated = spread(values)
        assert distinct >= least_distinct
        assert deviation > 12.0
        assert saturated < 0.05
        assert np.abs(np.diff(values.astype(int), axis=0)).mean() > 2.0, "outputs hardly depend on the input"


def names(model: Model) -> list[str]:
    return [operator_name(model, operator) for operator in model.main.operators]


@pytest.mark.parametrize(
    ("height", "stride", "pads", "expected"),
    [
        (8, 1, (1, 1, 1, 1), ["SAME"]),
        (8, 2, (0, 1, 0, 1), ["SAME"]),
        (9, 2, (1, 1, 1, 1), ["SAME"]),
        (8, 2, (1, 1, 1, 1), ["PAD", "VALID"]),
        (8, 1, (0, 0, 0, 0), ["VALID"]),
        (8, 2, (0, 0, 0, 0), ["VALID"]),
        # The last row is never reached, so padding below it or not is the same.
        (10, 3, (0, 1, 0, 1), ["VALID"]),
        (8, 1, (2, 0, 1, 1), ["PAD", "VALID"]),
    ],
)
def test_explicit_padding_takes_the_simplest_form(
    height: int, stride: int, pads: tuple[int, int, int, int], expected: list[str]
) -> None:
    b = ModelBuilder()
    y = b.conv(b.input((1, height, height, 2)), 3, 3, stride, pads)
    model = b.build()
    modes = {0: "SAME", 1: "VALID"}
    found = [
        "PAD" if name == "PAD" else modes[int(get_options(operator)["padding"])]  # type: ignore[arg-type]
        for name, operator in zip(names(model), model.main.operators, strict=True)
    ]
    assert found == expected
    assert y.shape[1] == (height + pads[0] + pads[1] - 3) // stride + 1


def test_operators_that_copy_bytes_share_one_scale() -> None:
    b = ModelBuilder()
    x = b.input((1, 6, 6, 4))
    left = b.conv(x, 4, 3, activation="RELU")
    right = b.pad(b.conv(x, 2), (0, 0, 0, 0))
    joined = b.concat([left, b.max_pool(right, 3, 1, "SAME")])
    parts = b.split(joined, 3)
    model = b.build([b.reshape(parts[0], (1, 72))])
    scales = {
        (tensor.quantization.scale, tensor.quantization.zero_point)
        for operator, name in zip(model.main.operators, names(model), strict=True)
        if name in ("CONCATENATION", "SPLIT", "RESHAPE", "MAX_POOL_2D", "PAD")
        for index in (*operator.inputs, *operator.outputs)
        if (tensor := model.main.tensors[index]).quantization is not None and tensor.buffer == 0
    }
    assert len(scales) == 1


def test_bias_scale_is_input_scale_times_weight_scale() -> None:
    b = ModelBuilder()
    b.conv(b.input((1, 6, 6, 4)), 5, 3)
    model = b.build()
    x, weights, bias = (model.main.tensors[index].quantization for index in model.main.operators[0].inputs or ())
    assert x and weights and bias and x.scale and weights.scale and bias.scale
    assert len(weights.scale) == 5
    np.testing.assert_allclose(bias.scale, np.array(weights.scale) * x.scale[0], rtol=1e-6)


def test_same_seed_same_bytes_other_seed_other_weights() -> None:
    def build(seed: int) -> bytes:
        b = ModelBuilder(seed)
        b.conv(b.input((1, 6, 6, 4)), 5, 3)
        return serialize_model(b.build())

    assert build(1) == build(1)
    assert build(1) != build(2)


def test_model_survives_the_file() -> None:
    b = ModelBuilder()
    x = b.input((1, 6, 6, 4))
    b.softmax(b.fully_connected(b.mean(b.depthwise(x)), 3))
    model = b.build()
    assert load_model(serialize_model(model)) == model


def test_float_borders() -> None:
    b = ModelBuilder()
    x = b.input((1, 6, 6, 4), type=TensorType.FLOAT32)
    y = b.dequantize(b.conv(b.quantize(x), 3))
    model = b.build([y])
    assert names(model) == ["QUANTIZE", "CONV_2D", "DEQUANTIZE"]
    ends = (*model.main.inputs, *model.main.outputs)
    assert all(model.main.tensors[index].type == TensorType.FLOAT32 for index in ends)
    assert all(model.main.tensors[index].quantization is None for index in ends)


@needs_tflm
def test_variable_keeps_its_content_between_inferences() -> None:
    b = ModelBuilder()
    x = b.input((1, 2, 2, 1))
    memory = b.variable(x.shape)
    before = b.read_variable(memory)
    b.assign_variable(memory, b.max_pool(x, 1))
    model = b.build([before])
    images = [np.full((1, 2, 2, 1), value, np.int8) for value in (5, -7, 90)]
    outputs = tflm.run(serialize_model(model), [[image] for image in images], reset=False).outputs
    start = quantized(np.zeros(1), model, model.main.outputs[0])
    assert [int(arrays[0].flat[0]) for arrays in outputs] == [int(start[0]), 5, -7]


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: b.conv(x, 0),
        lambda b, x: b.conv(x, 4, kernel=0),
        lambda b, x: b.conv(x, 4, stride=(1, 0)),
        lambda b, x: b.conv(x, 4, padding="FULL"),
        lambda b, x: b.conv(x, 4, padding=(1, 1, 1)),
        lambda b, x: b.conv(x, 4, padding=(1, 1, -1, 1)),
        lambda b, x: b.conv(x, 4, activation="TANH"),
        lambda b, x: b.conv(x, 4, kernel=9, padding="VALID"),
        lambda b, x: b.conv(b.mean(x), 4),
        lambda b, x: b.add(x, b.conv(x, 5)),
        lambda b, x: b.concat([x, b.max_pool(x, 2)]),
        lambda b, x: b.concat([x, x], axis=0),
        lambda b, x: b.reshape(x, (1, 7)),
        lambda b, x: b.split(x, 3),
        lambda b, x: b.mean(x, axes=(0,)),
        lambda b, x: b.conv(b.dequantize(x), 4),
        lambda b, x: b.conv(x, 1 << 24),
        lambda b, x: b.pad(x, (1 << 20, 0, 1 << 20, 0)),
        lambda b, x: b.input((2, 4, 4, 1)),
        lambda b, x: b.input((1, 1 << 14, 1 << 14, 1)),
        lambda b, x: b.conv(Ref(99, (1, 4, 4, 4)), 4),
        lambda b, x: b.assign_variable(b.variable((1, 2)), x),
        lambda b, x: b.build(),
        lambda b, x: (b.concat([b.softmax(x), b.conv(x, 4)]), b.build()),
    ],
)
def test_senseless_arguments_are_answered(build: Callable[[ModelBuilder, Ref], object]) -> None:
    b = ModelBuilder()
    with pytest.raises((UsageError, ModelError)):
        build(b, b.input((1, 6, 6, 4)))
