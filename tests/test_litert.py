"""A rewritten model in LiteRT on a PC: the bytes of TensorFlow Lite Micro, with LiteRT's own interface."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo.networks import cell_network, inverted_residual_network
from tests.compiling import rewritten_by_default
from tests.conftest import SHARED_MODELS, UNKNOWN_TO_THE_WHEEL
from tests.drawing.raw_streams import RawStream
from tests.float_models import with_float_borders
from tests.uint8_models import with_uint8_borders
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.emit.options import sealed
from tflite_fuse.errors import ModelError, RuntimeUnavailableError, UsageError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.runtime import litert, tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.runtime.processes.worker import Array

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    not (litert.available() and tflm.available()), reason="LiteRT or the tflite-micro wheel is not installed"
)

SMALL = {
    "int8": inverted_residual_network(size=24, blocks=2),
    "float32 borders": with_float_borders(inverted_residual_network(size=24, blocks=2)),
    "uint8 borders": with_uint8_borders(inverted_residual_network(size=24, blocks=2)),
    "several outputs of cells": cell_network(),
}


def fused(model: Model) -> bytes:
    return tflite_fuse.rewrite(serialize_model(model), verify=False).model


def run(interpreter: object, arrays: list[Array]) -> list[bytes]:
    """One inference as any program that uses LiteRT writes it."""
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):  # type: ignore[attr-defined]
        interpreter.set_tensor(detail["index"], array)  # type: ignore[attr-defined]
    interpreter.invoke()  # type: ignore[attr-defined]
    details = interpreter.get_output_details()  # type: ignore[attr-defined]
    return [interpreter.get_tensor(detail["index"]).tobytes() for detail in details]  # type: ignore[attr-defined]


def assert_tflms_bytes(data: bytes, count: int) -> None:
    inputs = generate_inputs(load_model(data), count)
    interpreter = tflite_fuse.litert.interpreter(data)
    interpreter.allocate_tensors()
    expected = [[each.tobytes() for each in outputs] for outputs in tflm.run(data, inputs).outputs]
    assert [run(interpreter, list(arrays)) for arrays in inputs] == expected


@pytest.mark.parametrize("name", SMALL)
def test_blocks_compute_tflms_bytes(name: str) -> None:
    assert_tflms_bytes(fused(SMALL[name]), 8)


@pytest.mark.parametrize("path", [Path(SAMPLE_MODEL), *SHARED_MODELS], ids=lambda path: path.stem)
def test_public_models_compute_tflms_bytes(path: Path) -> None:
    if path.stem not in UNKNOWN_TO_THE_WHEEL:
        assert_tflms_bytes(rewritten_by_default(path), 2)


@pytest.mark.parametrize("name", SMALL)
def test_inputs_keep_their_values_and_a_second_run_is_equal(name: str) -> None:
    data = fused(SMALL[name])
    interpreter = tflite_fuse.litert.interpreter(data)
    interpreter.allocate_tensors()
    (arrays,) = generate_inputs(load_model(data), 1)
    first = run(interpreter, list(arrays))
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        assert (interpreter.get_tensor(detail["index"]) == array).all()
    interpreter.invoke()
    interpreter.allocate_tensors()
    assert run(interpreter, list(arrays)) == first


def test_a_stream_remembers_until_it_is_reset_and_two_interpreters_apart() -> None:
    model = RawStream()
    source = model.tensor((1, 1, 1, 4), 0.1, -5)
    data = fused(model.stream([source], [model.window(source, 3, 3, "SLICE", None)]))
    steps = [np.full((1, 1, 1, 4), value, np.int8) for value in range(5)]
    expected = [
        [each.tobytes() for each in out] for out in tflm.run(data, [[each] for each in steps], reset=False).outputs
    ]
    one, other = (tflite_fuse.litert.interpreter(data) for _ in range(2))
    one.allocate_tensors()
    other.allocate_tensors()
    run(other, [steps[4]])
    assert [run(one, [step]) for step in steps] == expected
    one.reset_all_variables()
    assert [run(one, [step]) for step in steps] == expected


def test_a_path_and_a_model_without_blocks_work(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(serialize_model(SMALL["int8"]))
    interpreter = tflite_fuse.litert.interpreter(path, num_threads=2)
    interpreter.allocate_tensors()
    assert interpreter.get_input_details()[0]["dtype"] is np.int8


def test_without_this_door_the_message_is_that_of_the_questions() -> None:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=fused(SMALL["int8"]))
    with pytest.raises(RuntimeError, match="Encountered unresolved custom op: TFLITE_FUSE"):
        interpreter.allocate_tensors()
    assert '## "Encountered unresolved custom op: TFLITE_FUSE"' in (ROOT / "docs" / "faq.md").read_text()


def test_a_damaged_block_is_refused_in_the_librarys_words() -> None:
    model = load_model(fused(SMALL["int8"]))
    damaged = [
        each
        if each.custom_options is None
        else each.__class__(**{**each.__dict__, "custom_options": sealed(each.custom_options, b"")})
        for each in model.main.operators
    ]
    interpreter = tflite_fuse.litert.interpreter(serialize_model(replace_operators(model, damaged)))
    with pytest.raises(RuntimeError, match=r"TFLITE_FUSE: .*damaged"):
        interpreter.allocate_tensors()


@pytest.mark.parametrize("content", [b"", b"TFL3", serialize_model(SMALL["int8"])[:500]])
def test_a_damaged_file_is_refused_before_litert_reads_it(content: bytes) -> None:
    with pytest.raises(ModelError):
        tflite_fuse.litert.interpreter(content)


def test_impossible_requests_are_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = serialize_model(SMALL["int8"])
    streamed = tflite_fuse.rewrite(data, input_mode="streamed", verify=False).model
    with pytest.raises(ModelError, match="has an input outside of the arena"):
        tflite_fuse.litert.interpreter(streamed)
    with pytest.raises(UsageError, match="cannot be read"):
        tflite_fuse.litert.interpreter(tmp_path / "absent.tflite")
    with monkeypatch.context() as played:
        played.setattr(sys, "platform", "win32")
        with pytest.raises(RuntimeUnavailableError, match="only on Linux and macOS"):
            tflite_fuse.litert.interpreter(data)
    for name in ("ai_edge_litert.interpreter", "tensorflow.lite.python.interpreter", "tflite_runtime.interpreter"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RuntimeUnavailableError, match="pip install 'ai-edge-litert>="):
        tflite_fuse.litert.interpreter(data)
