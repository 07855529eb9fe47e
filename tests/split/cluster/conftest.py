"""What several tests of workers in C need, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arduino.fake_runtime import WARNINGS, build, compiler, library_objects
from tflite_fuse.runtime.library.sources import library_directory

HERE = Path(__file__).parent
SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def _built(name: str, folder: Path, *more: str) -> Path:
    own = [HERE / "c" / f"{name}.c", HERE / "c" / "host.c", *library_objects()]
    flags = ["-std=c11", *WARNINGS, *SANITIZE, f"-I{library_directory()}"]
    build([compiler("gcc"), *flags, *own, *more, "-o", folder / name])
    return folder / name


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A worker as a process: FRAGMENT ADDRESS."""
    return _built("worker", tmp_path_factory.mktemp("worker"))


@pytest.fixture(scope="session")
def keyed_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with mbed TLS: FRAGMENT ADDRESS KEY."""
    if not Path("/usr/include/mbedtls/md.h").exists():
        pytest.skip("libmbedtls-dev is not installed")
    adapter = library_directory() / "link" / "tflite_fuse_mbedtls.c"
    more = ("-DTFLITE_FUSE_WITH_MBEDTLS", str(adapter), "-lmbedcrypto")
    return _built("worker", tmp_path_factory.mktemp("keyed"), *more)


@pytest.fixture(scope="session")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The coordinator as a process."""
    return _built("coordinator", tmp_path_factory.mktemp("coordinator"))
