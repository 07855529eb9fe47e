"""Models of other frameworks: stand-ins of the converters, called by the interface that their documentation has."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from scripts.zoo.float_twin import float_twin
from tests.test_cli import run, validate
from tflite_fuse.errors import ModelError, RuntimeUnavailableError, UsageError
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.model.schema import SignatureDef, TensorMap

ONNX = """
import json
from pathlib import Path
from types import SimpleNamespace as Of

def load(source):
    path = Path(source).with_suffix(".dims")
    dims = [Of(dim_value=each) for each in (json.loads(path.read_text()) if path.exists() else [])]
    x = Of(name="x", type=Of(tensor_type=Of(shape=Of(dim=dims))))
    return Of(data=Path(source).read_bytes(), graph=Of(input=[x, Of(name="w")], initializer=[Of(name="w")]))

def save(model, target):
    Path(target).write_bytes(model.data)
"""
"""Reads the sizes of the input x from a file beside the model."""

ONNX2TF = """
import os, sys
from pathlib import Path
import numpy as np

def convert(input_onnx_file_path, output_folder_path, output_signaturedefs, overwrite_input_shape, verbosity):
    assert overwrite_input_shape in (None, ["x:1,3,12,10"])
    assert str(Path(sys.executable).parent) == os.environ["PATH"].split(os.pathsep)[0]  # where onnxsim is
    pictures = np.load("calibration_image_sample_data_20x128x128x3_float32.npy")
    assert pictures.shape == (20, 128, 128, 3) and pictures.dtype == np.float32
    data = Path(input_onnx_file_path).read_bytes()
    Path(input_onnx_file_path).write_bytes(b"simplified")
    if data.startswith(b"strange"):
        print("ERROR: onnx_op_name: first/Gemm")
        print("ERROR: onnx_op_name: wave/Gemm")
        print("WARNING: All log messages before InitializeLog() are written to STDERR", file=sys.stderr)
        if data == b"strange":
            raise ValueError("dimensions must be equal")
        print("\\033[31mERROR:\\033[0m the name does not match")
        sys.exit(1)
    Path(output_folder_path).mkdir()
    Path(output_folder_path, "model_float16.tflite").write_bytes(b"")
    Path(output_folder_path, "model_float32.tflite").write_bytes(data)
"""
"""A model in disguise is the ONNX file."""

QUANTIZER = """
from pathlib import Path
import numpy as np

class Quantizer:
    def __init__(self, source, recipe):
        assert recipe == "static_wi8_ai8" and Path(source).is_file()

    def calibrate(self, samples):
        (self.signature, fed), = samples.items()
        np.savez(Path(__file__).with_name("fed.npz"), **{name: [each[name] for each in fed] for name in fed[0]})
        return self.signature

    def quantize(self, calibrated):
        assert calibrated == self.signature
        return self

    def export_model(self, target, overwrite):
        Path(target).write_bytes(Path(__file__).with_name("int8.tflite").read_bytes())
