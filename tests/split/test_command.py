"""`tflite-fuse split` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.split.networks import branching_model
from tests.test_cli import validate
from tflite_fuse.cli import app
from tflite_fuse.model import save_model
from tflite_fuse.runtime import tflm

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


def test_the_table_names_every_worker_and_what_was_not_run(folder: Path) -> None:
    code, text = run(folder, "--strategy", "frequency")
    assert code == 0 and all(name in text for name in ("quick", "slow", "other", "not run", "SOFTMAX"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--strategy", "best"), 2, "'best' is no strategy"),
        (("--max-ram", "5kB"), 1, "of RAM for"),
        (("--max-flash", "27kB"), 1, "are missing"),
        (("--max-ram", "many"), 2, "'many' is not a size"),
    ],
)
def test_what_cannot_be_ends_in_one_sentence(
    folder: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    out = tmp_path / "out"
    found, text = run(folder, *arguments, "-o", str(out))
    assert found == code and message in text and not out.exists()
