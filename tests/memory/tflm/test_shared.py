"""One arena for several models: predicted, and the least with which a real TensorFlow Lite Micro loads them all."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scripts.zoo import networks
from tests import PATIENCE
from tests.memory.tflm.wheel_build import HOST
from tests.test_cli import validate
from tflite_fuse.cli import app
from tflite_fuse.memory.tflm.shared import shared_arena
from tflite_fuse.memory.tflm.struct_sizes import Struct
from tflite_fuse.model import load_model, save_model
from tflite_fuse.runtime import tflm

_CREATE = "_ZN6tflite5micro14MicroAllocator6CreateEPhmNS0_17MemoryPlannerTypeE"
_INTERPRETER = (
    "_ZN6tflite5micro16MicroInterpreterC1EPKNS_5ModelERKNS0_15MicroOpResolverEPNS0_14MicroAllocatorE"
    "PNS0_22MicroResourceVariablesEPNS0_22MicroProfilerInterfaceE"
)
_ALLOCATE = "_ZN6tflite5micro16MicroInterpreter15AllocateTensorsEv"
_RESOLVER = "_ZN6tflite17PythonOpsResolverC1Ev"
_MOST = 1 << 20

PLAIN = replace(HOST, allocator=(Struct(72, 8), Struct(72, 8), Struct(72, 8)))
"""The wheel with an allocator that records nothing, as devices have it."""


def least_arena(paths: Sequence[str]) -> int:
    """Return the bytes with which one MicroAllocator serves an interpreter for each of the files, in this order."""
    from tflite_micro.python.tflite_micro import _runtime

    library, address = ctypes.CDLL(_runtime.__file__), ctypes.c_void_p
    create, construct, allocate, make_resolver = (
        library[name] for name in (_CREATE, _INTERPRETER, _ALLOCATE, _RESOLVER)
    )
    create.restype, create.argtypes = address, [address, ctypes.c_size_t, ctypes.c_int]
    construct.argtypes, allocate.argtypes, make_resolver.argtypes = [address] * 6, [address], [address]
    resolver = ctypes.create_string_buffer(1 << 17)
    make_resolver(ctypes.addressof(resolver))
    files = [ctypes.create_string_buffer(data, len(data)) for data in (Path(path).read_bytes() for path in paths)]
    roots = [ctypes.addressof(file) + int.from_bytes(file.raw[:4], "little") for file in files]

    def suffices(size: int) -> bool:
        memory = ctypes.create_string_buffer(size + 16)
        allocator = create(-(-ctypes.addressof(memory) // 16) * 16, size, 0)
        interpreters = [ctypes.create_string_buffer(1 << 13) for _ in roots]
        for root, interpreter in zip(roots, interpreters, strict=True):
            place = ctypes.addressof(interpreter)
            construct(place, root, ctypes.addressof(resolver), allocator, None, None)
            if allocate(place) != 0:
                return False
        return True

    low, high = 64, _MOST // 16  # below that not even the allocator is created
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(16 * middle) else (middle + 1, high)
    return 16 * low


def measured(*paths: Path) -> int:
    """The same in a process of its own: a runtime that lacks memory may end it."""
    command = [sys.executable, "-m", __spec__.name, *map(str, paths)]
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True, cwd=root)
    return int(done.stdout.split()[-1])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    made = {
        "residuals": networks.inverted_residual_network(size=24, blocks=2),
        "steps": networks.one_dimensional_network(),
        "branches": networks.branching_network(),
    }
    for name, model in made.items():
        save_model(model, folder / f"{name}.tflite")
    return [folder / f"{name}.tflite" for name in made]


@pytest.mark.slow
@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_the_runtime_loads_them_into_exactly_the_predicted_arena(models: list[Path]) -> None:
    loaded = [load_model(path) for path in models]
    for chosen in ([0], [0, 1], [1, 0], [0, 2], [0, 1, 2]):
        predicted = shared_arena([loaded[at] for at in chosen], PLAIN)
        assert 0 <= predicted - measured(*(models[at] for at in chosen)) <= 16 * len(chosen)


@pytest.mark.slow
def test_models_are_rewritten_into_a_folder_with_one_arena(models: list[Path], tmp_path: Path) -> None:
    sources = [str(path) for path in models]
    done = CliRunner().invoke(app, ["rewrite", *sources, "-o", str(tmp_path / "out"), "--no-verify"])
    assert done.exit_code == 0, done.output
    written = [load_model(tmp_path / "out" / path.name) for path in models]
    assert f"one arena for 3 models that run one after the other: {shared_arena(written):,} bytes" in done.stdout
    assert shared_arena(written) < sum(shared_arena([model]) for model in written)
    done = CliRunner().invoke(app, ["rewrite", *sources, "-o", str(tmp_path / "out"), "--no-verify", "--json"])
    printed = json.loads(done.stdout)
    validate(printed, "reports")
    assert printed["shared_arena_bytes"] == shared_arena(written)
    assert [each["file"] for each in printed["models"]] == [str(tmp_path / "out" / path.name) for path in models]
    for arguments, message in (
        ([*sources], "is a third path"),
        ([sources[0], sources[0], "-o", str(tmp_path / "again")], "two models have the same name"),
        ([*sources, "-o", str(models[0].parent)], "is one of the inputs"),
        ([*sources, "-o", str(tmp_path / "again"), "--board", "nano33ble"], "--board is for one model"),
    ):
        refused = CliRunner().invoke(app, ["rewrite", *arguments])
        assert refused.exit_code == 2 and message in refused.stderr
    assert not (tmp_path / "again").exists()


def test_the_model_that_misses_a_limit_is_named(models: list[Path], tmp_path: Path) -> None:
    sources = [str(path) for path in models]
    done = CliRunner().invoke(app, ["rewrite", *sources, "-o", str(tmp_path / "out"), "--max-ram", "1B"])
    assert done.exit_code == 1 and f"tflite-fuse: {models[0]}: an arena of 1 bytes cannot" in done.stderr
    assert not (tmp_path / "out").exists()


def test_none_is_written_where_one_of_them_cannot_be(models: list[Path], tmp_path: Path) -> None:
    (tmp_path / models[-1].name).mkdir()
    done = CliRunner().invoke(app, ["rewrite", *map(str, models), "-o", str(tmp_path), "--no-verify"])
    assert done.exit_code == 2 and "cannot be written (it is no regular file)" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [models[-1].name]


if __name__ == "__main__":
    print(least_arena(sys.argv[1:]))
