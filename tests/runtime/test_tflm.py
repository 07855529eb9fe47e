from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pytest

from tests.conftest import SHARED
from tests.runtime.small_models import code, counter_model, custom_model, dense_model
from tflite_fuse.errors import ModelError, RuntimeUnavailableError, TfliteFuseError
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model import schema as s
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.runtime.processes.worker import Worker, WorkerKind, worker

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

PUBLISHED_HEADS = {
    "tflm_person_detect_int8": 55_296,
    "mlperf_tiny_vww96_int8": 73_728,
    "mlperf_tiny_dscnn_kws_int8": 16_000,
    "mlperf_tiny_resnet8_int8": 49_152,
    "mlperf_tiny_autoencoder_int8": 768,
    "mlperf_tiny_wakeword1d_int8": 6_656,
    "mcunet_vww1_float_io_int8": 161_472,
}


def step(*values: int) -> list[np.ndarray]:
    return [np.array([values], np.int8)]


def dense_by_hand(image: np.ndarray) -> np.ndarray:
    """The dense model in float64: its scales (0.5, 0.01, 1.0) leave no value near enough to a half to round apart."""
    weights = np.random.default_rng(1).integers(-90, 90, (7, 12)).astype(np.int64)
    sums = (image.astype(np.int64) - 3) @ weights.T + np.arange(7) * 10
    return np.clip(np.round(sums * 0.005), -128, 127)


def test_outputs_are_the_models() -> None:
    inputs = generate_inputs(load_model(dense_model()), 16)
    result = tflm.run(dense_model(), inputs)
    for (image,), (scores,) in zip(inputs, result.outputs, strict=True):
        assert scores.dtype == np.int8
        assert scores.shape == (1, 7)
        np.testing.assert_allclose(scores, dense_by_hand(image), atol=1)


def test_arena_is_head_and_tail() -> None:
    arena = tflm.measure(dense_model())
    assert arena.head_bytes == 32  # input and output, 16 bytes each
    assert arena.head_bytes + arena.tail_bytes == arena.arena_used_bytes
    assert arena.sections["TfLiteEvalTensor data"] == 4 * 24
    assert tflm.run(dense_model(), [step(*range(12))]).allocations == arena


@pytest.mark.parametrize("name", PUBLISHED_HEADS)
def test_heads_of_public_models(name: str) -> None:
    path = SHARED / f"models/{name}.tflite"
    if not path.exists():
        pytest.skip("no models beside the project")
    assert tflm.measure(path.read_bytes()).head_bytes == PUBLISHED_HEADS[name]


def test_large_arena_is_found() -> None:
    """Two activations of 12 MB: the first arena is too small."""
    arena = tflm.measure(dense_model(features=12_000_000, units=1))
    assert arena.head_bytes == 12_000_000 + 16


def test_state_is_reset_or_carried_on() -> None:
    inputs = [step(1, 2, 3, 4), step(10, 10, 10, 10)]
    fresh = tflm.run(counter_model(), inputs).outputs
    stream = tflm.run(counter_model(), inputs, reset=False).outputs
    assert fresh[1][0].tolist() == [[10, 10, 10, 10]]
    assert stream[1][0].tolist() == [[11, 12, 13, 14]]
    assert tflm.run(counter_model(), inputs, reset=False).outputs[0][0].tolist() == [[1, 2, 3, 4]]


def test_unknown_operator_is_named() -> None:
    with pytest.raises(ModelError, match="SOME_OPERATOR"):
        tflm.measure(custom_model("SOME_OPERATOR", b""))


def test_operator_the_runtime_does_not_have_is_named() -> None:
    model = load_model(dense_model())
    foreign = s.Model(3, (code("CONV_3D"),), model.subgraphs, "", model.buffers)
    with pytest.raises(ModelError, match="CONV_3D"):
        tflm.measure(serialize_model(foreign))


def test_arrays_must_fit_the_inputs() -> None:
    with pytest.raises(ModelError, match=r"input 0 of the model is int8 \[1, 12\]"):
        tflm.run(dense_model(), [[np.zeros((1, 12), np.float32)]])
    with pytest.raises(ModelError, match="1 inputs but 2 arrays"):
        tflm.run(dense_model(), [step(*range(12)) * 2])


@pytest.mark.parametrize("seed", range(12))
def test_broken_bytes_give_our_errors_only(seed: int) -> None:
    """Bytes that reach the runtime unchecked: whatever happens in the child, the caller gets one of our errors."""
    randomness = np.random.default_rng(seed)
    broken = bytearray(dense_model())
    for _ in range(4):
        broken[int(randomness.integers(len(broken)))] = int(randomness.integers(256))
    cut = int(randomness.integers(len(broken))) if seed % 3 == 0 else len(broken)
    try:
        with worker(WorkerKind()) as child:
            child.load(bytes(broken[:cut]))
            child.infer(step(*range(12)))
    except TfliteFuseError as error:
        assert "\n" not in str(error)


def test_empty_and_foreign_bytes_are_refused() -> None:
    for content in (b"", b"TFL3", b"\0" * 64, b"PK\x03\x04" * 100):
        with pytest.raises(ModelError):
            tflm.measure(content)


def test_a_crash_is_a_sentence_and_the_next_model_runs() -> None:
    with pytest.raises(ModelError, match="SIGSEGV"), worker(WorkerKind()) as child:
        child.load(dense_model())
        os.kill(child.process_id, signal.SIGSEGV)
        child.infer(step(*range(12)))
    assert tflm.measure(dense_model()).head_bytes == 32


def test_a_hanging_runtime_is_ended() -> None:
    with pytest.raises(ModelError, match=r"took longer than 0\.2 s"), worker(WorkerKind()) as child:
        child.load(dense_model())
        os.kill(child.process_id, signal.SIGSTOP)
        child.infer(step(*range(12)), timeout=0.2)


def test_the_model_decides_how_long_it_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def short_patience(model: bytes) -> float:
        asked.append(model)
        return 0.2 if len(asked) > 1 else 60.0

    monkeypatch.setattr("tflite_fuse.runtime.processes.worker.inference_seconds", short_patience)
    slow = dense_model(units=5)
    with pytest.raises(ModelError, match=r"took longer than 0\.2 s"), worker(WorkerKind()) as child:
        child.load(dense_model())
        for _ in range(2):
            child.infer(step(*range(12)))
        child.load(slow)
        os.kill(child.process_id, signal.SIGSTOP)
        child.infer(step(*range(12)))
    assert asked == [dense_model(), slow]


def test_noise_of_the_runtime_does_not_disturb() -> None:
    """Every allocation report is noise on file descriptor 2; a model that prints errors first must still load."""
    with worker(WorkerKind()) as child:
        child.load(dense_model(features=20_000_000, units=1))
        child.load(dense_model())
        for _ in range(3):
            assert "Arena allocation head 32 bytes" in child.allocations_text()
            assert child.infer(step(*range(12)))[0].shape == (1, 7)


def test_one_child_serves_many_models() -> None:
    with worker(WorkerKind()) as child:
        child.load(dense_model())
        first = child.process_id
    with worker(WorkerKind()) as child:
        child.load(counter_model())
        assert child.process_id == first
        assert child.inputs[0].shape == (1, 4)


def test_a_missing_wheel_is_named_with_its_package() -> None:
    standard_library = [each for each in sys.path if "site-packages" not in each]
    with pytest.raises(RuntimeUnavailableError, match=r"pip install 'tflite-micro=="):
        Worker(WorkerKind(), standard_library)


def test_version_is_the_installed_wheels() -> None:
    assert tflm.runtime_version() is not None
