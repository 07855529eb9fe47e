"""What several tests of workers in C need, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arduino.fake_runtime import WARNINGS, build, compiler, library_objects
from tflite_fuse.runtime.library.sources import library_directory

HERE = Path(__file__).parent
SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A worker as a process: FRAGMENT ADDRESS."""
    path = tmp_path_factory.mktemp("worker") / "worker"
    own = [HERE / "c" / "worker.c", *library_objects()]
    build([compiler("gcc"), "-std=c11", *WARNINGS, *SANITIZE, f"-I{library_directory()}", *own, "-o", path])
    return path
