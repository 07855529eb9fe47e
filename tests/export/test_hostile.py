"""Untrusted models: their texts cannot leave a comment, and damage is reported in a sentence."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.drawing.raw_models import RawModel
from tests.export.exported import changed, fused, network, renamed, run
from tests.runtime.small_models import custom_model
from tflite_fuse.errors import ModelError, TfliteFuseError, UsageError
from tflite_fuse.export import FORMATS, export_model
from tflite_fuse.export.text import byte_array, comment, float_literal
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model import schema as s
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType

ANY_MODEL = [name for name in FORMATS if name != "esphome"]
"""Formats that take more than models of microWakeWord."""
NAMES = ['*/ int main() { system("x"); } /*', "a\nint x;", "ends in a backslash\\", "??/\n", "%s%n", "é\0\x1b[2J", ""]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_names_stay_in_their_comments(name: str, tmp_path: Path) -> None:
    for format in ANY_MODEL:
        export_model(renamed(fused(), name), tmp_path / format, format)
        for path in (tmp_path / format).rglob("model*.h"):
            code = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)
            assert "system" not in code and "int x" not in code and "main" not in code
    header = (tmp_path / "c" / "model.h").read_text()
    assert header.isascii() and header.count("/*") == header.count("*/")
    run(
        [
            "gcc",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            f"-I{tmp_path / 'c'}",
            tmp_path / "c" / "model.c",
        ]
    )


def test_the_file_name_stays_in_its_comment(tmp_path: Path) -> None:
    (tmp_path / "a*").mkdir()
    source = tmp_path / "a*" / "*evil*.tflite"
    source.write_bytes(fused())
    export_model(source, tmp_path / "out", "c")
    assert "_evil_.tflite" in (tmp_path / "out" / "model.h").read_text().splitlines()[0]


def test_long_names_are_cut() -> None:
    assert len(comment("x" * 10_000)) == 60
    assert comment(None) == ""


def test_float_literals_are_the_same_float_again() -> None:
    assert float_literal(0.003921568859368563) == "0.003921569f"
    assert float_literal(1.0) == "1.0f"
    assert float_literal(1e-20) == "1e-20f"
    assert float_literal(-3) == "-3.0f"
    assert [float_literal(value) for value in (float("nan"), float("inf"), 1e39)] == [None] * 3


def test_arrays_hold_the_bytes() -> None:
    data = bytes(range(256)) * 3
    text = byte_array("const unsigned char data[768]", data)
    assert bytes(int(number) for number in re.findall(r"(\d+),", text)) == data
    assert "{\n    0\n}" in byte_array("const unsigned char none[1]", b"")


def with_quantization(model_bytes: bytes, **fields: object) -> bytes:
    model = load_model(model_bytes)
    tensors = [replace(t, quantization=s.Quantization(**fields)) for t in model.main.tensors]  # type: ignore[arg-type]
    return changed(model_bytes, tensors=tuple(tensors))


@pytest.mark.parametrize(
    "fields",
    [
        {"scale": (float("nan"),), "zero_point": (0,)},
        {"scale": (float("inf"),), "zero_point": (-(2**62),)},
        {"scale": (1.0, 2.0), "zero_point": (0, 0)},
        {"scale": (1.0,), "zero_point": None},
        {},
    ],
)
def test_quantization_without_a_literal_is_left_out(fields: dict[str, object], tmp_path: Path) -> None:
    export_model(with_quantization(fused(), **fields), tmp_path / "model", "platformio")
    header = (tmp_path / "model" / "src" / "model_data.h").read_text()
    assert "_SCALE" not in header and "nan" not in header and "inf" not in header
    assert "#define MODEL_INPUT_0_BYTES 360" in header


@pytest.mark.parametrize("format", ANY_MODEL)
def test_a_dynamic_shape_is_refused(format: str, tmp_path: Path) -> None:
    model = load_model(fused())
    tensors = (replace(model.main.tensors[0], shape=(-1, 12, 10, 3)), *model.main.tensors[1:])
    with pytest.raises(ModelError, match="dynamic shape"):
        export_model(changed(fused(), tensors=tensors), tmp_path / "model", format)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("format", ANY_MODEL)
def test_a_tensor_of_other_bytes_than_its_block_uses_is_refused(format: str, tmp_path: Path) -> None:
    model = load_model(fused())
    for shape, nbytes in (((), 1), ((1, 0, 10, 3), 0), ((1, 12, 11, 3), 396)):
        tensors = (replace(model.main.tensors[0], shape=shape), *model.main.tensors[1:])
        with pytest.raises(ModelError, match=rf"TFLITE_FUSE_0 uses 360 bytes of tensor \S+, which has {nbytes}$"):
            export_model(changed(fused(), tensors=tensors), tmp_path / "model", format)
    assert not (tmp_path / "model").exists()


def test_damaged_blocks_are_refused_for_c(tmp_path: Path) -> None:
    model = load_model(fused())
    block = model.main.operators[0]
    options = block.custom_options or b""
    for damaged in (b"", options[:30], options[:60] + b"\xff" * 8 + options[68:]):
        operators = (replace(block, custom_options=damaged), *model.main.operators[1:])
        with pytest.raises(ModelError, match="TFLITE_FUSE_0 is not a valid fused block"):
            export_model(changed(fused(), operators=operators), tmp_path / "model", "c")


@pytest.mark.parametrize("format", ["c", "zephyr"])
def test_an_operator_that_no_format_runs_leads_to_no_other_format(format: str, tmp_path: Path) -> None:
    why = "my op_0 is no fused block and becomes none by itself, and no project of an export registers it$"
    with pytest.raises(UsageError, match=why):
        export_model(custom_model("my op", b""), tmp_path / "model", format)


@pytest.mark.parametrize("format", [name for name in ANY_MODEL if name not in ("c", "zephyr")])
def test_operators_without_a_resolver_entry_are_named(format: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no project of an export registers the custom operator my op"):
        export_model(custom_model("my op", b""), tmp_path / "model", format)
    model = load_model(network())
    codes = (
        replace(model.operator_codes[0], builtin_code=9999, deprecated_builtin_code=127),
        *model.operator_codes[1:],
    )
    with pytest.raises(UsageError, match="no method that registers the operator BUILTIN_9999"):
        export_model(serialize_model(replace(model, operator_codes=codes)), tmp_path / "model", format)


@pytest.mark.parametrize("format", ANY_MODEL)
def test_a_model_without_operators(format: str, tmp_path: Path) -> None:
    model = load_model(network())
    empty = changed(network(), operators=(), outputs=model.main.inputs)
    if format in ("c", "zephyr"):
        with pytest.raises(UsageError, match="no operators"):
            export_model(empty, tmp_path / "model", format)
    else:
        export_model(empty, tmp_path / "model", format)


@pytest.mark.parametrize("format", ["c", "zephyr"])
@pytest.mark.parametrize("end", ["inputs", "outputs"])
def test_a_constant_among_the_ends_is_refused_in_c(end: str, format: str, tmp_path: Path) -> None:
    """It has no place in the arena, so a program would read or write another tensor there."""
    main = load_model(network("none")).main
    constant = (main.operators[0].inputs or ())[1]
    model = changed(network("none"), **{end: (*getattr(main, end), constant)})
    with pytest.raises(UsageError, match=rf"^{end[:-1]} .*stem.* is a constant, which has no place in the arena"):
        export_model(model, tmp_path / "model", format)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("format", ANY_MODEL)
def test_a_file_cut_anywhere_is_a_sentence(format: str, tmp_path: Path) -> None:
    data = fused()
    for end in range(0, len(data), 97):
        try:
            export_model(data[:end], tmp_path / f"model{end}", format)
        except TfliteFuseError:
            assert not (tmp_path / f"model{end}").exists()


def with_activations(element: TensorType) -> bytes:
    """The model with activations of another type, its constants as they were."""
    model = load_model(network())
    tensors = [
        tensor if model.buffers[tensor.buffer].data else replace(tensor, type=int(element))
        for tensor in model.main.tensors
    ]
    return changed(network(), tensors=tuple(tensors))


ARITHMETIC = {TensorType.FLOAT32: "float32 with weights of fewer bits", TensorType.UINT8: "uint8"}


@pytest.mark.parametrize("element", ARITHMETIC)
@pytest.mark.parametrize("format", ANY_MODEL)
def test_hybrid_and_uint8_operators_are_refused_as_the_runtime_refuses_them(
    format: str, element: TensorType, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"CONV_2D_0 computes in {ARITHMETIC[element]}, which TensorFlow Lite Micro"):
        export_model(with_activations(element), tmp_path / "model", format)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("format", ANY_MODEL)
def test_weights_of_float16_outside_of_blocks_are_refused(format: str, tmp_path: Path) -> None:
    model = RawModel()
    source, wide, output = (model.tensor((1, 8), type_=TensorType.FLOAT32, quantization=None) for _ in range(3))
    model.operator("DEQUANTIZE", [model.constant(np.ones((1, 8), np.float16))], [wide], None)
    model.operator("ADD", [source, wide], [output], make_options("AddOptions"))
    with pytest.raises(UsageError, match=r"DEQUANTIZE_0 reads weights of float16.*without --no-fuse"):
        export_model(serialize_model(model.build([source], [output])), tmp_path / "model", format)
