"""The cost of an import: heavy libraries are loaded on use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts.zoo.networks import inverted_residual_network
from tflite_fuse.model.file import serialize_model

HEAVY = ("numpy", "networkx", "rich", "typer", "tflite", "flatbuffers")


def loaded_by(program: str) -> set[str]:
    code = f"import sys; {program}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split())


def test_the_package_itself_loads_nothing_heavy() -> None:
    loaded = loaded_by("import tflite_fuse; tflite_fuse.Goal(max_compute=1.3); tflite_fuse.__version__")
    assert "tflite_fuse.errors" in loaded and not loaded.intersection(HEAVY)


def test_a_model_is_read_without_importing_search_or_printing() -> None:
    loaded = loaded_by("import tflite_fuse.model")
    assert not loaded.intersection({"networkx", "rich", "typer", "tflite"})


def test_the_interface_is_imported_on_demand() -> None:
    program = "import tflite_fuse; assert all(hasattr(tflite_fuse, name) for name in tflite_fuse.__all__)"
    assert not loaded_by(program).intersection({"rich", "typer", "tflite"})
    assert loaded_by(f"{program}; from tflite_fuse import rewrite, Result") >= {"tflite_fuse.api"}


def test_a_rewrite_without_verification_loads_nothing_that_compares(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(serialize_model(inverted_residual_network(size=24, blocks=2)))
    loaded = loaded_by(f"from tflite_fuse import rewrite; assert rewrite({str(path)!r}, verify=False).report.blocks")
    assert "tflite_fuse.check" in loaded
    idle = (
        "runtime.comparing.witnesses",
        "runtime.inputs",
        "passes.sliding.stream",
        "rewriting.advice",
        "pipelines",
        "pages",
    )
    assert not loaded.intersection(f"tflite_fuse.{name}" for name in idle)
    assert not loaded.intersection({"numpy.random", "numpy.ma", "importlib.metadata", "html", "tomllib", "secrets"})
