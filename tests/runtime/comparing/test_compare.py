from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scripts.zoo.networks import inverted_residual_network
from tests.conftest import SHARED
from tests.drawing.raw_models import RawModel
from tests.runtime.small_models import counter_model, custom_model, dense_model, int8, model_file
from tflite_fuse.api import rewrite
from tflite_fuse.errors import ModelError, UsageError, VerificationError
from tflite_fuse.memory.budget import reporting_to
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model import schema as s
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.inputs import generate_inputs

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def inputs_of(model: bytes, count: int = 16) -> list[list[np.ndarray]]:
    return generate_inputs(load_model(model), count)


def test_equal_models() -> None:
    model = dense_model()
    result = compare(model, dense_model(output_name="renamed"), inputs_of(model))
    assert result.bit_exact
    assert result.first_difference is None
    assert result.inputs == 16
    assert (result.runtime, result.version) == ("tflite-micro", tflm.runtime_version())


def test_one_weight_names_the_element_it_changes() -> None:
    """The altered weight joins the last feature to the last unit; the output that differs can only be that unit."""
    model, changed = dense_model(), dense_model(changed=True)
    inputs = inputs_of(model)
    result = compare(model, changed, inputs)
    assert not result.bit_exact
    difference = result.first_difference
    assert difference is not None
    assert difference.output_name == "scores"
    assert difference.element == (0, 6)
    assert difference.differing == 1
    at = difference.input_index
    outputs = [tflm.run(each, inputs[: at + 1]).outputs for each in (model, changed)]
    assert (difference.value_a, difference.value_b) == tuple(each[at][0][0, 6] for each in outputs)
    for before in range(at):
        assert (outputs[0][before][0] == outputs[1][before][0]).all()
    assert "output scores differs at [0, 6]" in str(difference)
    assert result.inputs == at + 1


RESNET = SHARED / "models/mlperf_tiny_resnet8_int8.tflite"


@pytest.mark.skipif(not RESNET.exists(), reason="no model beside the project")
def test_real_model_against_itself_with_one_bias_changed() -> None:
    content = RESNET.read_bytes()
    model = load_model(content)
    last = model.main.operators[-2]
    bias = model.main.tensors[(last.inputs or ())[2]].buffer
    values = np.frombuffer(model.buffers[bias].data or b"", np.int32).copy()
    values[4] += 4000
    buffers = tuple(s.Buffer(values.tobytes()) if index == bias else b for index, b in enumerate(model.buffers))
    inputs = generate_inputs(model, 4)
    assert compare(content, serialize_model(model), inputs).bit_exact
    assert not compare(content, serialize_model(replace(model, buffers=buffers)), inputs).bit_exact


def leaking_counter() -> bytes:
    """Like ``counter_model`` after a reset, but what it remembers is twice its output."""
    tensors = (
        int8("step", (1, 4)),
        s.Tensor((), TensorType.RESOURCE, 0, "handle"),
        int8("before", (1, 4)),
        int8("after", (1, 4)),
        int8("twice", (1, 4)),
    )
    operators = (
        s.Operator(0, (), (1,), s.OptionsTable(111, (), ((0, 1, b""), (1, 1, b"memory")))),
        s.Operator(1, (1,), (2,)),
        s.Operator(2, (0, 2), (3,), make_options("AddOptions")),
        s.Operator(2, (3, 3), (4,), make_options("AddOptions")),
        s.Operator(3, (1, 4), ()),
    )
    return model_file(["VAR_HANDLE", "READ_VARIABLE", "ADD", "ASSIGN_VARIABLE"], tensors, operators, [0], [3])


def test_state_is_compared_as_a_stream_too() -> None:
    inputs = [[np.full((1, 4), value, np.int8)] for value in (0, 5, 7)]
    assert compare(counter_model(), counter_model(), inputs).bit_exact
    result = compare(counter_model(), leaking_counter(), inputs)
    assert result.first_difference is not None
    assert result.first_difference.streamed
    assert result.first_difference.input_index == 2
    assert (result.first_difference.value_a, result.first_difference.value_b) == (12, 17)
    assert "state left by the inputs before" in str(result.first_difference)


