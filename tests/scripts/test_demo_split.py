"""The demo of splits: three boards or processes, TFLM's bytes, one lost and found again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.device.split.boards import board
from tests.split.networks import branching_model
from tflite_fuse.model import save_model
from tflite_fuse.runtime import tflm

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("where", ["boards", "processes"])
def test_the_demo_splits_runs_and_recovers(where: str, tmp_path: Path) -> None:
    if where == "boards" and (missing := board().missing()):
        pytest.skip(f"{', '.join(missing)} not installed")
    save_model(branching_model(), tmp_path / "model.tflite")
    command = [sys.executable, ROOT / "scripts" / "demo_split.py", tmp_path / "model.tflite", "--on", where]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The same bytes as tflite-micro" in done.stdout and "worker middle is lost" in done.stderr
