from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

from scripts.zoo import ModelBuilder
from tests.builders import random_models
from tests.conftest import UNKNOWN_TO_THE_WHEEL, shared_models
from tests.memory.one_operator import I8, I16, MODELS, Maker
from tests.memory.tflm.wheel_build import HOST
from tflite_fuse.errors import ModelError
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.greedy_planner import greedy_head
from tflite_fuse.memory.tflm.offline_plan import read_plan, write_plan
from tflite_fuse.memory.tflm.struct_sizes import ARM, FUSED_BLOCK_BYTES, WIDE_ENUMS
from tflite_fuse.memory.tflm.tail import loading_bytes, predict_tail
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.rewriting.figures import arena_in_file
from tflite_fuse.runtime import tflm

needs_wheel = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

ON_CORTEX_M7 = {
    "tflm_person_detect_int8": 26_996,
    "mlperf_tiny_vww96_int8": 26_932,
    "mlperf_tiny_dscnn_kws_int8": 6_772,
    "mlperf_tiny_resnet8_int8": 5_188,
    "mlperf_tiny_autoencoder_int8": 1_492,
    "mlperf_tiny_wakeword1d_int8": 8_596,
    "mcunet_vww1_float_io_int8": 58_272,
}
"""Tails read on a Cortex-M7 with the reference kernels."""


@shared_models(*ON_CORTEX_M7)
def test_equals_the_need_of_a_cortex_m7(path: Path) -> None:
    assert predict_tail(program_of(load_model(path))).total == ON_CORTEX_M7[path.stem]


@needs_wheel
def test_equals_the_wheel_on_every_shared_model(shared_model: Path) -> None:
    data = shared_model.read_bytes()
    if shared_model.stem in UNKNOWN_TO_THE_WHEEL:
        with pytest.raises(ModelError, match="cannot load"):
            tflm.measure(data)
    else:
        assert predict_tail(program_of(load_model(data)), HOST).total == tflm.measure(data).tail_bytes


@needs_wheel
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_wheel_on_every_kind_of_operator(name: str) -> None:
    assert predict_tail(program_of(MODELS[name]), HOST).total == tflm.measure(serialize_model(MODELS[name])).tail_bytes


@needs_wheel
@given(random_models(variables=True))
@settings(max_examples=15)
def test_equals_the_wheel_on_random_models(model: Model) -> None:
    assert predict_tail(program_of(model), HOST).total == tflm.measure(serialize_model(model)).tail_bytes


def test_the_parts_add_up() -> None:
    tail = predict_tail(program_of(MODELS["CONV_2D"]))
    assert tail.tables == 2 * 32
    assert tail.tensors == 4 * 12
    assert tail.nodes == 32
    assert tail.total == sum(
        (
            tail.runtime,
            tail.tensors,
            tail.nodes,
            tail.options,
            tail.operators,
            tail.tables,
            tail.custom,
            tail.scratch_handles,
            tail.variables,
            tail.edges,
        )
    )


@pytest.mark.parametrize("name", MODELS)
def test_builds_with_wide_enums_never_need_less(name: str) -> None:
    arm, wide = (
        predict_tail(program_of(MODELS[name]), ARM).total,
        predict_tail(program_of(MODELS[name]), WIDE_ENUMS).total,
    )
    assert arm < wide <= arm + 16 * 8


def test_a_variable_is_in_the_tail_unless_it_is_planned() -> None:
    model = MODELS["SVDF"]
    offsets = [-1] * len(model.main.tensors)
    tail = predict_tail(program_of(model))
    assert tail.variables >= 160
    variable = next(index for index, tensor in enumerate(model.main.tensors) if tensor.is_variable)
    offsets[variable] = 0
    planned = write_plan(model, offsets)
    assert predict_tail(program_of(planned), offsets=read_plan(planned)).variables == 0
    assert greedy_head(planned).bytes >= greedy_head(model).bytes + 160


def test_custom_operators_count_their_known_memory() -> None:
    def custom(name: str) -> Model:
        maker = Maker()
        return maker.model(name, [maker.data((4,), I8)], [maker.data((4,), I16)])

    known, foreign = predict_tail(program_of(custom("TFLITE_FUSE"))), predict_tail(program_of(custom("FOREIGN")))
    assert known.custom >= FUSED_BLOCK_BYTES
    assert known.unknown == ()
    assert foreign.unknown == ("FOREIGN",)
    assert foreign.custom >= 64
    model = custom("FOREIGN")
    assert arena_in_file(model, serialize_model(model)).unknown == ("FOREIGN_0",)  # not by name and by label


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no Arm compiler")
def test_a_fused_block_keeps_the_bytes_of_its_header(tmp_path: Path) -> None:
    headers = Path(__file__).resolve().parents[3] / "arduino" / "src"
    source = tmp_path / "size.c"
    source.write_text(
        f'#include "tflite_fuse.h"\n_Static_assert(sizeof(tflite_fuse_block) == {FUSED_BLOCK_BYTES}, "size");\n'
    )
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", f"-I{headers}", "-fsyntax-only", str(source)]
    subprocess.run(command, check=True, capture_output=True)


_LOAD = """
import sys
from tflite_micro.python.tflite_micro import runtime
runtime.Interpreter.from_bytes(open(sys.argv[1], "rb").read(), arena_size=int(sys.argv[2]))
"""


def loads(model: Model, arena: int, folder: Path) -> bool:
    path = folder / "model.tflite"
    path.write_bytes(serialize_model(model))
    command = [sys.executable, "-c", _LOAD, str(path), str(arena)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def used_bytes(model: Model) -> int:
    return predict_tail(program_of(model), HOST).total + greedy_head(model, pointer_bytes=8).bytes


@needs_wheel
@pytest.mark.parametrize("name", ["CONV_2D", "MEAN", "CONCATENATION"])
def test_the_runtime_loads_a_tiny_model_in_the_predicted_arena(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    assert loads(model, max(used_bytes(model), loading_bytes(program_of(model), HOST)), tmp_path)
    assert not loads(model, used_bytes(model), tmp_path)


@needs_wheel
def test_the_runtime_needs_the_predicted_arena_to_plan(tmp_path: Path) -> None:
    builder = ModelBuilder(seed=0)
    x = builder.input((1, 2, 2, 1))
    for _ in range(30):
        x = builder.max_pool(x, 1, 1)
    model = builder.build([x])
    loading = loading_bytes(program_of(model), HOST)
    assert loading > used_bytes(model)
    assert loads(model, loading, tmp_path)
    assert not loads(model, loading - 56, tmp_path)
