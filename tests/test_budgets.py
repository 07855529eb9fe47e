"""Small files with large costs: beyond a budget they are passed through with a note, or refused in a sentence."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo.builder import ModelBuilder
from scripts.zoo.networks import temporal_network
from tests.drawing.raw_models import RawModel
from tests.told import told
from tflite_fuse.errors import LimitError, ModelError, RuntimeUnavailableError
from tflite_fuse.ir.program import MOST_PARTS
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model, Operator, OperatorCode, Quantization, Tensor
from tflite_fuse.model.types import BUILTIN_CODES, TensorType
from tflite_fuse.search.cut_graph import MOST_LAYERS, longest_block

ROOT = Path(__file__).resolve().parents[1]


def pools(height: int, width: int, count: int = 3, kernel: int = 3, stride: int = 1) -> Model:
    raw = RawModel()
    first = x = raw.tensor((1, height, width, 1))
    for _ in range(count):
        height, width = -(-height // stride), -(-width // stride)
        y = raw.tensor((1, height, width, 1))
        size = {"stride_w": stride, "stride_h": stride, "filter_width": kernel, "filter_height": kernel}
        raw.operator("MAX_POOL_2D", [x], [y], make_options("Pool2DOptions", padding=0, **size))
        x = y
    return raw.build([first], [x])


def convolutions(height: int, width: int, count: int) -> Model:
    raw = RawModel()
    first = x = raw.tensor((1, height, width, 1))
    for _ in range(count):
        weights, bias = (
            raw.constant(np.ones((1, 3, 3, 1), np.int8), [0.01]),
            raw.constant(np.zeros(1, np.int32), [0.005]),
        )
        y = raw.tensor((1, height, width, 1))
        options = make_options("Conv2DOptions", padding=0, stride_w=1, stride_h=1)
        raw.operator("CONV_2D", [x, weights, bias], [y], options)
        x = y
    return raw.build([first], [x])


def chain(count: int) -> Model:
    raw = RawModel()
    first = x = raw.tensor((1, 4, 4, 4))
    for _ in range(count):
        y = raw.tensor((1, 4, 4, 4))
        raw.operator("RELU", [x], [y], None)
        x = y
    return raw.build([first], [x])


def channels(count: int) -> Model:
    """A MEAN whose one row is longer than its input."""
    raw = RawModel()
    x, y = raw.tensor((1, 4, 4, 4)), raw.tensor((1, count))
    raw.operator("MEAN", [x, raw.constant(np.array([1, 2], np.int32))], [y], None)
    return raw.build([x], [y])


def flat(count: int) -> Model:
    """An activation over one row of so many channels."""
    raw = RawModel()
    x, y = raw.tensor((1, count)), raw.tensor((1, count))
    raw.operator("RELU", [x], [y], None)
    return raw.build([x], [y])


def stream_beside(count: int) -> Model:
    """A stream, and an activation of so many values that has nothing to do with it."""
    model = temporal_network((1,), 3, 4)
    quantization = Quantization(scale=(0.5,), zero_point=(0,))
    tensors = tuple(Tensor((1, count), TensorType.INT8, 0, name, quantization) for name in ("wide", "wider"))
    x = len(model.main.tensors)
    number = BUILTIN_CODES["RELU"]
    operator = Operator(len(model.operator_codes), (x,), (x + 1,))
    graph = replace(
        model.main,
        tensors=(*model.main.tensors, *tensors),
        inputs=(*model.main.inputs, x),
        outputs=(*model.main.outputs, x + 1),
        operators=(*model.main.operators, operator),
    )
    codes = (*model.operator_codes, OperatorCode(number, None, 1, number))
    return replace_main(replace(model, operator_codes=codes), graph)


def moved(name: str, source: tuple[int, ...], output: tuple[int, ...], operand: Sequence[int]) -> Model:
    raw = RawModel()
    x, y = raw.tensor(source), raw.tensor(output)
    raw.operator(
        name,
        [x, raw.constant(np.array(operand, np.int32))],
        [y],
        make_options("GatherOptions") if name == "GATHER" else None,
    )
    return raw.build([x], [y])


def reshapes(count: int) -> Model:
    raw = RawModel()
    first = x = raw.tensor((1, 64, 32, 16))
    for number in range(count):
        y = raw.tensor((1, 32, 64, 16) if number % 2 == 0 else (1, 64, 32, 16))
        raw.operator("RESHAPE", [x], [y], make_options("ReshapeOptions"))
        x = y
    return raw.build([first], [x])


HUGE = {
    "maps of two thousand million pixels": lambda: pools(65535, 30000),
    "maps of a thousand million pixels": lambda: convolutions(30000, 30000, 6),
    "windows of a million pixels": lambda: pools(4000, 4000, 4, 1000),
    "strides of a third of a map": lambda: pools(60000, 30000, 2, 3, 20000),
    "a row of 65,535 pixels": lambda: pools(1, 65535),
    "four hundred million channels of a mean": lambda: channels(400_000_000),
    "three hundred million channels": lambda: flat(300_000_000),
    "a stream beside three hundred million values": lambda: stream_beside(300_000_000),
    "repeats whose product is 2^64": lambda: moved("TILE", (1, 2, 2, 1), (1, 2, 2, 1), [1 << 16] * 4),
    "four million values gathered 300 times": lambda: moved("GATHER", (1, 2048, 2048), (300, 2048, 2048), [0] * 300),
}

LONG = {"two hundred copies of 32 KiB": lambda: reshapes(200), "a thousand": lambda: reshapes(1000)}
"""Models of tens of kilobytes: what each operator says adds up."""

BOUNDED = """
import resource, sys
import tflite_fuse, tflite_fuse.api
from tflite_fuse.runtime import tflm
from tests.told import told
tflm.available = lambda: False
limit, seconds = 1 << 30, 60
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + limit, used + limit))
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
result = tflite_fuse.rewrite(sys.stdin.buffer.read(), verify=False)
print(*result.report.notes, sep="\\n")
"""


@pytest.mark.parametrize("what", [*HUGE, *LONG])
def test_a_file_of_a_kilobyte_takes_no_gigabyte(what: str) -> None:
    data = serialize_model({**HUGE, **LONG}[what]())
    assert len(data) < (8000 if what in HUGE else 200_000)
    done = subprocess.run([sys.executable, "-c", BOUNDED], input=data, capture_output=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 1 << 21


def test_maps_beyond_the_budget_are_passed_through_with_the_reason() -> None:
    data = serialize_model(pools(65535, 30000))
    result = tflite_fuse.rewrite(data, verify=False)
    assert load_model(result.model) == load_model(data)
    rows = tflite_fuse.inspect(data).operators
    why = [str(each.details["why"]) for each in told(result.report.records, "not fused", "operator")]
    assert len(rows) == 3 and any("more than 1,048,576 pixels" in each for each in why)


def test_operators_beyond_the_budget_are_passed_through_with_a_note() -> None:
    data = serialize_model(chain(MOST_LAYERS + 1))
    result = tflite_fuse.rewrite(data, passes=("fuse",), verify=False)
    (given_up,) = told(result.report.records, "not fused", "budget")
    assert "up to 1,000 operators" in str(given_up.details["why"])
    with pytest.raises(LimitError, match="up to 1,000 operators"):
        tflite_fuse.pareto(data)


@pytest.mark.parametrize("size", [1, 8])
def test_strides_over_single_pixels_do_not_multiply(size: int) -> None:
    b = ModelBuilder(0, calibration=1)
    x = b.input((1, size, size, 2))
    for _ in range(80):
        x = b.conv(x, 2, 1, 2, "SAME")
    result = tflite_fuse.rewrite(serialize_model(b.build([x])), verify=False).report
    assert result.blocks and result.after.arena_bytes < result.before.arena_bytes


def test_more_operators_than_any_pair_of_them_can_be_looked_at_are_refused() -> None:
    data = serialize_model(chain(MOST_PARTS))
    with pytest.raises(ModelError, match="more than 8,192 operators or tensors"):
        tflite_fuse.inspect(data)


def test_the_longest_block_shrinks_where_there_are_many_operators() -> None:
    assert longest_block(245) * 245 <= 60_000 < 2 * 245 * longest_block(245)
    assert all(longest_block(count) >= count for count in range(1, 245))
    assert longest_block(MOST_LAYERS) == 60


def test_work_that_no_number_holds_is_passed_through() -> None:
    raw = RawModel()
    x, y = raw.tensor((1, 1, 1, 46000)), raw.tensor((1, 46000, 46000, 1))
    weights = raw.constant(np.ones((1, 1, 1, 46000), np.int8), [0.01])
    raw.operator("CONV_2D", [x, weights, -1], [y], make_options("Conv2DOptions", padding=0, stride_w=1, stride_h=1))
    for _ in range(90):
        z = raw.tensor((1, 46000, 46000, 1))
        raw.operator("CONV_2D", [y, weights, -1], [z], make_options("Conv2DOptions", padding=0, stride_w=1, stride_h=1))
        y = z
    result = tflite_fuse.rewrite(serialize_model(raw.build([x], [y])), passes=("fuse",), verify=False)
    why = [str(each.details["why"]) for each in told(result.report.records, "not fused", "budget")]
    assert any("more than the search can count" in each for each in why)


def test_without_a_compiler_a_rewrite_succeeds_and_names_the_parts_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("TFLITE_FUSE_CACHE", str(tmp_path))
    data = serialize_model(convolutions(16, 16, 3))
    result = tflite_fuse.rewrite(data)
    assert result.report.blocks and result.report.verified is None
    assert str(result.report.unverified).startswith("not possible on this machine: no working C compiler")
    with pytest.raises(RuntimeUnavailableError, match="no working C compiler"):
        tflite_fuse.rewrite(data, verify=True)


def test_the_report_marks_results_that_a_clock_limited() -> None:
    data = serialize_model(convolutions(16, 16, 4))
    assert tflite_fuse.rewrite(data, verify=False).report.reproducible
    hurried = tflite_fuse.rewrite(data, verify=False, time_limit=0.0).report
    assert hurried.to_json()["reproducible"] is False


def test_the_same_input_and_options_give_the_same_bytes() -> None:
    data = serialize_model(convolutions(20, 16, 5))
    assert tflite_fuse.rewrite(data, verify=False).model == tflite_fuse.rewrite(data, verify=False).model
