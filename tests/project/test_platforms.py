"""The package is imported and rewrites models on macOS and Windows, simulated on this machine."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.zoo.networks import inverted_residual_network
from tests import PATIENCE
from tflite_fuse.model.file import load_model, serialize_model

ROOT = Path(__file__).resolve().parents[2]
NOT_EVERYWHERE = {
    "win32": "fcntl resource pwd grp termios tty pty syslog readline crypt posix",
    "darwin": "spwd ossaudiodev",
}
"""Modules of Python's library that a system does not have."""
MISSING = {
    "win32": {
        "os": "fork geteuid getuid pread pwrite sysconf uname killpg O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_CLOEXEC",
        "signal": "SIGKILL SIGXCPU SIGHUP pthread_sigmask SIG_BLOCK SIG_SETMASK",
    },
    "darwin": {"os": "memfd_create sched_setaffinity sched_getaffinity"},
}
"""What other modules do not have there."""

PLAY = """
import asyncio, concurrent.futures, ctypes, distributed, fcntl, flatbuffers, json, multiprocessing.pool, pkgutil
import os, pathlib, resource, rich.console, rich.progress, rich.table, secrets, shutil, signal, socket, subprocess, sys
import numpy, tempfile, typer, typer.rich_utils, zipfile, matplotlib.figure, optuna
system, absent, missing, model, folder = sys.argv[1], sys.argv[2].split(), json.loads(sys.argv[3]), *sys.argv[4:]
sys.platform = system
for name in (*absent, "tflite_micro", "ai_edge_litert"):
    sys.modules[name] = None
for name, attributes in missing.items():
    for each in attributes.split():
        if hasattr(sys.modules[name], each):
            delattr(sys.modules[name], each)
"""

IMPORTS = """
import importlib, tflite_fuse
for found in pkgutil.walk_packages(tflite_fuse.__path__, "tflite_fuse."):
    if not found.name.startswith("tflite_fuse.explorer") and found.name != "tflite_fuse.__main__":
        importlib.import_module(found.name)
print(len([name for name in sys.modules if name.startswith("tflite_fuse.")]))
"""

USES = """
import tflite_fuse
from tflite_fuse.cli import main
result = tflite_fuse.rewrite(model)
result.save(folder + "/small.tflite")
print(result.report.unverified)
sys.argv[:] = ["tflite-fuse", "export", folder + "/small.tflite", folder + "/project", "--format", "c"]
main()
"""


def played(system: str, program: str, *arguments: str) -> str:
    """What a program prints where Python says that it runs on a system."""
    import json

    found = subprocess.run(
        [sys.executable, "-c", PLAY + program, system, NOT_EVERYWHERE[system], json.dumps(MISSING[system]), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=ROOT,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def imported_at_load(path: Path) -> Iterator[str]:
    """Modules that a module imports when it is imported itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_no_module_loads_packages_a_system_lacks() -> None:
    lacking = set(" ".join(NOT_EVERYWHERE.values()).split())
    found = {str(path): lacking.intersection(imported_at_load(path)) for path in (ROOT / "tflite_fuse").rglob("*.py")}
    assert not {path: names for path, names in found.items() if names}


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_every_module_is_imported(system: str) -> None:
    assert int(played(system, IMPORTS, "", "")) > 300


@pytest.mark.slow
@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_a_model_is_rewritten_proven_and_exported(system: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(serialize_model(inverted_residual_network(size=24, blocks=2)))
    said = played(system, USES, str(path), str(tmp_path))
    assert "its package is for Linux on x86-64" in said
    assert load_model((tmp_path / "small.tflite").read_bytes()).main.operators
    assert (tmp_path / "project" / "model.c").exists() and not list(tmp_path.glob(".tflite-fuse-*"))
