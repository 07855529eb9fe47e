"""A wheel of the package contains the device library: export works without the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.compiling import made_once
from tests.export.exported import FOR_ANY_MODEL, fused, run
from tflite_fuse.export import export_model

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "tflite_fuse", "arduino", "schemas")

EXPORT_ALL = """
import sys
from pathlib import Path
import tflite_fuse
from tflite_fuse.export import export_model
assert Path(tflite_fuse.__file__).is_relative_to(sys.argv[1]), tflite_fuse.__file__
for name in sys.argv[4:]:
    export_model(sys.argv[2], Path(sys.argv[3]) / name, name)
"""


@pytest.fixture(scope="module")
def installed() -> Path:
    """The content of a wheel built from a copy of this checkout."""
    return made_once("wheel", _install) / "site"


def _install(folder: Path) -> None:
    (folder / "checkout").mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / "checkout" / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, folder / "checkout" / part)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, folder / "checkout"]
    built = subprocess.run(pip, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")


def test_has_every_file_of_the_library_but_the_examples_that_no_command_reads(installed: Path) -> None:
    sources = ROOT / "arduino"
    for path in sources.rglob("*"):
        if path.is_file() and sources / "examples" not in path.parents:
            copy = installed / "tflite_fuse" / "_arduino" / path.relative_to(sources)
            assert copy.read_bytes() == path.read_bytes(), path


def test_exports_equal_those_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(fused())
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [
        sys.executable,
        "-c",
        EXPORT_ALL,
        installed,
        tmp_path / "model.tflite",
        tmp_path / "installed",
        *FOR_ANY_MODEL,
    ]
    run(command, env=environment, cwd=tmp_path)
    for name in FOR_ANY_MODEL:
        here = export_model(tmp_path / "model.tflite", tmp_path / "here" / name, name)
        for path in here.files:
            there = tmp_path / "installed" / path.relative_to(tmp_path / "here")
            assert there.read_bytes() == path.read_bytes(), path
