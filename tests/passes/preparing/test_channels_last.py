"""Operators between TRANSPOSEs run with channels last, and the TRANSPOSEs are removed; bytes unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from scripts.zoo.float_twin import float_twin
from tests.drawing.raw_models import RawModel, add_convolution
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Buffer
from tflite_fuse.passes.preparing.channels_last import ChannelsLast
from tflite_fuse.runtime import tflm

IMAGE, FIRST = (1, 8, 6, 4), (1, 4, 8, 6)
Between = Callable[[RawModel, int, int], int]


def turned(raw: RawModel, tensor: int, order: tuple[int, ...]) -> int:
    found = raw.tensors[tensor]
    assert found.quantization is not None and found.quantization.scale and found.quantization.zero_point
    affine = found.quantization.scale[0], found.quantization.zero_point[0]
    output = raw.tensor(tuple(found.dims[axis] for axis in order), *affine)
    raw.operator("TRANSPOSE", [tensor, raw.constant(np.array(order, np.int32))], [output], None)
    return output


def channels_first(between: Between, also_read: bool = False) -> Model:
    """Two convolutions as channels-first maps, operators between, and a convolution behind."""
    raw = RawModel()
    x = raw.tensor(IMAGE, 0.3, -7)
    maps = [turned(raw, add_convolution(raw, x, IMAGE, 3), (0, 3, 1, 2)) for _ in range(2)]
    joined = between(raw, *maps)
    y = turned(raw, joined, (0, 2, 3, 1))
    y = add_convolution(raw, y, (*raw.tensors[y].dims[:3], 5), 3)
    return raw.build([x], [y, joined] if also_read else [y])


def names(model: Model) -> list[str]:
    return [operator_name(model, operator) for operator in model.main.operators]


def of_one(name: str) -> Between:
    def add(raw: RawModel, a: int, b: int) -> int:
        output = raw.tensor(FIRST, 1 / 256 if name == "LOGISTIC" else 0.2, -128 if name == "LOGISTIC" else 5)
        raw.operator(name, [sum_of(raw, a, b)], [output], None)
        return output

    return add


def sum_of(raw: RawModel, a: int, b: int) -> int:
    output = raw.tensor(FIRST, 0.4, 9)
    raw.operator("ADD", [a, b], [output], make_options("AddOptions", fused_activation_function=1))
    return output


def pad(before: int, behind: int) -> Between:
    def add(raw: RawModel, a: int, b: int) -> int:
        output = raw.tensor((1, 4, 8 + before + behind, 6), 0.4, 9)
        amounts = raw.constant(np.array([[0, 0], [0, 0], [before, behind], [0, 0]], np.int32))
        raw.operator("PAD", [sum_of(raw, a, b), amounts], [output], None)
        return output

    return add


def pad_of_nothing(raw: RawModel, a: int, b: int) -> int:
    output = raw.tensor(FIRST, 0.4, 9)
    raw.operator("RELU", [pad(0, 0)(raw, a, b)], [output], None)
    return output


def join(raw: RawModel, a: int, b: int) -> int:
    output = raw.tensor((1, 8, 8, 6), 0.3, -7)
    raw.operator("CONCATENATION", [a, b], [output], make_options("ConcatenationOptions", axis=-3))
    return output


def scaled(shape: tuple[int, ...], name: str = "MUL") -> Between:
    def add(raw: RawModel, a: int, b: int) -> int:
        output = raw.tensor(FIRST, 0.3, 2)
        factors = raw.constant(np.arange(-2, 2, dtype=np.int8).reshape(shape), [0.5])
        options = make_options("MulOptions") if name == "MUL" else None
        raw.operator(name, [sum_of(raw, a, b), factors], [output], options)
        return output

    return add


def two_groups(raw: RawModel, a: int, b: int) -> int:
    return of_one("RELU")(raw, turned(raw, turned(raw, sum_of(raw, a, b), (0, 2, 3, 1)), (0, 3, 1, 2)), b)


def reshaped(raw: RawModel, tensor: int, shape: tuple[int, ...]) -> int:
    output = raw.tensor(shape, 0.3, -7)
    raw.operator("RESHAPE", [tensor, raw.constant(np.array(shape, np.int32))], [output], None)
    return output


def one_dimension(raw: RawModel, a: int, b: int) -> int:
    """A sum and a factor for each channel on maps without rows, as PyTorch's layers of one dimension have them."""
    scaled, factors = (
        raw.tensor((1, 4, 48), 0.3, -7),
        raw.constant(np.arange(-2, 2, dtype=np.int8).reshape(1, 4, 1), [0.5]),
    )
    raw.operator("MUL", [reshaped(raw, a, (1, 4, 48)), factors], [scaled], make_options("MulOptions"))
    total = raw.tensor((1, 4, 48), 0.3, -7)
    raw.operator(
        "ADD", [scaled, reshaped(raw, b, (1, 4, 48))], [total], make_options("AddOptions", fused_activation_function=1)
    )
    return reshaped(raw, total, FIRST)


