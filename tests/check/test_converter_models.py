"""Models in the forms of converters: each is proven with all fusable operators in blocks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

import tflite_fuse
from tests.drawing.converter_models import converter_model
from tests.drawing.raw_models import SAME, RawModel
from tflite_fuse.check import validate
from tflite_fuse.check.original import meanings
from tflite_fuse.errors import LimitError
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model

OUTSIDE = "could not be proven"


def notes_of(model: Model, **options: str) -> tuple[str, ...]:
    """Of a rewrite that is proven."""
    data = serialize_model(model)
    found = tflite_fuse.rewrite(data, verify=False, **options)
    assert validate(data, found.model).proven
    assert found.report.blocks
    return found.report.notes


def assert_proven_in_blocks(model: Model, **options: str) -> None:
    assert not [note for note in notes_of(model, **options) if OUTSIDE in note]


@pytest.mark.parametrize("number", range(30))
def test_models_of_converters_are_proven(number: int) -> None:
    rng = Random(number)
    model = converter_model(rng.randint)
    data = serialize_model(model)
    try:
        found = tflite_fuse.rewrite(data, verify=False, input_mode=rng.choice(("resident", "external")))
    except LimitError:
        return
    assert not [note for note in found.report.notes if OUTSIDE in note]


def _convolution(model: RawModel, source: int, shape: tuple[int, ...], kernel: tuple[int, int]) -> int:
    channels, depth = shape[-1], model.tensors[source].dims[-1]
    weights = model.constant(np.arange(channels * kernel[0] * kernel[1] * depth, dtype=np.int8).reshape(
        channels, *kernel, depth), (1 / 64,))  # fmt: skip
    output = model.tensor(shape)
    bias = model.constant(np.zeros(channels, np.int32), (1 / 128,))
    options = make_options(
        "Conv2DOptions", padding=SAME, stride_h=1, stride_w=1, dilation_h_factor=1, dilation_w_factor=1
    )
    model.operator("CONV_2D", [source, weights, bias], [output], options)
    return output


@pytest.mark.parametrize(
    ("dims", "order"),
    [((1, 1, 9, 4), (0, 1, 3, 2)), ((1, 9, 1, 4), (0, 3, 2, 1)), ((1, 5, 4, 1), (0, 3, 2, 1)),
     ((1, 3, 5, 4), (0, 2, 3, 1))],
)  # fmt: skip
def test_a_transpose_to_channels_last_is_proven_wherever_axes_of_length_one_stand(
    dims: tuple[int, ...], order: tuple[int, ...]
) -> None:
    model = RawModel()
    source = model.tensor(dims)
    moved = model.tensor([dims[axis] for axis in order])
    model.operator("TRANSPOSE", [source, model.constant(np.array(order, np.int32))], [moved], None)
    shape = (*model.tensors[moved].dims[:3], 8)
    assert_proven_in_blocks(model.build([source], [_convolution(model, moved, shape, (1, 1))]))


def test_an_external_input_is_proven_that_is_read_flat_and_as_an_image() -> None:
    model = RawModel()
    source, row, image = model.tensor((3, 1, 9, 8)), model.tensor((3, 5)), model.tensor((3, 1, 9, 8))
    weights = model.constant(np.ones((5, 72), np.int8), (1 / 64,))
    options = make_options("FullyConnectedOptions")
    flat = model.tensor((3, 72))
    shape = model.constant(np.array((3, 72), np.int32))
    model.operator("RESHAPE", [source, shape], [flat], make_options("ReshapeOptions", new_shape=(3, 72)))
    model.operator("FULLY_CONNECTED", [flat, weights, -1], [row], options)
    factors = model.constant(np.arange(8, dtype=np.int8), (1 / 64,))
    model.operator("MUL", [source, factors], [image], make_options("MulOptions"))
    assert_proven_in_blocks(model.build([source], [row, image]), input_mode="external")


def test_the_last_step_of_a_sequence_is_proven_though_its_axis_is_dropped() -> None:
    model = RawModel()
    source = model.tensor((1, 1, 12, 4))
    made = _convolution(model, source, (1, 1, 12, 4), (1, 3))
    rows, last = model.tensor((1, 12, 4)), model.tensor((1, 4))
    shape = model.constant(np.array((1, 12, 4), np.int32))
    model.operator("RESHAPE", [made, shape], [rows], make_options("ReshapeOptions", new_shape=(1, 12, 4)))
    numbers = [model.constant(np.array(each, np.int32)) for each in ([0, -1, 0], [0, 0, 0], [1, 1, 1])]
    options = make_options("StridedSliceOptions", begin_mask=5, end_mask=5, shrink_axis_mask=2)
    model.operator("STRIDED_SLICE", [rows, *numbers], [last], options)
    assert_proven_in_blocks(model.build([source], [last]))


def _constants_joined(order: tuple[int, int], scales: tuple[float, float]) -> Model:
    """A constant is quantized for each of two joints, which read the results in an order."""
    model = RawModel()
    source = model.tensor((1, 6, 6, 4))
    table = model.constant(np.arange(72, dtype=np.int8).reshape(1, 6, 6, 2), (1 / 64,))
    quantized = [model.tensor((1, 6, 6, 2), scale) for scale in scales]
    joined = [model.tensor((1, 6, 6, 6)) for _ in scales]
    for each in quantized:
        model.operator("QUANTIZE", [table], [each], None)
    for which, output in zip(order, joined, strict=True):
        model.operator(
            "CONCATENATION", [source, quantized[which]], [output], make_options("ConcatenationOptions", axis=3)
        )
    return model.build([source], joined)


def test_a_constant_quantized_for_each_reader_may_be_read_in_any_order() -> None:
    alike, other = (0.5, 0.5), (0.5, 0.25)
    assert validate(_constants_joined((0, 1), alike), _constants_joined((1, 0), alike)).proven
    assert validate(_constants_joined((0, 1), other), _constants_joined((0, 1), other)).proven
    assert not validate(_constants_joined((0, 1), other), _constants_joined((1, 0), other)).proven


def _chain() -> Model:
    model = RawModel()
    source = model.tensor((1, 8, 8, 4))
    first = _convolution(model, source, (1, 8, 8, 8), (3, 3))
    pooled = model.tensor((1, 4, 4, 8))
    options = make_options("Pool2DOptions", padding=0, stride_h=2, stride_w=2, filter_height=2, filter_width=2)
    model.operator("MAX_POOL_2D", [first], [pooled], options)
    return model.build([source], [_convolution(model, pooled, (1, 4, 4, 4), (1, 1))])


def test_an_operator_without_a_rule_is_left_out_of_blocks_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(meanings.RULES, "MAX_POOL_2D")
    left_out = [note for note in notes_of(_chain()) if OUTSIDE in note and "report" in note]
    assert len(left_out) == 1
    assert "MAX_POOL_2D_1" in left_out[0]


def test_a_model_whose_blocks_have_no_rules_is_rewritten_without_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_rules(monkeypatch.delitem)
    data = serialize_model(_chain())
    found = tflite_fuse.rewrite(data, verify=False)
    assert not found.report.blocks
    assert [note for note in found.report.notes if "report" in note]
    assert validate(load_model(data), load_model(found.model)).proven


def _without_rules(delete: Callable[..., None]) -> None:
    for name in tuple(meanings.RULES):
        delete(meanings.RULES, name)
