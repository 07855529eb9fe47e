"""Dilated convolutions written with wrong counts of batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from scripts.zoo.float_twin import float_twin
from tests.drawing.raw_models import RawModel, edgy_int8
from tests.runtime.small_models import run_in
from tests.told import told
from tflite_fuse import rewrite, verify
from tflite_fuse.errors import VerificationError
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.operators import get_options, make_options, operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.pipeline import prepared
from tflite_fuse.passes.preparing.dilate import Dilate
from tflite_fuse.runtime import litert, tflm


@dataclass(frozen=True)
class Dilated:
    """A dilated convolution of an image or a row of 4 channels.

    Attributes:
        image: its extent.
        kernel: rows and columns.
        dilation, padding, crops: along each axis of the image; crops are at the end.
        depthwise: whether each channel is convolved by itself.
    """

    image: tuple[int, ...]
    kernel: tuple[int, int]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    crops: tuple[int, ...]
    depthwise: bool = False


SAME = Dilated((7, 9), (3, 3), (2, 2), ((2, 2), (2, 2)), (1, 1))
PLAIN = Dilated((12, 10), (3, 2), (4, 2), ((0, 0), (0, 0)), (0, 0))
CAUSAL = Dilated((12,), (1, 3), (4,), ((8, 0),), (0,))
CASES = [
    pytest.param(SAME, id="same"),
    pytest.param(PLAIN, id="nothing padded or cropped"),
    pytest.param(CAUSAL, id="a row, causal"),
    pytest.param(Dilated((8, 6), (3, 3), (3, 3), ((3, 3), (3, 3)), (1, 0), True), id="depthwise"),
    pytest.param(Dilated((9, 11), (3, 2), (2, 3), ((0, 0), (0, 0)), (1, 1)), id="valid"),
    pytest.param(Dilated((8, 9), (2, 3), (4, 1), ((1, 3), (0, 2)), (0, 0)), id="its own padding"),
    pytest.param(Dilated((13,), (1, 5), (2,), ((4, 4),), (1,), True), id="a row, same"),
]


def in_batches(case: Dilated, *, counted: bool) -> Model:
    """It over batches; the file has their number if ``counted``, and else 1 as converters write."""
    image, kernel, dilation, depthwise = case.image, case.kernel, case.dilation, case.depthwise
    padding, crops = case.padding, case.crops
    raw, rng = RawModel(), np.random.default_rng(0)
    batches = int(np.prod(dilation)) if counted else 1
    axes = tuple(zip(image, dilation, padding, crops, kernel[-len(image) :], strict=True))
    pads = [(pad[0], pad[1] + crop) for _, _, pad, crop, _ in axes]
    small = tuple((size + sum(pad)) // step for (size, step, _, _, _), pad in zip(axes, pads, strict=True))
    made = tuple(size - each + 1 for size, each in zip(small, kernel[-len(image) :], strict=True))
    whole = tuple(size * step - crop for size, (_, step, _, crop, _) in zip(made, axes, strict=True))
    x = raw.tensor((1, *image, 4), 0.05, -3)
    split = raw.tensor((batches, *small, 4), 0.05, -3)
    blocks, amounts = raw.constant(np.array(dilation, np.int32)), raw.constant(np.array(pads, np.int32))
    raw.operator("SPACE_TO_BATCH_ND", [x, blocks, amounts], [split], None)
    ones = (1,) * (2 - len(image))
    read, out = raw.tensor((batches, *ones, *small, 4), 0.05, -3), 4 if depthwise else 5
    raw.operator("RESHAPE", [split, shape(raw, (batches, *ones, *small, 4))], [read], None)
    weights = edgy_int8(rng, (1, *kernel, 4) if depthwise else (out, *kernel, 4))
    convolved = raw.tensor((batches, *ones, *made, out), 0.4, 7)
    name, options = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
    more = {"depth_multiplier": 1} if depthwise else {}
    raw.operator(
        name,
        [
            read,
            raw.constant(weights, [0.02] * out, axis=3 if depthwise else 0),
            raw.constant(np.arange(out, dtype=np.int32), [0.001] * out),
        ],
        [convolved],
        make_options(options, padding=1, stride_w=1, stride_h=1, dilation_w_factor=1, dilation_h_factor=1, **more),
    )
    flat = raw.tensor((batches, *made, out), 0.4, 7)
    raw.operator("RESHAPE", [convolved, shape(raw, (batches, *made, out))], [flat], None)
    y = raw.tensor((1, *whole, out), 0.4, 7)
    cut = raw.constant(np.array([(0, crop) for crop in crops], np.int32))
    raw.operator("BATCH_TO_SPACE_ND", [flat, blocks, cut], [y], None)
    return raw.build([x], [y])


def shape(raw: RawModel, dims: tuple[int, ...]) -> int:
    return raw.constant(np.array(dims, np.int32))


def names(model: Model) -> list[str]:
    return [operator_name(model, operator) for operator in model.main.operators]


needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


@pytest.mark.skipif(not litert.available(), reason="LiteRT is not installed")
@pytest.mark.parametrize("case", CASES)
def test_it_computes_the_batches_that_the_file_declares(case: Dilated) -> None:
    """LiteRT pads batches with zeros; where there is no padding, TensorFlow Lite Micro says the same of them."""
    sound, broken = (in_batches(case, counted=counted) for counted in (True, False))
    result = Dilate().run(broken)
    assert result.changed
    assert not {"SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"} & set(names(result.model))
    inputs = [[edgy_int8(np.random.default_rng(seed), (1, *case.image, 4))] for seed in range(5)]
    padded = any(map(any, case.padding)) or any(case.crops)
    for runtime in (litert,) if padded or not tflm.available() else (litert, tflm):
        expected = run_in(runtime, serialize_model(sound), inputs)
        np.testing.assert_array_equal(run_in(runtime, serialize_model(result.model), inputs), expected)


@needs_tflm
def test_of_float32_batches_that_are_not_padded_are_computed_alike() -> None:
    case = PLAIN
    sound, broken = (float_twin(in_batches(case, counted=counted)) for counted in (True, False))
    result = Dilate().run(broken)
    assert not {"SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"} & set(names(result.model))
    inputs = [[np.random.default_rng(seed).normal(0, 1, (1, *case.image, 4)).astype(np.float32)] for seed in range(5)]
    expected, found = (tflm.run(serialize_model(model), inputs).outputs for model in (sound, result.model))
    assert [each[0].tobytes() for each in expected] == [each[0].tobytes() for each in found]


def test_padding_that_is_the_same_on_both_sides_needs_no_pad() -> None:
    model = Dilate().run(in_batches(SAME, counted=False)).model
    (convolution,) = [op for op in model.main.operators if operator_name(model, op) == "CONV_2D"]
    assert "PAD" not in names(model) and get_options(convolution)["padding"] == 0


def test_batches_that_are_counted_and_not_padded_stay_as_they_are() -> None:
    assert not Dilate().run(in_batches(PLAIN, counted=True)).changed
    padded = Dilate().run(in_batches(SAME, counted=True))
    assert padded.changed and "pad with a number" in str(padded.notes[0].details["fault"])


@needs_tflm
@pytest.mark.parametrize("passes", [("fuse", "plan"), ("reorder", "plan")])
def test_a_rewrite_names_the_model_it_compares_with(passes: tuple[str, ...]) -> None:
    model = in_batches(CAUSAL, counted=False)
    file = serialize_model(model)
    report = (result := rewrite(file, inputs=2, passes=passes)).report
    assert report.verified is None and "leave the others unwritten" in (report.unverified or "")
    assert any("leave the others unwritten" in note for note in report.proven.notes)
    assert told(report.records, "run", "stands for")
    compared = verify(file, result.model, inputs=2)
    assert compared.inputs == 0 and compared.not_run == "the runtime leaves bytes of the original undefined"
    assert compared.certificate is not None
    assert any("leave the others unwritten" in note for note in compared.certificate.notes)
    with pytest.raises(VerificationError, match="it cannot be verified: the runtime leaves bytes"):
        rewrite(file, inputs=2, passes=passes, verify=True)
    assert "BATCH_TO_SPACE_ND" not in names(load_model(result.model)) + names(prepared(model))
