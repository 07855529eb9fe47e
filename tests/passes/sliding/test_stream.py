"""Models over a window as streams: equal to the window's model in TFLM, call by call."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.zoo import ModelBuilder
from scripts.zoo.networks import keyword_network, one_dimensional_network, temporal_network
from tests.told import told
from tflite_fuse.api import pareto, rewrite, verify
from tflite_fuse.emit.stream_time import STREAM_METADATA, stream_time
from tflite_fuse.errors import LimitError, ModelError, UsageError, VerificationError
from tflite_fuse.model import Model, load_model
from tflite_fuse.model.edit import set_metadata
from tflite_fuse.model.file import serialize_model
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import Hop
from tflite_fuse.passes.sliding.stream import to_stream
from tflite_fuse.report.report import StreamReport
from tflite_fuse.runtime.comparing.over_time import compare_over_time


def streamed(
    model: Model, hop: int, axis: str | None = None, *, may_be_constant: bool = False
) -> tuple[bytes, StreamReport]:
    """The stream, compared with the window's model over time, and what is told of it."""
    data = serialize_model(model)
    result = rewrite(data, stream_time=hop, stream_axis=axis, verify=False)
    assert result.report.stream is not None
    loaded = load_model(result.model)
    told = stream_time(loaded)
    found = compare_over_time((data, result.model), (model, loaded), stream=told, calls=24)
    assert found.first_difference is None, str(found.first_difference)
    assert found.varied or may_be_constant
    return result.model, result.report.stream


@pytest.mark.parametrize("hop", [1, 2, 3])
def test_windows_that_stay_inside_are_computed_once(hop: int) -> None:
    _, told = streamed(keyword_network(25, 6, 8, 2, 4), hop)
    assert told.macs_of_call < 0.6 * told.macs_of_window
    assert told.valid_after == -(-25 // hop)


def test_the_state_of_dilated_convolutions_is_their_receptive_field() -> None:
    dilations, channels, hop = (1, 2, 4, 8), 8, 1
    _, told = streamed(temporal_network(dilations, 3, channels), hop)
    least = sum((2 * dilation + hop) * channels for dilation in dilations)
    assert least <= told.state_bytes <= 1.2 * least  # each ring has a number of four bytes
    assert told.macs_of_call * 8 < told.macs_of_window


@pytest.mark.parametrize("hop", [1, 2])
@pytest.mark.parametrize("along_rows", [False, True])
def test_rows_at_the_edges_are_computed_again_and_residuals_meet(hop: int, along_rows: bool) -> None:
    streamed(one_dimensional_network(40, 4, 1, 3, along_rows), hop)


def test_steps_of_one_value_that_become_channels_are_looked_at_all_at_once() -> None:
    b = ModelBuilder(0, calibration=2)
    x = b.conv(b.input((1, 20, 1, 1)), 1, (3, 1), padding="VALID")
    _, told = streamed(b.build([b.fully_connected(b.reshape(x, (1, 18)), 3)]), 2)
    assert told.macs_of_call < told.macs_of_window


@st.composite
def windows(draw: st.DrawFn) -> Model:
    """Convolutions, pools, residuals over time, padded or not, strided or dilated."""
    b = ModelBuilder(draw(st.integers(0, 1000)), calibration=2)
    steps, wide = draw(st.integers(15, 30)), draw(st.sampled_from([1, 1, 4]))
    x = b.input((1, steps, wide, draw(st.sampled_from([1, 3]))))
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["conv", "conv", "depthwise", "residual", "max", "average"]))
        taps = (draw(st.integers(1, 4)), draw(st.integers(1, min(3, x.shape[2]))))
        stride = draw(st.sampled_from([1, 1, 2, 3]))
        padding = draw(st.sampled_from(["SAME", "VALID", "VALID"]))
        dilation = draw(st.sampled_from([1, 1, 2])) if stride == 1 else 1
        if x.shape[1] < 3 + dilation * taps[0] * stride:
            break
        if kind == "conv":
            x = b.conv(x, 4, taps, (stride, 1), padding, "RELU", dilation=(dilation, 1))
        elif kind == "depthwise":
            x = b.depthwise(x, taps, stride if x.shape[2] > 3 else 1, padding)
        elif kind == "residual":
            x = b.add(x, b.conv(x, x.shape[3], (3, 1), 1, "SAME"), "RELU")
        elif kind == "max":
            x = b.max_pool(x, (2, 1), (stride, 1), padding)
        else:
            x = b.average_pool(x, (2, 1), (stride, 1), "VALID")
    end = draw(st.sampled_from(["mean", "flat", "steps"]))
    if end == "steps":
        return b.build([x])
    flat = b.mean(x) if end == "mean" else b.reshape(x, (1, x.shape[1] * x.shape[2] * x.shape[3]))
    return b.build([b.fully_connected(flat, 3)])


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(model=windows(), hop=st.integers(1, 4))
def test_a_stream_of_any_window_computes_its_bytes_or_has_a_reason(model: Model, hop: int) -> None:
    try:
        to_stream(model, Hop(hop))
    except (LimitError, UsageError) as error:
        assert str(error)
        return
    streamed(model, hop, may_be_constant=True)  # one channel whose weights are negative ends at zero after a ReLU


