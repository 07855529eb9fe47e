"""The files of the C library call in one direction, and its private names stay private."""

from __future__ import annotations

import re
import shutil
import subprocess
from graphlib import CycleError, TopologicalSorter

import pytest

from tflite_fuse.run.library.compiler import find_compiler
from tflite_fuse.run.library.sources import library_directory, library_sources

TABLES = {"tflite_fuse_kinds"}
"""Files that only list kernels: an address in a table of kinds is no call."""

pytestmark = pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")


@pytest.fixture(scope="module")
def symbols(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Of each source file its global symbols and their types, as nm writes them."""
    folder = tmp_path_factory.mktemp("objects")
    command = [*find_compiler().command, "-std=c11", "-O1", "-c", *map(str, library_sources())]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    found = {}
    for path in sorted(folder.glob("*.o")):
        listing = subprocess.run(["nm", "-g", path], check=True, capture_output=True, text=True).stdout
        words = [line.split()[-2:] for line in listing.splitlines() if line]
        found[path.stem] = {name: kind for kind, name in words if name.startswith("tflite_fuse_")}
    return found


def test_no_two_files_call_each_other_in_a_circle(symbols: dict[str, dict[str, str]]) -> None:
    home = {name: file for file, names in symbols.items() for name, kind in names.items() if kind not in "Uw"}
    calls = {
        file: {home[name] for name, kind in names.items() if kind in "Uw" and name in home} - {file}
        for file, names in symbols.items()
        if file not in TABLES
    }
    assert len(calls) > 40 and "tflite_fuse_block" in calls["tflite_fuse_invoke"]
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_two_files_include_each_other_in_a_circle() -> None:
    included = re.compile(r'^#include "(?:[./a-z]+/)?(tflite_fuse\w*\.[ch])"', re.MULTILINE)
    paths = [path for path in library_directory().rglob("*") if path.suffix in (".c", ".h")]
    includes = {path.name: set(included.findall(path.read_text())) for path in paths}
    assert "tflite_fuse_machine.h" in includes["tflite_fuse_block.c"]
    TopologicalSorter(includes).prepare()
