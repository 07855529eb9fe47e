"""The files of the C library call in one direction, and its private names stay private."""

from __future__ import annotations

import re
import shutil
import subprocess
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.drawing.packed_blocks import BUILDS
from tflite_fuse.runtime.library.compiler import find_compiler
from tflite_fuse.runtime.library.sources import library_directory, library_sources

TABLES = {"tflite_fuse_kinds"}
"""Files that only list kernels: an address in a table of kinds is no call."""

pytestmark = pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")


@pytest.fixture(scope="module", params=BUILDS.values(), ids=BUILDS)
def symbols(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Of each source file its global symbols and their types, as nm writes them."""
    folder = tmp_path_factory.mktemp("objects")
    command = [*find_compiler().command, "-std=c11", "-O0", *request.param, "-c", *map(str, library_sources())]
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
    assert includes["tflite_fuse_block.c"] == {"tflite_fuse_machine.h"}
    assert not [name for names in includes.values() for name in names if name.endswith(".c")]
    TopologicalSorter(includes).prepare()


def test_only_names_of_public_headers_are_exported(tmp_path: Path) -> None:
    """What the executor and the kernels share among themselves is hidden."""
    sources = [path for path in library_sources() if path.parent.name not in ("worker", "link")]
    library = tmp_path / "library.so"
    command = [*find_compiler().command, "-std=c11", "-O0", "-fPIC", "-shared", "-o", library, *sources]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in listing.splitlines()}
    headers = "".join(path.read_text() for path in library_directory().glob("*.h"))
    assert {"tflite_fuse_prepare", "tflite_fuse_kernel_of"} <= exported
    assert [name for name in exported if not re.search(rf"\b{name}\(", headers)] == []


def test_macros_have_the_prefix_and_no_file_switches_optimization() -> None:
    paths = [path for part in ("executor", "kernels") for path in (library_directory() / part).rglob("*.[ch]")]
    texts = {path.name: path.read_text() for path in paths}
    named = re.compile(r"^\s*#\s*define (?!TFLITE_FUSE_)(\w+)", re.MULTILINE)
    assert {name: found for name, text in texts.items() if (found := named.findall(text))} == {}
    switched = re.compile(r"#\s*pragma (GCC|clang) (optimize|push_options)|__attribute__\(\(.*optimize")
    assert [name for name, text in texts.items() if switched.search(text)] == []