def test_a_stream_names_its_window_for_verify() -> None:
    model = keyword_network(25, 6, 8, 1, 4)
    data = serialize_model(model)
    stream, _ = streamed(model, 2)
    found = verify(data, stream, seed=0)
    assert found.fault is None and found.certificate is not None and found.certificate.proven
    assert load_model(stream).main.tensors[load_model(stream).main.inputs[0]].dims == (1, 2, 6, 1)
    other = serialize_model(keyword_network(25, 6, 8, 1, 4, seed=1))
    assert verify(other, stream, seed=0).fault is not None
    with pytest.raises((VerificationError, UsageError, LimitError)):
        verify(serialize_model(keyword_network(23, 6, 8, 1, 4)), stream)


def dense(rows: int = 10) -> Model:
    b = ModelBuilder()
    return b.build([b.fully_connected(b.reshape(b.input((1, rows, 4, 1)), (1, 4 * rows)), 3)])


@pytest.mark.parametrize(
    ("model", "hop", "axis", "why"),
    [
        (keyword_network(25, 6, 4, 1, 2), 25, None, "a hop of 25 is not within 1...24"),
        (keyword_network(25, 6, 4, 1, 2), 2, "width", "steps must be contiguous"),
        (dense(1), 1, "height", "its window has one step"),
        (dense(), 1, None, "RESHAPE_0 and what follows it look at the whole window"),
    ],
)
def test_models_without_a_stream_have_a_reason(model: Model, hop: int, axis: str | None, why: str) -> None:
    with pytest.raises((LimitError, UsageError), match=why):
        to_stream(model, Hop(hop, axis))


def strided(rows: int) -> Model:
    """Windows of four steps, one every four."""
    b = ModelBuilder(0, calibration=2)
    x = b.conv(b.input((1, 4 * rows, 1, 3)), 2, (4, 1), (4, 1), "VALID")
    return b.build([b.fully_connected(b.reshape(x, (1, 2 * rows)), 3)])


def test_where_strides_are_in_the_way_hops_that_work_are_named_and_do() -> None:
    for rows, hop, named in ((2, 3, "hops that are 4 share some; hops that work: 4"), (3, 5, "hops that work: 4, 8")):
        with pytest.raises(LimitError, match=named):
            to_stream(strided(rows), Hop(hop))
        for works in re.findall(r"\d+", named.rpartition(": ")[2]):
            assert to_stream(strided(rows), Hop(int(works))).time.hop == int(works)


def test_a_stream_is_made_once_and_of_unfused_models() -> None:
    model = keyword_network(25, 6, 4, 1, 2)
    made = to_stream(model, Hop(2)).model
    with pytest.raises(LimitError, match="it is a stream already"):
        to_stream(made, Hop(1))
    fused = load_model(rewrite(serialize_model(model), verify=False).model)
    with pytest.raises(LimitError, match="is a fused block; give the model it was made of"):
        to_stream(fused, Hop(1))


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"version":1,"hop":0,"window":9,"axis":1,"each":1}', b"\xff"])
def test_damaged_words_about_the_window_are_refused(data: bytes) -> None:
    with pytest.raises(ModelError, match="is damaged or of a newer version"):
        stream_time(set_metadata(keyword_network(25, 6, 4, 1, 2), STREAM_METADATA, data))


def test_hops_and_axes_are_checked_where_they_enter() -> None:
    for steps, axis in ((0, None), (1, "depth")):
        with pytest.raises(UsageError):
            replace(Hop(1), steps=steps, axis=axis)
    with pytest.raises(UsageError, match="stream_axis needs stream_time"):
        rewrite(serialize_model(dense()), stream_axis="height")


@pytest.mark.parametrize("cost", ["macs", "instructions"])
def test_the_front_of_a_stream_is_beside_the_window_and_counts_the_state(cost: str) -> None:
    data = serialize_model(keyword_network(25, 6, 8, 2, 4))
    made, front = rewrite(data, stream_time=2, verify=False).report, pareto(data, stream_time=2, cost=cost)
    least = rewrite(data, stream_time=2, verify=False, goal=Goal(least_ram=True)).report
    assert made.stream is not None and least.stream is not None
    assert front.state_bytes == least.stream.state_bytes <= made.stream.state_bytes
    assert front.rows[-1].ram_bytes < front.unfused_ram_bytes <= made.before.arena_bytes  # planned
    assert cost != "macs" or front.unfused_work == made.before.macs
    loading = [int(str(note.details["loading_bytes"])) for note in told(made.records, "warned", "loading")]
    assert front.state_bytes < front.rows[0].ram_bytes <= max(made.after.arena_bytes, *loading, 0)
    assert all(row.compute_factor < 1 for row in front.rows) and "least RAM" in front.rows[0].marks


def test_a_rewrite_reaches_both_ends_of_a_streams_front() -> None:
    """A padded model, so that its front has more than one point; estimates know of the state."""
    b = ModelBuilder(0, calibration=2)
    x = b.conv(b.input((1, 16, 4, 1)), 8, (4, 3), (2, 2), "SAME", "RELU")
    x = b.conv(b.depthwise(x, (3, 3), 1, "SAME"), 8, (1, 1), 1, "SAME", "RELU")
    data = serialize_model(b.build([b.fully_connected(b.mean(x), 3)]))
    front = pareto(data, stream_time=2, cost="instructions")
    assert len(front.rows) > 1
    for row in (front.rows[0], front.rows[-1]):
        report = rewrite(data, stream_time=2, goal=Goal(max_ram=row.ram_bytes), verify=False).report
        assert report.after.arena_bytes <= row.ram_bytes
        assert report.estimate_bytes is not None
        assert abs(report.estimate_bytes - report.after.arena_bytes) < front.state_bytes / 2
