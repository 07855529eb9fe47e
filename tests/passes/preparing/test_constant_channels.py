"""Constant or unread channels are left out: bytes stay, and the proof detects a change by one."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, assume, given, settings

from scripts.zoo.float_twin import float_twin
from scripts.zoo.networks import inverted_residual_network
from tests.check.mutants import mutants, outcome
from tests.conftest import shared_models
from tests.drawing.raw_models import SAME, VALID, RawModel
from tests.passes.preparing.chains_of_zeros import PARTS, chain, chains
from tests.told import told
from tflite_fuse.api import rewrite
from tflite_fuse.check import correspondence, validate
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import note
from tflite_fuse.passes.preparing.constant_channels import MULTIPLE, ConstantChannels
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def images_of(model: Model) -> list[list[npt.NDArray[np.int8]]]:
    dims = model.main.tensors[model.main.inputs[0]].dims
    drawn = [[np.random.default_rng(seed).integers(-128, 128, dims).astype(np.int8)] for seed in range(3)]
    return [*drawn, *([np.full(dims, end, np.int8)] for end in (-128, 127))]


@needs_tflm
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(chains)
def test_bytes_stay_and_are_proven(model: Model) -> None:
    result = ConstantChannels().run(model)
    assume(result.changed)
    certificate = validate(model, result.witnessed)
    assert certificate.proven, certificate.findings[0]
    outputs = [tflm.run(serialize_model(each), images_of(model)).outputs for each in (model, result.model)]
    for before, after in zip(*outputs, strict=True):
        np.testing.assert_array_equal(before, after)


@needs_tflm
@pytest.mark.parametrize("seed", range(12))
def test_whole_rewrites_are_proven_and_equal(seed: int) -> None:
    randomness = random.Random(seed)
    model = chain(seed, [randomness.choice(PARTS) for _ in range(6)])
    report = rewrite(serialize_model(model), verify=True, inputs=4).report
    assert report.verified is not None
    assert report.verified.bit_exact


def one_more(model: Model, tensor: int, place: int) -> Model:
    """A model with one number of a constant one larger, or less where that would leave it its value."""
    buffers, buffer = list(model.buffers), model.main.tensors[tensor].buffer
    values = np.frombuffer(buffers[buffer].data or b"", TensorType(model.main.tensors[tensor].type).name.lower()).copy()
    values[place] += 1 if values[place] < np.iinfo(values.dtype).max else -1
    buffers[buffer] = replace(buffers[buffer], data=values.tobytes())
    return replace(model, buffers=tuple(buffers))


@pytest.mark.parametrize("seed", range(10))
def test_a_weight_or_bias_changed_by_one_is_not_proven(seed: int) -> None:
    randomness = random.Random(seed)
    model = chain(seed, ["same", "depth", *(randomness.choice(PARTS) for _ in range(3)), "point", "point"])
    narrow = ConstantChannels().run(model).witnessed
    assert validate(model, narrow).proven
    weighted = [operator.inputs or () for operator in narrow.main.operators if len(operator.inputs or ()) == 3]
    for tensor in {t for inputs in weighted for t in inputs[1:] if t >= 0}:
        count = int(np.prod(narrow.main.tensors[tensor].dims))
        for place in randomness.sample(range(count), min(3, count)):
            assert not validate(model, one_more(narrow, tensor, place)).proven


@pytest.mark.parametrize("seed", range(4))
def test_no_change_of_a_block_is_missed(seed: int) -> None:
    data = serialize_model(chain(seed, ["point", "depth", "point", "depth", "point", "point"]))
    model, after = load_model(data), load_model(rewrite(data, verify=False).model)
    whole = validate(model, after)
    assert whole.proven
    for mutant in mutants(after, random.Random(seed), 40):
        assert outcome(model, whole, mutant) != "missed", (mutant.what, mutant.place)


def folded(padding: int, point: int, bias: int = 0) -> Model:
    """A convolution whose filters are zeros but for the first four, each channel its bias, then one that reads it."""
    raw = RawModel()
    x = raw.tensor((1, 5, 5, 3), 0.05, 3)
    weights = np.random.default_rng(1).integers(-9, 10, (12, 1, 1, 3)).astype(np.int8)
    weights[4:] = 0
    options = {"stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1}
    middle = raw.tensor((1, 5, 5, 12), 0.05, point)
    biases = raw.constant(np.full(12, 4000, np.int32), [0.001])
    raw.operator(
        "CONV_2D", [x, raw.constant(weights, [0.02]), biases], [middle],
        make_options("Conv2DOptions", padding=VALID, **options),
    )  # fmt: skip
    side = 5 if padding == SAME else 3
    y = raw.tensor((1, side, side, 6), 0.4, -7)
    second = np.random.default_rng(2).integers(1, 50, (6, 3, 3, 12)).astype(np.int8)
    biases = raw.constant(np.full(6, bias, np.int32), [0.001])
    raw.operator(
        "CONV_2D", [middle, raw.constant(second, [0.02]), biases], [y],
        make_options("Conv2DOptions", padding=padding, **options),
    )  # fmt: skip
    return raw.build([x], [y])


@needs_tflm
def test_a_constant_moves_into_the_bias() -> None:
    model = folded(VALID, -128)
    result = ConstantChannels().run(model)
    middle = result.model.main.tensors[(result.model.main.operators[0].outputs or ())[0]]
    assert middle.dims == (1, 5, 5, 4)
    outputs = [tflm.run(serialize_model(each), images_of(model)).outputs for each in (model, result.model)]
    np.testing.assert_array_equal(*outputs)
    assert result.notes == (note("removed", "channels", count=8, channels=18),)


def test_a_constant_stays_where_windows_see_beyond_the_edge() -> None:
    assert not ConstantChannels().run(folded(SAME, -128)).changed
    assert not validate(folded(SAME, -128), ConstantChannels().run(folded(VALID, -128)).witnessed).proven


def test_a_constant_stays_where_sums_may_leave_32_bits() -> None:
    assert not ConstantChannels().run(folded(VALID, -128, bias=2**31 - 1)).changed


def test_channels_left_out_must_have_their_recorded_constants() -> None:
    """The narrow model is refused beside an original in which one of the zeros is none."""
    model = folded(VALID, -128)
    narrow = ConstantChannels().run(model).witnessed
    weights = (model.main.operators[0].inputs or ())[1]
    assert validate(model, narrow).proven
    assert not validate(one_more(model, weights, 3 * 11), narrow).proven


def test_multiples_of_four_stay() -> None:
    for seed in range(20):
        model = chain(seed, ["point", "depth", "point", "point"])
        result = ConstantChannels().run(model)
        before = {tensor.name: tensor.dims for tensor in model.main.tensors}
        for tensor in result.model.main.tensors:
            narrowed = len(tensor.dims) == 4 and not result.model.buffers[tensor.buffer].data
            if narrowed and tensor.dims != before[tensor.name]:
                assert tensor.dims[-1] % MULTIPLE == 0


def test_models_without_stay_the_very_same() -> None:
    model = inverted_residual_network(24, blocks=2)
    result = ConstantChannels().run(model)
    assert result.model is model
    assert not result.notes


def test_channels_of_floats_stay() -> None:
    """Also those without a reader: weights of four bytes are not cut like int8's."""
    raw = RawModel()
    x, unread, y = (raw.tensor((1, 4, 4, 5), 0.05, 0) for _ in range(3))
    weights = np.ones((5, 1, 1, 5), np.int8)
    options = {"stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1}
    for output in (unread, y):
        operands = [x, raw.constant(weights, [0.02]), raw.constant(np.zeros(5, np.int32), [0.001])]
        raw.operator("CONV_2D", operands, [output], make_options("Conv2DOptions", padding=VALID, **options))
    for model in (float_twin(folded(VALID, -128)), float_twin(raw.build([x], [y]))):
        assert ConstantChannels().run(model).model is model


def test_channels_stay_where_other_readers_disagree() -> None:
    model = folded(VALID, -128)
    result = ConstantChannels(lambda before, after: False).run(model)
    assert result.model is model
    assert result.notes == (note("kept", "channels", count=8),)


def test_a_rewrite_goes_on_without_unproven_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correspondence, "add_narrower", lambda original, kept: None)
    report = rewrite(serialize_model(folded(VALID, -128)), verify=False).report
    assert told(report.records, "kept", "channels")
    assert report.proven.blocks == len(report.blocks)


@needs_tflm
def test_tensors_not_compared_by_themselves_are_reported() -> None:
    report = rewrite(serialize_model(folded(VALID, -128)), verify=True, inputs=3).report
    said = note("run", "fewer channels", count=1)
    assert (said in report.records) == bool(report.blocks)
    assert report.blocks


def test_inputs_and_outputs_stay() -> None:
    model = folded(VALID, -128)
    also_read = replace_main(
        model, replace(model.main, outputs=(*model.main.outputs, (model.main.operators[0].outputs or ())[0]))
    )
    assert not ConstantChannels().run(also_read).changed


@shared_models("mlperf_tiny_vww96_int8")
def test_a_public_model_loses_most_of_its_weights(path: Path) -> None:
    result = rewrite(path, verify=False)
    assert 2 * result.report.after.macs < 1.1 * result.report.before.macs
    assert len(result.model) < len(path.read_bytes()) // 4
    assert told(result.report.records, "removed", "channels")
