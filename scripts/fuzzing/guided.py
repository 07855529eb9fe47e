"""Damaged files through load and inspect, chosen by the lines they reach (atheris, libFuzzer for Python)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from scripts.fuzzing import libfuzzer
from scripts.fuzzing.seeds import SEEDS

_LONGEST = 8192


def _seeds() -> list[bytes]:
    return [data for make in SEEDS.values() if len(data := make()) <= _LONGEST]


def run(first: int, seconds: int) -> tuple[int, str]:
    """Return executions done, and what ended them if that was not the time. Arguments as of ``Target.run``."""
    if importlib.util.find_spec("atheris") is None:
        return 0, "not run: atheris is not installed, or has no build for this Python"
    command = [sys.executable, str(Path(__file__).with_name("guided_target.py")), "-timeout=30", f"-max_len={_LONGEST}"]
    return libfuzzer.run("guided", command, libfuzzer.seeds_folder(_seeds), first, seconds)
