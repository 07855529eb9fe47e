"""`tflite-fuse split` on the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scripts.zoo.float_twin import float_twin
from tests.split.networks import branching_model
from tests.test_cli import validate
from tflite_fuse.cli import app
from tflite_fuse.model import save_model
from tflite_fuse.runtime import tflm
from tflite_fuse.split.cluster.folder import read_deployment

ROOT = Path(__file__).resolve().parents[2]

WORKERS = "".join(
    f'[[worker]]\nname = "{name}"\ntarget = "cortex-m7"\nmhz = {mhz}\nram = "64kB"\nflash = "68kB"\n'
    for name, mhz in (("quick", 600), ("slow", 150), ("other", 450))
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("split")
    save_model(branching_model(), path / "model.tflite")
    (path / "workers.toml").write_text(WORKERS)
    return path


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    given = ["split", str(folder / "model.tflite"), "--workers", str(folder / "workers.toml"), *arguments]
    result = CliRunner().invoke(app, given)
    return result.exit_code, result.output


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("strategy", ["paper", "even", "frequency"])
def test_a_verified_split_writes_plan_report_and_trace(folder: Path, tmp_path: Path, strategy: str) -> None:
    out = tmp_path / "plan"
    code, text = run(folder, "--strategy", strategy, "--verify", "--inputs", "1", "-o", str(out), "--json")
    report = json.loads(text)
    assert code == 0 and report["verified"]["bit_exact"] is True
    validate(report, "split")
    validate(json.loads((out / "plan.json").read_text()), "plan")
    assert json.loads((out / "report.json").read_text()) == report
    assert json.loads((out / "trace.json").read_text())["traceEvents"]


def test_the_table_names_every_worker_and_the_parts_not_run(folder: Path) -> None:
    code, text = run(folder, "--strategy", "frequency")
    assert code == 0 and all(name in text for name in ("quick", "slow", "other", "not run", "SOFTMAX"))


def test_a_split_without_work_for_workers_is_reported(folder: Path, tmp_path: Path) -> None:
    """Workers compute int8."""
    save_model(float_twin(branching_model()), tmp_path / "model.tflite")
    (tmp_path / "workers.toml").write_text(WORKERS)
    code, text = run(tmp_path)
    assert code == 0 and "no worker computes: every operator runs at the coordinator; not run" in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--strategy", "best"), 2, "'best' is no strategy"),
        (("--max-ram", "5kB"), 1, "of RAM for"),
        (("--max-flash", "27kB"), 1, "are missing"),
        (("--max-ram", "many"), 2, "'many' is not a size"),
    ],
)
def test_impossible_requests_end_in_one_sentence(
    folder: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    out = tmp_path / "out"
    found, text = run(folder, *arguments, "-o", str(out))
    assert found == code and message in text and not out.exists()


DIES = """
import os, signal, sys
from pathlib import Path
from tflite_fuse.cli import main

left, real = int(sys.argv.pop(1)), Path.replace
def counted(path, target):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(path, target)
Path.replace = counted
main()
"""


def contents(out: Path) -> dict[str, bytes]:
    """Of a plan's folder, but for what a killed process left."""
    files = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    return {name: data for name, data in files.items() if not name.startswith(".tflite-fuse")}


def killed(folder: Path, out: Path, step: int) -> None:
    """A split that is killed when it is about to put so many files in place."""
    given = ["split", str(folder / "model.tflite"), "--workers", str(folder / "workers.toml"), "--strategy", "even"]
    command = [sys.executable, "-c", DIES, str(step), *given, "-o", str(out)]
    assert subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode == -signal.SIGKILL


def test_a_split_that_is_killed_leaves_no_folder_or_whole_files_and_the_next_one_finishes(
    folder: Path, tmp_path: Path
) -> None:
    fresh, out = tmp_path / "fresh", tmp_path / "plan"
    killed(folder, fresh, 0)
    assert not fresh.exists()
    assert run(folder, "--strategy", "even", "-o", str(fresh))[0] == 0
    new = contents(fresh)
    for step in (0, 4, len(new) - 1):
        assert run(folder, "--strategy", "frequency", "-o", str(out))[0] == 0
        old = contents(out)
        assert old.keys() == new.keys() and old["plan.json"] != new["plan.json"]
        killed(folder, out, step)
        left = contents(out)
        assert left.keys() == new.keys() and all(data in (old[name], new[name]) for name, data in left.items())
        assert (left == old) == (step == 0)
        assert run(folder, "--strategy", "even", "-o", str(out))[0] == 0
        assert contents(out) == new and read_deployment(out).plan.workers == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh", "plan"]


def test_a_number_in_place_of_the_file_of_workers_ends_in_one_sentence(folder: Path) -> None:
    result = CliRunner().invoke(app, ["split", str(folder / "model.tflite"), "--workers", "2"])
    assert result.exit_code == 2 and "2: does not exist; give a workers.toml" in result.output


def test_foreign_files_in_the_folder_are_not_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("mine")
    code, text = run(folder, "--strategy", "even", "-o", str(tmp_path))
    assert code == 2 and "would lose plan.json" in text
    assert contents(tmp_path) == {"plan.json": b"mine"}


@pytest.mark.parametrize("strategy", ["paper", "auto"])
def test_the_report_has_figures_of_every_layer_that_add_up(folder: Path, strategy: str) -> None:
    code, text = run(folder, "--strategy", strategy, "--json")
    report = json.loads(text)
    assert code == 0
    validate(report, "split")
    layers = report["layers"]
    assert sum(layer["bytes_moved"] for layer in layers) == report["bytes_moved"] > 0
    for at, worker in enumerate(report["workers"]):
        own = [layer["workers"][at] for layer in layers]
        assert {each["name"] for each in own} == {worker["name"]}
        assert sum(each["work"] for each in own) == pytest.approx(worker["work"], abs=len(own))
        assert bool(worker["work"]) == any(each["live_bytes"] for each in own)
        for each in own:
            assert each["live_bytes"] >= max(each["received_bytes"], each["sent_bytes"]) / len(report["workers"])
    if strategy == "paper":  # everything goes through the coordinator, to and from
        ends = ("received_bytes", "sent_bytes")
        assert all(
            layer["bytes_moved"] == sum(each[end] for each in layer["workers"] for end in ends) for layer in layers
        )
