"""Damaged files through load and inspect, chosen by the lines they reach (atheris, libFuzzer for Python)."""

from __future__ import annotations

import functools
import importlib.util
import sys
import tempfile
from pathlib import Path

from scripts.fuzzing import libfuzzer
from scripts.fuzzing.seeds import SEEDS

_LONGEST = 8192


@functools.cache
def _seeds() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="tflite-fuse-fuzz-")
    for name, make in SEEDS.items():
        if len(data := make()) <= _LONGEST:
            (Path(folder.name) / name).write_bytes(data)
    return folder


def run(first: int, seconds: int) -> tuple[int, str]:
    """Executions done, and what ended them if that was not the time. Arguments are those of ``executor.run``."""
    if importlib.util.find_spec("atheris") is None:
        return 0, "not run: atheris is not installed, or has no build for this Python"
    command = [sys.executable, str(Path(__file__).with_name("guided_target.py")), "-timeout=30", f"-max_len={_LONGEST}"]
    return libfuzzer.run("guided", command, Path(_seeds().name), first, seconds)