def test_floats_are_compared_as_bits() -> None:
    """x + (−x) gives +0, x·0 gives −0 for negative x: equal numbers, different bytes."""

    def scaled(constant: float) -> bytes:
        tensors = (
            s.Tensor((1, 2), TensorType.FLOAT32, 0, "x"),
            s.Tensor((1, 2), TensorType.FLOAT32, 1, "constant"),
            s.Tensor((1, 2), TensorType.FLOAT32, 0, "y"),
        )
        operators = (s.Operator(0, (0, 1), (2,), make_options("MulOptions")),)
        return model_file(["MUL"], tensors, operators, [0], [2], [np.full(2, constant, np.float32).tobytes()])

    nan = [[np.array([[np.nan, 1]], np.float32)]]
    assert compare(scaled(0.0), scaled(0.0), nan).bit_exact
    assert compare(scaled(np.nan), scaled(-np.nan), [[np.array([[1, 1]], np.float32)]]).bit_exact
    result = compare(scaled(0.0), scaled(-0.0), [[np.array([[1, 1]], np.float32)]])
    assert not result.bit_exact


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (dense_model(features=13), r"input 0 is image \(int8 \[1, 12\]\) in a\.tflite but image \(int8 \[1, 13\]\)"),
        (dense_model(units=8), "output 0"),
    ],
)
def test_models_of_other_shapes_cannot_be_compared(other: bytes, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        compare(dense_model(), other, inputs_of(dense_model()), names=("a.tflite", "b.tflite"))


def test_other_number_of_outputs() -> None:
    model = load_model(dense_model())
    graph = replace(model.main, outputs=(3, 3))
    with pytest.raises(VerificationError, match="1 outputs but the second model has 2"):
        compare(dense_model(), serialize_model(replace(model, subgraphs=(graph,))), inputs_of(dense_model()))


def test_the_model_that_fails_is_named() -> None:
    good = custom_model("SOME_OPERATOR", b"")
    with pytest.raises(ModelError, match=r"cannot load [ab]\.tflite: .*SOME_OPERATOR"):
        compare(good, good, inputs_of(good), names=("a.tflite", "b.tflite"))
    with pytest.raises(ModelError):
        compare(good[:50], good, inputs_of(good))


def test_no_inputs_are_an_error() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        compare(dense_model(), dense_model(), [])


def test_progress_counts_every_inference() -> None:
    seen: list[tuple[int, int]] = []
    with reporting_to(lambda step, *now: seen.append(now)):
        compare(dense_model(), dense_model(), inputs_of(dense_model(), 3))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_outputs_that_hardly_vary_are_reported() -> None:
    model = load_model(serialize_model(inverted_residual_network(12, blocks=1)))
    lively = compare(serialize_model(model), serialize_model(model), generate_inputs(model, 8))
    assert lively.elements == 10 and lively.varied > 0
    same = [generate_inputs(model, 1)[0]] * 5
    dull = compare(serialize_model(model), serialize_model(model), same)
    assert (
        dull.varied == 0 and dull.warning is not None and "0 of 10 output values varied over 5 inputs" in dull.warning
    )


@pytest.mark.parametrize("factor", [-3, 3])
def test_an_original_that_divides_by_zero_on_some_input_is_proven_and_not_refused(factor: int) -> None:
    """The first input is -1: with -3 it divides by 3, and a later input by 0."""
    raw = RawModel()
    real = {"type_": TensorType.FLOAT32, "quantization": None}
    source, scaled, divisor, result = (raw.tensor((1, 1), **real) for _ in range(4))
    raw.operator("MUL", [source, raw.constant(np.float32([[factor]]))], [scaled], make_options("MulOptions"))
    raw.operator("RELU", [scaled], [divisor], None)
    raw.operator("FLOOR_DIV", [source, divisor], [result], None)
    report = rewrite(serialize_model(raw.build([source], [result]))).report
    assert report.verified is None and "Division by 0" in (report.unverified or "")