GROUPS = {
    "RELU": of_one("RELU"),
    "LOGISTIC": of_one("LOGISTIC"),
    "ADD": sum_of,
    "PAD": pad(1, 2),
    "PAD of nothing": pad_of_nothing,
    "CONCATENATION": join,
    "a factor for each channel": scaled((1, 4, 1, 1)),
    "two groups": two_groups,
    "layers of one dimension": one_dimension,
    "slopes of three dimensions": scaled((4, 1, 1), "PRELU"),
}


@pytest.mark.parametrize("is_float", [False, True])
@pytest.mark.parametrize("name", GROUPS)
def test_the_transposes_are_gone_and_the_bytes_are_the_same(name: str, is_float: bool) -> None:
    model = channels_first(GROUPS[name])
    model = load_model(serialize_model(float_twin(model) if is_float else model))
    result = ChannelsLast().run(model)
    assert result.changed and "TRANSPOSE" not in names(result.model)
    found = validate(model, result.model)
    assert found.proven, [str(finding) for finding in found.findings]
    if tflm.available():
        rewritten = rewrite(serialize_model(model), inputs=4, verify=True)
        assert set(names(load_model(rewritten.model))) == {"CUSTOM:TFLITE_FUSE"}
        assert not any("TRANSPOSE" in label for block in rewritten.report.blocks for label in block.operators)


@pytest.mark.parametrize("name", ["PAD", "a factor for each channel", "slopes of three dimensions"])
def test_constants_in_another_order_are_found(name: str) -> None:
    model = load_model(serialize_model(channels_first(GROUPS[name])))
    turned = ChannelsLast().run(model).model
    known = {buffer.data for buffer in model.buffers}
    kept = bytes(range(254, 256)) + bytes(range(2))  # the factors, which keep their bytes
    for index, buffer in enumerate(turned.buffers):
        if buffer.data and (buffer.data not in known or buffer.data == kept):
            others = (*turned.buffers[:index], Buffer(buffer.data[::-1]), *turned.buffers[index + 1 :])
            assert not validate(model, replace(turned, buffers=others)).proven
            break
    else:
        pytest.fail("there is no such constant")


def softmax(raw: RawModel, a: int, b: int) -> int:
    output = raw.tensor(FIRST, 1 / 256, -128)
    raw.operator("SOFTMAX", [a], [output], make_options("SoftmaxOptions", beta=1.0))
    return output


def whole_constant(raw: RawModel, a: int, b: int) -> int:
    """A tensor that comes from no TRANSPOSE."""
    other = raw.tensor(FIRST, 0.3, 2)
    raw.operator("RESHAPE", [raw.tensor((1, 192), 0.3, 2), raw.constant(np.array(FIRST, np.int32))], [other], None)
    return sum_of(raw, a, other)


def other_channels(raw: RawModel, a: int, b: int) -> int:
    return reshaped(raw, reshaped(raw, sum_of(raw, a, b), (1, 8, 24)), FIRST)


@pytest.mark.parametrize("between", [softmax, whole_constant, other_channels])
def test_operators_that_depend_on_the_order_of_axes_keep_theirs(between: Between) -> None:
    assert not ChannelsLast().run(channels_first(between)).changed


def test_a_group_that_is_read_elsewhere_stays() -> None:
    assert not ChannelsLast().run(channels_first(sum_of, also_read=True)).changed