"""


@pytest.fixture
def converters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of stand-ins, on the path of this process and its children, with an ONNX file in it."""
    folder = tmp_path / "packages"
    (folder / "ai_edge_quantizer").mkdir(parents=True)
    (folder / "onnx2tf.py").write_text(ONNX2TF)
    (folder / "onnx.py").write_text(ONNX)
    (folder / "ai_edge_quantizer" / "__init__.py").write_text("")
    (folder / "ai_edge_quantizer" / "recipe.py").write_text("static_wi8_ai8 = lambda: 'static_wi8_ai8'")
    (folder / "ai_edge_quantizer" / "quantizer.py").write_text(QUANTIZER)
    b = ModelBuilder(seed=0)
    int8 = b.build([b.conv(b.input((1, 12, 10, 3)), 4)])
    named = replace(float_twin(int8))
    inputs, outputs = TensorMap("x", named.main.inputs[0]), TensorMap("y", named.main.outputs[0])
    named = replace(named, signature_defs=(SignatureDef((inputs,), (outputs,), "serving_default"),))
    (folder / "ai_edge_quantizer" / "int8.tflite").write_bytes(serialize_model(int8))
    (folder / "model.onnx").write_bytes(serialize_model(named))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def test_the_command_converts_quantizes_and_rewrites(converters: Path, tmp_path: Path) -> None:
    samples, out, between = tmp_path / "samples.npz", tmp_path / "small.tflite", tmp_path / "int8.tflite"
    pictures = np.random.default_rng(0).normal(size=(5, 3, 12, 10)).astype(np.float32)
    np.savez(samples, any_name=pictures)
    source = converters / "model.onnx"
    done = run("rewrite", source, out, "--calibrate", samples, "--converted", between, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    validate(report, "report")
    assert report["converted"] == [
        "converted by onnx2tf",
        "quantized to int8 by ai-edge-quantizer, calibrated on 5 samples",
        "input x is 1 x 12 x 10 x 3",
    ]
    with np.load(converters / "ai_edge_quantizer" / "fed.npz") as fed:
        assert np.array_equal(fed["x"][:, 0], pictures.transpose(0, 2, 3, 1))
    assert between.read_bytes() == (converters / "ai_edge_quantizer" / "int8.tflite").read_bytes()
    assert tflite_fuse.verify(between, out, inputs=2).bit_exact
    assert run("rewrite", source, out).stdout.startswith(
        f"{source}: converted by onnx2tf; input x is 1 x 12 x 10 x 3\n"
    )


def test_several_models_are_converted_into_a_folder_with_all_figures_on_request(
    converters: Path, tmp_path: Path
) -> None:
    source, plain = converters / "model.onnx", converters / "ai_edge_quantizer" / "int8.tflite"
    done = run("rewrite", source, plain, "-o", tmp_path / "out", "--verbose")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{source}: converted by onnx2tf; input x is 1 x 12 x 10 x 3\n")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"model.tflite", "int8.tflite"}
    assert done.stdout.count("largest working set") == 2


def test_samples_may_have_channels_last_and_one_name_of_several_inputs_may_not_be_missing(
    converters: Path, tmp_path: Path
) -> None:
    samples = tmp_path / "samples.npz"
    np.savez(samples, x=np.zeros((2, 12, 10, 3)))
    assert load_model(tflite_fuse.convert(converters / "model.onnx", samples).model).main.operators
    np.savez(samples, x=np.zeros((2, 12, 10, 3)), other=np.zeros(2))
    with pytest.raises(UsageError, match=r"samples\.npz: holds x, other, and the model's inputs are x"):
        tflite_fuse.convert(converters / "model.onnx", samples)


def test_a_model_without_a_signature_is_calibrated_by_the_names_of_its_tensors(
    converters: Path, tmp_path: Path
) -> None:
    path = converters / "model.onnx"
    model = replace(load_model(path.read_bytes()), signature_defs=())
    path.write_bytes(serialize_model(model))
    np.savez(tmp_path / "samples.npz", np.zeros((2, 3, 12, 10)))
    made = tflite_fuse.convert(path, tmp_path / "samples.npz")
    name = model.main.tensors[model.main.inputs[0]].name
    assert made.steps[-1] == f"input {name} is 1 x 12 x 10 x 3"
    with np.load(converters / "ai_edge_quantizer" / "fed.npz") as fed:
        assert fed[name].shape == (2, 1, 12, 10, 3)


@pytest.mark.parametrize("shape", [(2, 3, 12, 10), (2, 12, 10, 3)])
def test_open_sizes_are_those_of_the_samples_and_the_file_stays(
    converters: Path, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    path, samples = converters / "model.onnx", tmp_path / "samples.npz"
    before = path.read_bytes()
    path.with_suffix(".dims").write_text("[0, 3, 0, 0]")
    np.savez(samples, np.zeros(shape))
    assert tflite_fuse.convert(path, samples).steps[-1] == "input x is 1 x 12 x 10 x 3"
    np.savez(samples, np.zeros((2, 5, 12, 10)))
    for wrong in (None, samples):
        with pytest.raises(ModelError, match=r"input x is \? x 3 x \? x \?: give samples of one size to --calibrate"):
            tflite_fuse.convert(path, wrong)
    assert path.read_bytes() == before


@pytest.mark.parametrize("shape", [(5, 3, 12, 11), (3, 12, 10), (5, 12, 3, 10)])
def test_samples_of_another_shape_are_one_sentence(converters: Path, tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.savez(tmp_path / "samples.npz", x=np.zeros(shape))
    done = run("rewrite", converters / "model.onnx", tmp_path / "out.tflite", "--calibrate", tmp_path / "samples.npz")
    found = " x ".join(map(str, shape))
    said = f"x is {found}, and calibration requires (samples, ...) with samples of 3 x 12 x 10 or 12 x 10 x 3"
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out.tflite").exists()


def test_samples_that_are_no_finite_numbers_and_empty_models_are_refused(converters: Path, tmp_path: Path) -> None:
    samples = tmp_path / "samples.npz"
    for fill, why in ((np.nan, "x holds NaN or infinity"), ("a", "x holds no numbers")):
        np.savez(samples, x=np.full((2, 3, 12, 10), fill))
        with pytest.raises(UsageError, match=why):
            tflite_fuse.convert(converters / "model.onnx", samples)
    np.savez(samples)
    with pytest.raises(UsageError, match="holds no array, and the model's inputs are x"):
        tflite_fuse.convert(converters / "model.onnx", samples)
    model = load_model((converters / "model.onnx").read_bytes())
    bare = replace(model, subgraphs=(replace(model.main, operators=()),))
    (tmp_path / "empty.onnx").write_bytes(serialize_model(bare))
    with pytest.raises(ModelError, match=r"empty\.onnx holds no operators"):
        tflite_fuse.convert(tmp_path / "empty.onnx")


def test_a_converter_that_fails_names_the_operator(converters: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.onnx"
    for data, why in (
        (b"strange", "ValueError: dimensions must be equal"),
        (b"strange!", "ERROR: the name does not match"),
    ):
        strange.write_bytes(data)
        said = rf"strange\.onnx: onnx2tf cannot convert the operator wave/Gemm \({why}\)"
        with pytest.raises(ModelError, match=said):
            tflite_fuse.convert(strange)
    done = run("rewrite", strange, tmp_path / "out.tflite")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


@pytest.mark.parametrize("suffix, package, extra", [("onnx", "onnx2tf", "onnx"), ("pt2", "litert-torch", "torch")])
def test_a_converter_that_is_not_there_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, package: str, extra: str
) -> None:
    monkeypatch.setattr("tflite_fuse.converting.convert.find_spec", lambda name: None)
    path = tmp_path / f"model.{suffix}"
    path.write_bytes(b"")
    with pytest.raises(RuntimeUnavailableError, match=rf"needs the converter {package}, extra {extra}: pip install '"):
        tflite_fuse.convert(path)


def test_files_of_other_kinds_are_not_converted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"model\.pb: \.onnx and \.pt2 files are converted, others are not"):
        tflite_fuse.convert(tmp_path / "model.pb")
    with pytest.raises(UsageError, match=r"no such file"):
        tflite_fuse.convert(tmp_path / "model.onnx")
    done = run("rewrite", "in.tflite", tmp_path / "out.tflite", "--calibrate", "samples.npz")
    assert done.returncode == 2 and "is not converted" in done.stderr
