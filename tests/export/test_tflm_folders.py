"""Folders for TFLM: the model's bytes, the exact arena, only used operators, and programs that compile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tflite_fuse
from tests.arduino.fake_runtime import GENERATIONS, compiler
from tests.export.exported import chained, fused, network, outside, run
from tests.export.stand_ins import FORMATS, main_of, run_with_stand_ins
from tests.runtime.small_models import counter_model
from tflite_fuse.errors import UsageError
from tflite_fuse.export import export_model
from tflite_fuse.export.arena import arena_for, declared_arenas
from tflite_fuse.export.tflm import registration
from tflite_fuse.ir.block import Storage
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.greedy_planner import head_bytes
from tflite_fuse.memory.tflm.runtimes import FULL_STRUCTS, runtime_for
from tflite_fuse.memory.tflm.struct_sizes import ARM, WIDE_ENUMS
from tflite_fuse.memory.tflm.tail import loading_bytes, predict_tail
from tflite_fuse.model import load_model
from tflite_fuse.model.types import BUILTIN_CODES, operator_name
from tflite_fuse.runtime.registration import used_operators

_BOTH = ("reference", "esp-nn")


def exported(model: bytes, folder: Path, format: str) -> Path:
    export_model(model, folder, format)
    return folder / FORMATS[format]


@pytest.mark.parametrize("format", FORMATS)
def test_the_array_is_the_model(format: str, tmp_path: Path) -> None:
    program = exported(fused(), tmp_path / "model", format)
    text = (program / "model_data.c").read_text()
    body = text[text.index("{") :]
    data = bytes(int(number) for number in re.findall(r"(\d+),", body))
    assert load_model(data) == load_model(fused())
    assert "__attribute__((aligned(16)))" in text
    assert f"#define MODEL_BYTES {len(data)}\n" in (program / "model_data.h").read_text()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("model", [fused(), chained("float"), network()])
def test_declares_the_arena_of_a_32_bit_target(model: bytes, format: str, tmp_path: Path) -> None:
    """Head + tail, or what loading needs, with the reference kernels of the runtime the format names."""
    found = load_model(model)
    build = runtime_for(format, "reference").build
    needed = max(
        head_bytes(found) + predict_tail(program_of(found), build).total, loading_bytes(program_of(found), build)
    )
    export_model(model, tmp_path / "model", format, kernels="reference")
    header = (tmp_path / "model" / FORMATS[format] / "model_data.h").read_text()
    (declared,) = re.findall(r"#define MODEL_ARENA_BYTES (\d+)\n", header)
    assert needed <= int(declared) < needed + 16 and int(declared) % 16 == 0


@pytest.mark.parametrize(
    ("format", "runtime"), [("arduino", "arduino"), ("platformio", "arduino"), ("esp-idf", "esp32")]
)
@pytest.mark.parametrize("model", [fused(), chained("float"), network()])
def test_declares_the_arena_of_the_report_for_that_runtime(
    model: bytes, format: str, runtime: str, tmp_path: Path
) -> None:
    declared = declared_arenas(load_model(model), runtime_for(format))[-1]
    assert export_model(model, tmp_path / "model", format).arena_bytes == declared.nbytes
    assert declared.nbytes - declared.margin == tflite_fuse.inspect(model, runtime=runtime).figures.arena_bytes


@pytest.mark.parametrize("kernels", ["cmsis-nn", "esp-nn"])
@pytest.mark.parametrize("format", FORMATS)
def test_the_header_has_an_arena_for_each_kind_of_core(format: str, kernels: str, tmp_path: Path) -> None:
    """Which one counts is decided where it is compiled: what the compiler defines for the core."""
    arenas = declared_arenas(load_model(network()), runtime_for(format, kernels))
    assert len(arenas) > 1 and arenas[-1].condition == ""
    written = export_model(network(), tmp_path / "model", format, kernels=kernels)
    program = tmp_path / "model" / FORMATS[format]
    (tmp_path / "probe.c").write_text('#include "model_data.h"\nMODEL_ARENA_BYTES\n')
    for declared in arenas:
        flag = re.sub(r"defined\((\w+)\)", r"-D\1=1", declared.condition) or "-DNOTHING"
        text = run([compiler("gcc"), "-E", "-P", f"-I{program}", flag, tmp_path / "probe.c"])
        assert text.split()[-1] == str(declared.nbytes) and declared.nbytes % 16 == 0
    assert written.arena_bytes == arenas[-1].nbytes
    assert any(arenas[0].core in note for note in written.notes)


def test_other_kernels_and_generations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kernel set 'cmsis'; the sets are reference, cmsis-nn, esp-nn"):
        export_model(fused(), tmp_path / "model", "arduino", kernels="cmsis")
    with pytest.raises(UsageError, match="choose 2024 or 2026"):
        export_model(fused(), tmp_path / "model", "arduino", tflm="2025")
    with pytest.raises(UsageError, match="plain C has no TensorFlow Lite Micro"):
        export_model(fused(), tmp_path / "model", "c", kernels="cmsis-nn")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("format", FORMATS)
def test_a_model_all_of_blocks_needs_the_same_with_all_kernels(format: str) -> None:
    model = load_model(fused("none"))
    found = {
        tuple(arena.nbytes for arena in declared_arenas(model, runtime_for(format, kernels)))
        for kernels in ("reference", "cmsis-nn", "esp-nn")
    }
    assert len(found) == 1 and len(found.pop()) == 1


@pytest.mark.parametrize(("tail", "margin"), [("reshape", False), ("softmax", True)])
def test_a_margin_is_added_for_operators_of_espressifs_kernels(tail: str, margin: bool) -> None:
    """A RESHAPE runs on the reference kernel with ESP-NN, too: there is nothing that versions of it could change."""
    model = load_model(fused(tail))
    reference, optimised = (declared_arenas(model, runtime_for("esp-idf", kernels))[-1] for kernels in _BOTH)
    assert (optimised.margin > 0) == (optimised.nbytes > reference.nbytes) == margin


def test_each_kind_of_build_fits_into_arduinos_arena() -> None:
    for model in map(load_model, (fused(), chained("float"), network())):
        for smaller in (ARM, WIDE_ENUMS):
            assert arena_for(model, smaller).total <= arena_for(model, FULL_STRUCTS).total


@pytest.mark.parametrize("format", FORMATS)
def test_registers_just_the_operators_used(format: str, tmp_path: Path) -> None:
    header = (exported(chained("float"), tmp_path / "model", format) / "model_ops.h").read_text()
    assert re.findall(r"if \((.*) != kTfLiteOk\)", header) == [
        "tflite_fuse_register(ops)",
        "ops.AddSoftmax()",
        "ops.AddDequantize()",
    ]
    assert "MicroMutableOpResolver<3>" in header


def test_a_model_that_is_not_fused_needs_no_library_header(tmp_path: Path) -> None:
    header = (exported(network(), tmp_path / "model", "arduino") / "model_ops.h").read_text()
    assert "tflite_fuse" not in header.partition("\n")[2]
    assert "ops.AddDepthwiseConv2D()" in header


def test_every_method_name_is_one_of_the_runtimes() -> None:
    """Names as TensorFlow Lite Micro spells them where its spelling is not the rule."""
    known = {
        "AVERAGE_POOL_2D": "AddAveragePool2D",
        "SPACE_TO_BATCH_ND": "AddSpaceToBatchNd",
        "LOG_SOFTMAX": "AddLogSoftmax",
        "RELU6": "AddRelu6",
        "PADV2": "AddPadV2",
        "SELECT_V2": "AddSelectV2",
        "L2_NORMALIZATION": "AddL2Normalization",
        "UNIDIRECTIONAL_SEQUENCE_LSTM": "AddUnidirectionalSequenceLSTM",
        "BATCH_MATMUL": "AddBatchMatMul",
        "CUSTOM:SignalPCAN": "AddPCAN",
    }
    for name, method in known.items():
        assert registration(name) == f"ops.{method}()"
        assert name.startswith("CUSTOM:") or name in BUILTIN_CODES


@pytest.mark.parametrize("format", FORMATS)
def test_two_arrays_take_the_place_of_one_arena(format: str, tmp_path: Path) -> None:
    written = export_model(fused(), tmp_path / "model", format, two_arenas=True)
    program = tmp_path / "model" / FORMATS[format]
    header = (program / "model_data.h").read_text()
    sizes = [int(size) for size in re.findall(r"#define MODEL_(?:PERSISTENT|ACTIVATIONS)_BYTES (\d+)", header)]
    assert sum(sizes) == written.arena_bytes and all(f"{size:,}" in written.notes[1] for size in sizes)
    flags = ('-DMODEL_PERSISTENT_SECTION=__attribute__((section(".slow")))',)
    said = run_with_stand_ins(program, format, 6, tmp_path, *flags)
    assert "persistent: sound\n" in said and "output 0[0] = 7\n" in said
    assert f"arena: 1000 bytes used, {sum(sizes) - 1000} free (MODEL_ARENA_BYTES)\n" in said


def test_two_arrays_need_the_runtime(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two arenas are for projects with TensorFlow Lite Micro"):
        export_model(fused(), tmp_path / "model", "c", two_arenas=True)


@pytest.mark.parametrize("generation", [min(GENERATIONS), max(GENERATIONS)])
@pytest.mark.parametrize("format", FORMATS)
def test_the_program_compiles_and_runs_against_stand_ins(format: str, generation: int, tmp_path: Path) -> None:
    program = exported(fused(), tmp_path / "model", format)
    said = run_with_stand_ins(program, format, generation, tmp_path)
    assert "output 0[0] = 7\n" in said and "failed" not in said
    assert re.search(r"^arena: 1000 bytes used, \d+ free \(MODEL_ARENA_BYTES\)$", said, re.MULTILINE)


@pytest.mark.parametrize("format", FORMATS)
def test_the_program_compiles_where_interpreters_need_an_error_reporter(format: str, tmp_path: Path) -> None:
    program = exported(fused(), tmp_path / "model", format)
    reporter = tmp_path / "headers" / "tensorflow/lite/micro/micro_error_reporter.h"
    reporter.parent.mkdir(parents=True)
    reporter.write_text('#include "fake_board.h"\n')
    said = run_with_stand_ins(program, format, 1, tmp_path, "-DFAKE_REPORTER")
    assert "output 0[0] = 7\n" in said and "failed" not in said


@pytest.mark.parametrize("flags", [(), ("-DFAKE_REPORTER",)])
@pytest.mark.parametrize("format", FORMATS)
def test_resource_variables_have_room(format: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    """The runtime refuses VAR_HANDLE where the application has not asked for room for variables."""
    program = exported(counter_model(), tmp_path / "model", format)
    for name in ("micro_resource_variable", "micro_error_reporter")[: 1 + len(flags)]:
        header = tmp_path / "headers" / f"tensorflow/lite/micro/{name}.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text('#include "fake_board.h"\n')
    said = run_with_stand_ins(program, format, 1 if flags else 6, tmp_path, "-DFAKE_UNFUSED=1", *flags)
    assert said.startswith("1 variables\narena: 1000 bytes used") and "failed" not in said
    assert "micro_resource_variable.h" not in main_of(exported(fused(), tmp_path / "other", format)).read_text()


@pytest.mark.parametrize("storage", [Storage.EXTERNAL, Storage.SCRATCH])
@pytest.mark.parametrize("format", FORMATS)
def test_programs_with_inputs_outside_the_arena_compile(format: str, storage: Storage, tmp_path: Path) -> None:
    program = exported(outside(storage), tmp_path / "model", format)
    text = main_of(program).read_text()
    assert "tflite_fuse_set_outside(&outside);" in text and "interpreter->input" not in text
    assert "output 0[0] = 7\n" in run_with_stand_ins(program, format, 5, tmp_path)


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        ("FAKE_MODEL_VERSION=4", "the model's schema is not the one of this TensorFlow Lite Micro"),
        ("FAKE_ALLOCATES=0", "AllocateTensors failed; if memory is missing, raise MODEL_ARENA_BYTES in model_data.h"),
        ("FAKE_INVOKES=0", "Invoke failed"),
    ],
)
@pytest.mark.parametrize("format", ["arduino", "esp-idf"])
def test_the_program_prints_the_error_and_stays_up(format: str, trouble: str, sentence: str, tmp_path: Path) -> None:
    said = run_with_stand_ins(exported(fused(), tmp_path / "model", format), format, 5, tmp_path, f"-D{trouble}")
    lines = [line for line in said.splitlines() if not line.startswith("arena: ")]
    assert lines == [sentence] * 2


def test_projects_name_their_dependencies(tmp_path: Path) -> None:
    for format in FORMATS:
        export_model(fused(), tmp_path / format, format)
    assert (tmp_path / "arduino" / "arduino.ino").exists()
    ini = (tmp_path / "platformio" / "platformio.ini").read_text()
    assert "framework = arduino" in ini and "lib_deps" in ini
    assert (tmp_path / "platformio" / "lib" / "tflite_fuse" / "library.json").exists()
    idf = tmp_path / "esp-idf"
    assert "project(esp_idf)" in (idf / "CMakeLists.txt").read_text()
    assert "espressif/esp-tflite-micro" in (idf / "main" / "idf_component.yml").read_text()
    assert (idf / "components" / "tflite_fuse" / "CMakeLists.txt").exists()


def test_operators_of_all_subgraphs_are_registered() -> None:
    model = load_model(network())
    names = {operator_name(model, operator) for operator in model.main.operators}
    assert set(used_operators(model)) == names
    assert len(used_operators(model)) == len(names)
