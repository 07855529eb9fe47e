"""Maps one pixel wide as rows: which models, and that the bytes stay."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tflite_fuse
from scripts.zoo import networks
from scripts.zoo.builder import ModelBuilder
from scripts.zoo.float_twin import float_twin
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.emit.outside import lowerings_for
from tflite_fuse.ir.block import Storage
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.outside import InputMode
from tflite_fuse.ops.lowering.lie_down import lie_down
from tflite_fuse.ops.lowering.lower import lower_model
from tflite_fuse.runtime import tflm


def column(length: int = 32, dilation: int = 1) -> Model:
    """A convolution and a depthwise one along a column."""
    b = ModelBuilder(1)
    x = b.conv(b.input((1, length, 1, 4)), 8, (3, 1))
    return b.build([b.depthwise(x, (3, 1), dilation=(dilation, 1))])


def signal(length: int = 48) -> Model:
    """Convolutions along a row with pools along a column between them, as Keras exports Conv1D and MaxPooling1D."""
    b = ModelBuilder(1)
    x = b.reshape(b.input((1, length, 4)), (1, 1, length, 4))
    for channels in (8, 16):
        x = b.conv(x, channels, (1, 3))
        x = b.max_pool(b.reshape(x, (1, length, 1, channels)), (2, 1), (2, 1))
        length //= 2
        x = b.reshape(x, (1, 1, length, channels))
    return b.build([b.fully_connected(x, 3)])


def windows(model: Model, mode: InputMode = InputMode.RESIDENT) -> list[tuple[tuple[int, int, int], tuple[int, int]]]:
    lowered = [each for each in lowerings_for(model, mode) if not isinstance(each, str) and each.stage is not None]
    return [(each.output_shape, each.stage.kernel_size) for each in lowered if each.stage is not None]


def test_a_column_becomes_a_row() -> None:
    assert windows(column()) == [((1, 32, 8), (1, 3))] * 2


def test_pixels_that_an_application_hands_out_keep_their_rows() -> None:
    assert windows(column(), InputMode.STREAMED) == [((32, 1, 8), (3, 1))] * 2


def test_windows_with_many_pixels_between_their_taps_keep_their_columns() -> None:
    assert windows(column(length=128, dilation=40)) == [((128, 1, 8), (3, 1))] * 2


def test_a_model_with_a_wider_map_stays_as_it_is() -> None:
    lowerings = lower_model(networks.inverted_residual_network(size=8, blocks=1))
    assert lie_down(lowerings) is lowerings


@pytest.mark.parametrize("mode", [InputMode.RESIDENT, InputMode.STREAMED])
def test_pools_along_a_column_between_rows_become_rows(mode: InputMode) -> None:
    model = signal()
    shapes = [((1, 48, 8), (1, 3)), ((1, 24, 8), (1, 2)), ((1, 24, 16), (1, 3)), ((1, 12, 16), (1, 2))]
    assert windows(model, mode)[:4] == shapes


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("mode", [InputMode.RESIDENT, InputMode.STREAMED, InputMode.EXTERNAL])
@pytest.mark.parametrize("real", [False, True])
def test_a_signal_along_both_axes_is_never_whole(real: bool, mode: InputMode) -> None:
    model = float_twin(signal()) if real else signal()
    written = load_model(tflite_fuse.rewrite(serialize_model(model), input_mode=mode).model)
    assert {operator_name(written, each) for each in written.main.operators} == {"CUSTOM:TFLITE_FUSE"}
    tensors = [t for found in blocks_in(written).values() for t in found.block.tensors]
    assert {tensor.height for tensor in tensors} == {1} and max(tensor.pixels for tensor in tensors) == 48
    whole = max(t.pixels * t.channels for t in tensors if t.storage is Storage.OUTPUT)
    assert whole <= 24 * 8  # half of what the first convolution makes


LAYERS = ("conv", "depthwise", "max pool", "average pool", "pad", "branch")


@st.composite
def signals(draw: st.DrawFn) -> Model:
    """Layers along a signal, each of which may lie along the width or the height."""
    b = ModelBuilder(draw(st.integers(0, 9)))
    length, channels = draw(st.integers(12, 40)), draw(st.integers(1, 5))
    x = b.input(draw(st.sampled_from([(1, length, channels), (1, 1, length, channels), (1, length, 1, channels)])))
    for name in draw(st.lists(st.sampled_from(LAYERS), min_size=1, max_size=5)):
        by_row, size, step = draw(st.booleans()), draw(st.integers(1, 3)), draw(st.integers(1, 2))
        x = b.reshape(x, (1, 1, length, channels) if by_row else (1, length, 1, channels))
        size = min(size, length)  # pools have no padding
        kernel, stride = ((1, size), (1, step)) if by_row else ((size, 1), (step, 1))
        if name == "conv":
            x = b.conv(x, draw(st.integers(1, 6)), kernel, stride)
        elif name == "depthwise":
            x = b.depthwise(x, kernel, stride)
        elif name == "pad":
            x = b.pad(x, (0, 0, 1, size) if by_row else (1, size, 0, 0))
        elif name == "branch":
            x = b.add(b.conv(x, channels, kernel), x)
        else:
            x = (b.max_pool if name == "max pool" else b.average_pool)(x, kernel, stride)
        length, channels = max(x.shape[1:3]), x.shape[3]
    return b.build([b.fully_connected(x, 3)])


@pytest.mark.slow
@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(signals(), st.booleans(), st.sampled_from(["resident", "streamed", "external"]))
def test_any_mixture_of_rows_and_columns_is_proven_and_computes_the_same(model: Model, real: bool, mode: str) -> None:
    report = tflite_fuse.rewrite(serialize_model(float_twin(model) if real else model), input_mode=mode).report
    assert report.proven.blocks and report.proven.notes == ()


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("real", [False, True])
def test_rewrites_of_columns_are_proven_and_compute_the_same(real: bool) -> None:
    model = networks.one_dimensional_network(length=48, along_rows=True)
    data = serialize_model(float_twin(model) if real else model)
    result = tflite_fuse.rewrite(data)  # raises where the proof or a run finds a difference
    tensors = [t for found in blocks_in(load_model(result.model)).values() for t in found.block.tensors]
    assert max(tensor.width for tensor in tensors) == 48 and {tensor.height for tensor in tensors} == {1}
