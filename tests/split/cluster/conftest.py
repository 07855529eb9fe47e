"""Shared parts of tests of workers in C, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arduino.fake_runtime import WARNINGS, build, compiler, library_objects
from tflite_fuse.runtime.library.sources import library_directory

HERE = Path(__file__).parent
SANITIZE = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def _built(name: str, folder: Path, *more: str) -> Path:
    own = [*(HERE / "c" / f"{each}.c" for each in (name, "host", "mac")), *library_objects()]
    flags = ["-std=c11", *WARNINGS, *SANITIZE, f"-I{library_directory()}"]
    build([compiler("gcc"), *flags, *own, *more, "-lm", "-o", folder / name])
    return folder / name


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A worker as a process: FRAGMENT ADDRESS [KEY]."""
    return _built("worker", tmp_path_factory.mktemp("worker"))


@pytest.fixture(scope="session", params=["own", "mbed TLS"])
def keyed_program(request: pytest.FixtureRequest, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same by its use with a key, with signatures of the tests' own or mbed TLS's."""
    if request.param == "own":
        return program
    if not Path("/usr/include/mbedtls/md.h").exists():
        pytest.skip("libmbedtls-dev is not installed")
    adapter = library_directory() / "link" / "tflite_fuse_mbedtls.c"
    more = ("-DTFLITE_FUSE_WITH_MBEDTLS", str(adapter), "-lmbedcrypto")
    return _built("worker", tmp_path_factory.mktemp("keyed"), *more)


@pytest.fixture(scope="session")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The coordinator as a process."""
    return _built("coordinator", tmp_path_factory.mktemp("coordinator"))
