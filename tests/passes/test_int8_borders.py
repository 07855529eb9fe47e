"""Float32 models as int8 ones: QUANTIZE and DEQUANTIZE at the ends removed, the same bytes inside."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.conftest import SHARED
from tests.drawing.raw_models import RawModel
from tests.told import told
from tests.uint8_models import with_uint8_borders
from tflite_fuse.check import validate
from tflite_fuse.cli import app
from tflite_fuse.errors import VerificationError
from tflite_fuse.model import Model, load_model, save_model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import SignatureDef, TensorMap
from tflite_fuse.model.types import TensorType, affine_parameters, dequantize
from tflite_fuse.notes import note
from tflite_fuse.passes.int8_borders import Int8Borders
from tflite_fuse.passes.plan import Plan
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def float_model(inputs: int = 1) -> Model:
    """float32 images → QUANTIZE → convolutions → DEQUANTIZE → float32 scores."""
    b = ModelBuilder(5)
    xs = [b.quantize(b.input((1, 16, 16, 3), type=TensorType.FLOAT32)) for _ in range(inputs)]
    x = xs[0] if inputs == 1 else b.add(b.conv(xs[0], 8, 3), b.conv(xs[1], 8, 3))
    return b.build([b.dequantize(b.fully_connected(b.mean(b.conv(b.conv(x, 16, 3), 8, 3, 2)), 4))])


def names(model: Model) -> list[str]:
    return [operator_name(model, operator) for operator in model.main.operators]


def ends(model: Model) -> list[tuple[str | None, int, tuple[int, ...]]]:
    graph = model.main
    tensors = [graph.tensors[index] for index in (*graph.inputs, *graph.outputs)]
    return [(tensor.name, tensor.type, tensor.dims) for tensor in tensors]


@pytest.mark.parametrize("inputs", [1, 2])
def test_the_borders_go_and_names_stay(inputs: int) -> None:
    model = float_model(inputs)
    result = Int8Borders().run(model)
    assert result.changed and len(result.notes) == inputs + 1
    assert {"QUANTIZE", "DEQUANTIZE"}.isdisjoint(names(result.model))
    assert len(result.model.main.operators) == len(model.main.operators) - inputs - 1
    assert ends(result.model) == [(name, TensorType.INT8, dims) for name, _, dims in ends(model)]
    assert Int8Borders().run(result.model).changed is False


def test_signatures_follow_and_plans_are_dropped() -> None:
    model = Plan().run(float_model()).model
    graph = model.main
    (x,), (y,) = graph.inputs, graph.outputs
    signature = SignatureDef((TensorMap("image", x),), (TensorMap("scores", y),), "serving_default")
    model = Int8Borders().run(replace(model, signature_defs=(signature,))).model
    (moved,) = load_model(serialize_model(model)).signature_defs or ()
    assert [entry.tensor_index for entry in (*(moved.inputs or ()), *(moved.outputs or ()))] == [
        *model.main.inputs,
        *model.main.outputs,
    ]


@needs_tflm
@pytest.mark.parametrize("mode", tflite_fuse.INPUT_MODES)
def test_a_float_model_is_rewritten_in_every_mode_and_proven(mode: str) -> None:
    source = serialize_model(float_model(2))
    result = tflite_fuse.rewrite(source, int8_io=True, input_mode=mode, inputs=12)
    report = result.report
    assert report.verified is not None and report.verified.inputs == 12
    assert report.after.arena_bytes < tflite_fuse.rewrite(source, inputs=2).report.after.arena_bytes
    assert tflite_fuse.verify(result.model, source, inputs=12).bit_exact
    least, float_least = (
        tflite_fuse.pareto(source, int8_io=int8, input_mode=mode if int8 else "resident") for int8 in (True, False)
    )
    assert least.rows[0].ram_bytes < float_least.rows[0].ram_bytes


@needs_tflm
def test_every_integer_reaches_the_first_layer_as_it_is() -> None:
    """The int8 model on q and the float one on scale * (q - zero point): the same scores, for all 256 values."""
    model = float_model()
    stripped = Int8Borders().run(model).model
    parameters = affine_parameters(stripped.main.tensors[stripped.main.inputs[0]])
    scores = affine_parameters(stripped.main.tensors[stripped.main.outputs[0]])
    assert parameters is not None and scores is not None
    images = np.random.default_rng(2).permuted(np.arange(768).reshape(1, 16, 16, 3) % 256 - 128).astype(np.int8)
    (integers,) = tflite_fuse.run(serialize_model(stripped), [images])
    (floats,) = tflite_fuse.run(serialize_model(model), [dequantize(images, *parameters)])
    assert integers.dtype == np.int8
    assert dequantize(integers, *scores).tobytes() == floats.tobytes()


@needs_tflm
def test_verify_sees_a_wrong_int8_model() -> None:
    """Other zero points mean other floats: the comparison must not be blind to what integers stand for."""
    model = float_model()
    stripped = Int8Borders().run(model).model
    for index in (stripped.main.inputs[0], stripped.main.outputs[0]):
        tensors = list(stripped.main.tensors)
        quantization = tensors[index].quantization
        assert quantization is not None and quantization.zero_point is not None
        shifted = replace(quantization, zero_point=(quantization.zero_point[0] + 1,))
        tensors[index] = replace(tensors[index], quantization=shifted)
        wrong = replace_main(stripped, replace(stripped.main, tensors=tuple(tensors)))
        assert not tflite_fuse.verify(serialize_model(model), serialize_model(wrong), inputs=12).bit_exact


@needs_tflm
def test_verify_still_refuses_other_types() -> None:
    model = Int8Borders().run(float_model()).model
    tensors = list(model.main.tensors)
    (x,) = model.main.inputs
    tensors[x] = replace(tensors[x], quantization=None)
    unknown = serialize_model(replace_main(model, replace(model.main, tensors=tuple(tensors))))
    with pytest.raises(VerificationError, match="float32"):
        tflite_fuse.verify(serialize_model(float_model()), unknown, inputs=1)


def raw_border(scale: float = 0.5, twice: bool = False, returned: bool = False) -> Model:
    raw = RawModel()
    x = raw.tensor((1, 8), type_=TensorType.FLOAT32, quantization=None)
    q, y = raw.tensor((1, 8), scale), raw.tensor((1, 8), 0.25)
    raw.operator("QUANTIZE", [x], [q], None)
    raw.operator("QUANTIZE", [q], [y], None)
    if twice:
        raw.operator("QUANTIZE", [x], [raw.tensor((1, 8), 0.125)], None)
    return raw.build([x], [y, q] if returned else [y])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (raw_border(twice=True), "QUANTIZE_0, QUANTIZE_2 reads it, not one QUANTIZE alone"),
        (raw_border(returned=True), "its int8 values are an input or output of the model already"),
        (raw_border(scale=1e-46), "its int8 values, of scale 1e-46, are no 256 different floats"),
    ],
)
def test_borders_that_stay_have_a_reason(model: Model, reason: str) -> None:
    result = Int8Borders().run(model)
    assert result.model is model and not result.changed
    assert result.notes == (note("kept", "border", side="input", tensor="t0", type="float32", why=reason),)


def test_an_output_read_inside_stays() -> None:
    raw = RawModel()
    q, y = raw.tensor((1, 8)), raw.tensor((1, 8), 0.25)
    x = raw.tensor((1, 8), type_=TensorType.FLOAT32, quantization=None)
    raw.operator("DEQUANTIZE", [q], [x], None)
    raw.operator("QUANTIZE", [x], [y], None)
    result = Int8Borders().run(raw.build([q], [x, y]))
    why = "the model reads it itself"
    assert result.notes == (note("kept", "border", side="output", tensor="t2", type="float32", why=why),)


@needs_tflm
@pytest.mark.skipif(not (SHARED / "models").exists(), reason="no models beside the project")
def test_a_public_float_model_streams_its_image() -> None:
    path = SHARED / "models/mcunet_vww1_float_io_int8.tflite"
    report = tflite_fuse.rewrite(path, int8_io=True, input_mode="streamed", inputs=3).report
    assert report.verified is not None and report.verified.bit_exact
    image = 80 * 80 * 3
    assert report.after.arena_bytes < image < tflite_fuse.rewrite(path, inputs=1).report.after.arena_bytes


@needs_tflm
def test_the_command(tmp_path: pytest.TempPathFactory) -> None:
    source, target = f"{tmp_path}/in.tflite", f"{tmp_path}/out.tflite"
    save_model(float_model(), source)
    runner = CliRunner()
    options = ["--int8-io", "--input", "streamed", "--inputs", "3", "--verbose"]
    done = runner.invoke(app, ["rewrite", source, target, *options])
    assert done.exit_code == 0 and "is int8 now, q standing for" in done.stdout
    assert runner.invoke(app, ["verify", source, target, "--inputs", "4"]).exit_code == 0
    assert runner.invoke(app, ["pareto", source, "--int8-io", "--input", "external"]).exit_code == 0
    data = f"{tmp_path}/data.npz"
    np.savez(data, *[sample[0][0] for sample in [generate_inputs(float_model(), 1)]])
    assert runner.invoke(app, ["verify", source, target, "--data", data]).exit_code == 0


# ---- uint8 ----


@needs_tflm
@pytest.mark.parametrize("mode", tflite_fuse.INPUT_MODES)
def test_uint8_ends_become_int8_in_every_mode_and_are_proven(mode: str) -> None:
    model = with_uint8_borders(without_borders())
    result = tflite_fuse.rewrite(serialize_model(model), int8_io=True, input_mode=mode, inputs=6)
    assert result.report.verified is not None and result.report.verified.bit_exact
    graph = load_model(result.model).main
    assert {graph.tensors[index].type for index in (*graph.inputs, *graph.outputs)} == {TensorType.INT8}
    assert len(told(result.report.records, "changed", "border")) == 2
    assert all(entry.type == TensorType.INT8 for entry in result.report.outside)


def test_a_quantize_that_rescales_stays() -> None:
    result = Int8Borders().run(with_uint8_borders(without_borders(), coarser=1.5))
    assert not result.changed and len(result.notes) == 2
    for kept in told(result.notes, "kept", "border"):
        assert kept.details["type"] == "uint8" and "changes its scale" in str(kept.details["why"])
    assert len(told(result.notes, "kept", "border")) == 2


def test_a_model_with_int8_ends_stays_with_a_note() -> None:
    result = Int8Borders().run(without_borders())
    assert not result.changed
    assert result.notes == (note("kept", "all borders"),)


@needs_tflm
def test_a_wrong_uint8_end_is_no_proof() -> None:
    """The int8 model of another scale: 128 off, and something else."""
    model = with_uint8_borders(without_borders())
    data = tflite_fuse.rewrite(serialize_model(model), int8_io=True, verify=False).model
    assert validate(model, load_model(data)).proven
    assert not validate(with_uint8_borders(without_borders(), coarser=1.01), load_model(data)).proven


def without_borders() -> Model:
    return Int8Borders().run(float_model()).model
