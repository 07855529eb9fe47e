"""A full disk: one sentence, exit code 2, and unchanged files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.split.networks import branching_model
from tflite_fuse.model import save_model

ROOT = Path(__file__).parents[1]
FULL = Path("/dev/full")
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))  # bytes of one file, as if no more fitted on the disk
from tflite_fuse.cli import main
main()
"""
WORKERS = '[[worker]]\nname = "a"\ntarget = "cortex-m7"\nmhz = 600\n'

resource = pytest.importorskip("resource")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", ["boards", "boards --json", "--version", "--help", "split --help"])
def test_a_failed_print_ends_in_one_sentence(words: str) -> None:
    with FULL.open("w") as output:
        done = subprocess.run(
            [sys.executable, "-m", "tflite_fuse", *words.split()],
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
            cwd=ROOT,
        )
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "No space left on device" in done.stderr


@pytest.mark.parametrize("command", ["rewrite", "split", "report", "export", "sweep"])
def test_a_failed_write_ends_in_one_sentence_and_leaves_no_file(command: str, tmp_path: Path) -> None:
    model, out = tmp_path / "models" / "model.tflite", tmp_path / "out"
    model.parent.mkdir()
    save_model(branching_model(), model)
    (tmp_path / "workers.toml").write_text(WORKERS)
    out.mkdir()
    given = {
        "rewrite": [str(model), str(out / "model.tflite"), "--no-verify"],
        "split": [str(model), "--workers", str(tmp_path / "workers.toml"), "-o", str(out / "plan")],
        "report": [str(model), "-o", str(out / "page.html")],
        "export": [str(model), str(out / "project"), "--format", "arduino"],
        "sweep": [str(model.parent), "-o", str(out / "results"), "--effort", "estimate", "--jobs", "1"],
    }[command]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, command, *given], capture_output=True, check=False, text=True, cwd=ROOT
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    left = [path for path in out.rglob("*") if path.is_file() and path.stat().st_size > 0]
    assert not left or command == "sweep"  # which goes on from the rows it has
