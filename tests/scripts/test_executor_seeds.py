"""The seeds of the block fuzzers run without a report, with the stack at the end of 32 bits of memory."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.fuzzing import executor, libfuzzer


@pytest.mark.parametrize("target", [t for t in executor.TARGETS if "32" in t.name], ids=lambda target: target.name)
def test_no_pointer_leaves_memory(target: libfuzzer.Target, tmp_path: Path) -> None:
    """A pointer moved by the dilation of a window of one tap, up to 131,068 bytes, got around the end of memory."""
    program = libfuzzer._built(target)
    if isinstance(program, str) or shutil.which("setarch") is None:
        pytest.skip("no clang for 32 bits, or no way to keep the stack in its place")
    command = ["setarch", "-R", str(program), "-runs=0", str(libfuzzer.seeds_folder(target.seeds))]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
