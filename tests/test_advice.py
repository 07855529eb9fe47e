"""Advice on other options: measured, worthwhile and true."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo import ModelBuilder
from scripts.zoo.networks import inverted_residual_network, pyramid_network
from tests.float_models import with_float_borders
from tests.uint8_models import with_uint8_borders
from tflite_fuse import Goal, LimitError
from tflite_fuse.cli import app
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Operator, OperatorCode, Tensor
from tflite_fuse.model.types import BUILTIN_CODES, TensorType
from tflite_fuse.passes.base import PassResult
from tflite_fuse.report.sentences import headline
from tflite_fuse.rewriting.advice import MOST_OPERATORS

FLAGS = {
    "--int8-io": {"int8_io": True},
    "--input streamed": {"input_mode": "streamed"},
    "--int8-io --input streamed": {"int8_io": True, "input_mode": "streamed"},
}
OFFER = re.compile(r"with (--[^:]+): ([\d,]+) B")


def network() -> Model:
    """Its picture is large enough that streaming it is worth a line: 15 percent of the arena."""
    return inverted_residual_network(size=32, blocks=2)


def offered(lines: tuple[str, ...]) -> dict[str, int]:
    return {option: int(number.replace(",", "")) for line in lines for option, number in OFFER.findall(line)}


@pytest.mark.parametrize("kind", ["int8", "uint8", "float32"])
def test_an_option_reaches_its_advised_arena(kind: str) -> None:
    make = {"int8": lambda model: model, "uint8": with_uint8_borders, "float32": with_float_borders}[kind]
    source = serialize_model(make(network()))
    report = tflite_fuse.rewrite(source, verify=False, advise=True).report
    found = offered(report.advice)
    assert "--input streamed" in found and len(report.advice) <= 3
    assert ("--int8-io" in found) == (kind == "float32")
    for option, said in found.items():
        there = tflite_fuse.rewrite(source, verify=False, **FLAGS[option]).report.after.arena_bytes
        assert there == said < report.after.arena_bytes


def with_shapes(model: Model, count: int) -> Model:
    """The model and operators that compute the shape of its input, as exporters write them."""
    graph, number = model.main, BUILTIN_CODES["SHAPE"]
    options = make_options("ShapeOptions", out_type=int(TensorType.INT32))
    shapes = tuple(Tensor((4,), TensorType.INT32, name=f"shape {each}") for each in range(count))
    added = tuple(
        Operator(len(model.operator_codes), graph.inputs, (len(graph.tensors) + each,), options)
        for each in range(count)
    )
    graph = replace(graph, tensors=(*graph.tensors, *shapes), operators=(*added, *graph.operators))
    codes = (*model.operator_codes, OperatorCode(number, None, 1, number))
    return replace_main(replace(model, operator_codes=codes), graph)


def test_operators_that_become_constants_leave_a_model_its_advice() -> None:
    plain, shaped = (
        tflite_fuse.rewrite(serialize_model(each), verify=False, advise=True).report.advice
        for each in (network(), with_shapes(network(), MOST_OPERATORS))
    )
    assert "--input streamed" in offered(plain) and plain == shaped


def test_advice_includes_the_gain_of_another_order() -> None:
    source = serialize_model(pyramid_network(size=72))
    said = offered(tflite_fuse.rewrite(source, verify=False, advise=True).report.advice)["--input streamed"]
    assert said == tflite_fuse.rewrite(source, verify=False, input_mode="streamed").report.after.arena_bytes
    in_file = tflite_fuse.rewrite(source, verify=False, input_mode="streamed", passes=("fuse", "plan")).report
    assert said < in_file.after.arena_bytes


def test_advice_omits_options_that_are_set() -> None:
    source = serialize_model(with_float_borders(network()))
    streamed = tflite_fuse.rewrite(source, verify=False, advise=True, input_mode="streamed").report
    assert "--input streamed" not in offered(streamed.advice)
    assert tflite_fuse.rewrite(source, verify=False).report.advice == ()


def test_moving_an_input_out_of_the_arena_without_gain_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block's output comes over what it has read, and another block needs more."""
    b = ModelBuilder(0, calibration=2)
    x = b.conv(b.input((1, 20, 60, 1)), 16, (3, 3), (2, 2), "SAME", "RELU")
    for stride in (1, 1, 2, 1):
        x = b.conv(b.depthwise(x, (3, 3), stride, "SAME", "RELU"), 16 * stride, (1, 1), 1, "SAME", "RELU")
    source = serialize_model(b.build([b.fully_connected(b.mean(x), 3)]))
    monkeypatch.setattr("tflite_fuse.passes.fusing.fuse.by_columns", lambda model: PassResult(model, False))
    resident = tflite_fuse.rewrite(source, verify=False).report.after.arena_bytes
    streamed = tflite_fuse.rewrite(source, verify=False, advise=True, input_mode="streamed").report
    line = f"--input streamed saves nothing: --input resident needs {resident:,} B"
    assert line in streamed.notes and streamed.advice == ()
    assert headline(streamed, "small.tflite", "")[-1].endswith(f"; less RAM: {line}")
    assert resident <= streamed.after.arena_bytes


