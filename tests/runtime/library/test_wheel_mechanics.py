"""The mechanics of a custom operator in the wheel, with an operator of a few lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.runtime.small_models import custom_model, dense_model
from tflite_fuse.errors import ModelError
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.library.compiler import build_library, sanitizer_environment
from tflite_fuse.runtime.library.sources import shim_directory
from tflite_fuse.runtime.processes.worker import WorkerKind, worker

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

SOURCES = [Path(__file__).with_name("copy_operator.c"), shim_directory() / "tflm_wheel.c"]
STRICT = ["-Wconversion", "-Wpedantic", "-Werror"]


@pytest.fixture(params=[False, True], ids=["plain", "sanitized"])
def kind(request: pytest.FixtureRequest) -> WorkerKind:
    library = build_library("copy", SOURCES, [shim_directory()], sanitize=request.param, flags=STRICT)
    environment = sanitizer_environment() if request.param else ()
    return WorkerKind("tflm", (str(library),), ("register_copy",), environment)


def test_operator_runs_beside_the_built_in_ones(kind: WorkerKind) -> None:
    image = np.arange(32, dtype=np.int8).reshape(1, 4, 4, 2)
    expected = image + np.tile(np.arange(16, dtype=np.int8), 2).reshape(image.shape)
    with worker(kind) as child:
        for _ in range(2):
            child.load(custom_model("COPY", b"\x07", scratch=500))
            assert (child.infer([image])[0] == expected).all()
            # 32 B input, 32 B output and the scratch, which nobody reads, are planned together.
            assert tflm.parse_allocations(child.allocations_text()).head_bytes == 32 + 32 + 512
        child.load(dense_model())
        assert child.infer([np.zeros((1, 12), np.int8)])[0].shape == (1, 7)


def test_refusal_in_prepare_is_a_sentence(kind: WorkerKind) -> None:
    with pytest.raises(ModelError, match="COPY: options of 2 bytes are not 7"), worker(kind) as child:
        child.load(custom_model("COPY", b"\x07\x07"))


def test_other_names_stay_unknown(kind: WorkerKind) -> None:
    with pytest.raises(ModelError, match="Failed to get registration"), worker(kind) as child:
        child.load(custom_model("COPY2", b"\x07"))


def test_sanitizer_reports_reach_the_caller() -> None:
    """An operator that reads past the end of the whole model file."""
    library = build_library("copy", SOURCES, [shim_directory()], sanitize=True, flags=["-DREAD_PAST_END"])
    kind = WorkerKind("tflm", (str(library),), ("register_copy",), sanitizer_environment())
    with pytest.raises(ModelError, match="AddressSanitizer"), worker(kind) as child:
        child.load(custom_model("COPY", b"\x07"))
        child.infer([np.zeros((1, 4, 4, 2), np.int8)])


def test_a_registerer_that_is_absent_is_named() -> None:
    with (
        pytest.raises(ModelError, match="no_such_function"),
        worker(WorkerKind(registerers=("no_such_function",))) as c,
    ):
        c.load(dense_model())
