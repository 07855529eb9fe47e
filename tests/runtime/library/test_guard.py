"""The sanitized build detects an access from a tensor into its neighbour; the plain one shares the memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tflite_fuse.runtime.library.compiler import build_library, sanitizer_environment
from tflite_fuse.runtime.library.sources import shim_directory

SOURCES = [Path(__file__).with_name("guard_probe.c"), shim_directory() / "guard.c"]


def probe(function: str, offset: int, sanitize: bool) -> subprocess.CompletedProcess[str]:
    library = build_library("guard", SOURCES, [shim_directory()], sanitize=sanitize)
    return subprocess.run(
        [sys.executable, "-c", f"import ctypes; print(ctypes.CDLL({str(library)!r}).{function}({offset}))"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **dict(sanitizer_environment() if sanitize else ())},
    )


@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize(("function", "value"), [("read_at", 42), ("write_at", 77)])
def test_inside_the_tensor_both_builds_agree(function: str, value: int, sanitize: bool) -> None:
    result = probe(function, 3, sanitize)
    assert result.stdout.strip() == str(value), result.stderr


@pytest.mark.parametrize("function", ["read_at", "write_at"])
def test_one_byte_past_the_tensor_is_reported(function: str) -> None:
    assert "heap-buffer-overflow" in probe(function, 16, sanitize=True).stderr
    assert probe(function, 16, sanitize=False).returncode == 0