def test_reports_of_streamed_hybrid_models_name_the_smaller_resident_arena() -> None:
    """No block holds its first convolution, so a first block copies the input, and is one more operator to load."""
    model = network()
    tensors = [
        tensor if model.buffers[tensor.buffer].data else replace(tensor, type=TensorType.FLOAT32, quantization=None)
        for tensor in model.main.tensors
    ]
    source = serialize_model(replace_main(model, replace(model.main, tensors=tuple(tensors))))
    resident = tflite_fuse.rewrite(source, verify=False).report.after.arena_bytes
    report = tflite_fuse.rewrite(source, verify=False, advise=True, input_mode="streamed").report
    assert report.after.arena_bytes > resident
    line = headline(report, "small.tflite", "")[-1]
    assert line.startswith("next: quantize the hybrid model")
    assert line.endswith(f"; less RAM: --input streamed saves nothing: --input resident needs {resident:,} B")


def test_a_head_filled_by_the_input_is_reported() -> None:
    (first, *_) = tflite_fuse.rewrite(
        serialize_model(with_float_borders(network())), verify=False, advise=True
    ).report.advice
    assert re.match(r"[\d,]+ B of the head of [\d,]+ B are the input; with --int8-io", first)


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A model that counts as too large to be rewritten again, most of whose arena is the input."""
    monkeypatch.setattr("tflite_fuse.rewriting.advice.MOST_OPERATORS", 1)
    return serialize_model(with_float_borders(network()))


def test_options_of_a_large_model_are_named_without_a_figure(untried: bytes) -> None:
    result = tflite_fuse.rewrite(untried, verify=False, advise=True)
    (first, *_) = result.report.advice
    assert re.fullmatch(r"12,288 B of the head of [\d,]+ B are the input: try --int8-io or --input streamed", first)
    streamed = tflite_fuse.rewrite(untried, verify=False, advise=True, input_mode="streamed").report
    assert not any("try" in line for line in streamed.advice)


def test_a_limit_below_the_inputs_of_a_large_model_names_options(untried: bytes) -> None:
    with pytest.raises(LimitError, match=r"; inputs alone take 12,288 bytes: try --int8-io or --input streamed$"):
        tflite_fuse.rewrite(untried, verify=False, goal=Goal(max_ram=6000), advise=True)
    with pytest.raises(LimitError, match=r"because of [A-Z_0-9 to]+$"):
        tflite_fuse.rewrite(untried, verify=False, goal=Goal(max_ram=12_288), advise=True)


def test_operators_that_hold_the_head_are_named() -> None:
    b = ModelBuilder(1)
    x = b.log_softmax(b.conv(b.input((1, 16, 16, 3)), 24))
    model = b.build([b.fully_connected(b.mean(x), 4)])
    lines = tflite_fuse.rewrite(serialize_model(model), verify=False, advise=True).report.advice
    assert any(line.startswith("1 LOG_SOFTMAX in no block holds 12,288 B: ") for line in lines)


CASES = {"--int8-io": (with_float_borders, 4200), "--input streamed": (lambda model: model, 3300)}


@pytest.mark.parametrize("option", CASES)
def test_a_limit_out_of_reach_names_the_option_that_keeps_it(option: str) -> None:
    make, limit = CASES[option]
    source = serialize_model(make(network()))
    with pytest.raises(LimitError, match=f"; {option} would: [\\d,]+ bytes$") as caught:
        tflite_fuse.rewrite(source, verify=False, goal=Goal(max_ram=limit), advise=True)
    there = tflite_fuse.rewrite(source, verify=False, goal=Goal(max_ram=limit), **FLAGS[option]).report
    assert there.after.arena_bytes <= limit
    with pytest.raises(LimitError) as bare:
        tflite_fuse.rewrite(source, verify=False, goal=Goal(max_ram=limit))
    assert str(caught.value).startswith(str(bare.value)) and option not in str(bare.value)


def test_an_unreachable_limit_is_reported_with_the_nearest_option() -> None:
    source = serialize_model(with_float_borders(network()))
    with pytest.raises(LimitError, match=r"; nor with --input streamed, which needs [\d,]+ bytes at least$"):
        tflite_fuse.rewrite(source, verify=False, goal=Goal(max_ram=500), advise=True)


def test_an_unreachable_limit_on_compute_is_reported_without_bytes_of_an_option() -> None:
    source = serialize_model(with_float_borders(network()))
    with pytest.raises(LimitError, match=r"a compute factor of at most 0\.5 .*: the least is [\d.]+$"):
        tflite_fuse.rewrite(source, verify=False, goal=Goal(max_ram=100_000, max_compute=0.5), advise=True)


def test_the_command_prints_it(tmp_path: Path) -> None:
    (tmp_path / "in.tflite").write_bytes(serialize_model(network()))
    arguments = ["rewrite", str(tmp_path / "in.tflite"), str(tmp_path / "out.tflite"), "--no-verify"]
    text = CliRunner().invoke(app, arguments)
    assert text.exit_code == 0 and len(text.stdout.splitlines()) == 5 and text.stdout.count("less RAM: ") == 1
    assert CliRunner().invoke(app, [*arguments, "--verbose"]).stdout.count("- advice: ") == 1
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert len(found["advice"]) == 1 and "--input streamed" in found["advice"][0]
