"""The output of scripts/demo: few lines with before, after, the checks and the next step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import PATIENCE
from tflite_fuse.runtime import tflm

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_the_demo_prints_at_most_twelve_lines_with_next_steps() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "demo.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) <= 12
    for word in ("bytes (-", "allocate a tensor arena of", "kernels tested on", "next: tflite-fuse", "the same bytes"):
        assert any(word in line for line in lines), word
