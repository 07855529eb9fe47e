"""Budgets: the command, the action's script, the hook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.test_cli import ROOT, branching_model, validate
from tflite_fuse.cli import app
from tflite_fuse.model import save_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a model|x.tflite"
    save_model(branching_model(), path)
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["check", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_a_model_fits_its_own_figures_and_not_a_byte_less(model: Path) -> None:
    figures = tflite_fuse.inspect(model).figures
    assert run(model, "--max-ram", figures.arena_bytes, "--max-flash", figures.file_bytes)[0] == 0
    for option, size in (("--max-ram", figures.arena_bytes), ("--max-flash", figures.file_bytes)):
        code, told, error = run(model, option, size - 1)
        assert code == 1 and "too large for" in told and "1 of 1 models" in error and told.count("\n") == 5
    code, told, _ = run(model, "--max-ram", figures.arena_bytes - 1, "--rewritten", "--json")
    validate(json.loads(told), "check")
    assert code == 0 and json.loads(told)["models"][0]["arena_bytes"] < figures.arena_bytes


def test_check_and_rewrite_compare_limits_with_the_same_arena(tmp_path: Path) -> None:
    """Of a few small layers loading needs more than head and tail."""
    b = ModelBuilder(seed=3)
    x = b.input((1, 1))
    for width in (16, 16, 1):
        x = b.fully_connected(x, width)
    path = tmp_path / "small.tflite"
    save_model(b.build([x]), path)
    found = tflite_fuse.rewrite(path, verify=False).report.after
    assert found.arena_bytes >= found.loading_bytes > found.arena_used_bytes
    least = tflite_fuse.rewrite(path, verify=False, goal=tflite_fuse.Goal(least_ram=True)).report.after.arena_bytes
    for limit, code in ((least, 0), (least - 1, 1)):
        assert run(path, "--rewritten", "--max-ram", limit)[0] == code
        arguments = ["rewrite", str(path), str(tmp_path / "out.tflite"), "--no-verify", "--max-ram", str(limit)]
        assert CliRunner().invoke(app, arguments).exit_code == code


def test_a_board_gives_the_limits_and_a_broken_model_fails_alone(model: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"none")
    code, told, _ = run(broken, model, "--board", "nano33ble", "--json")
    document = json.loads(told)
    validate(document, "check")
    assert code == 1 and [row["fits"] for row in document["models"]] == [False, True]
    assert document["max_ram"] == 196_608 and document["models"][0]["error"]
    told = run(broken, "--max-ram", "1kB")[1]
    assert f"not read: {broken}: not a TensorFlow Lite model" in told and "too large" not in told


@pytest.mark.parametrize(
    "options", [(), ("--reserve", "1kB"), ("--board", "nano33ble", "--max-ram", "1kB"), ("--max-ram", "much")]
)
def test_limits_that_make_no_sense_are_one_sentence(model: Path, options: tuple[str, ...]) -> None:
    code, told, error = run(model, *options)
    assert code == 2 and error.count("\n") == 1 and not told


def acted(folder: Path, **inputs: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run the script of the action in a folder and return the summary it wrote, too."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = {step["name"]: step for step in action["runs"]["steps"]}
    assert "pull_request'" in steps["Comment"]["if"] and "pull_request_target" not in str(action["runs"])
    assert not [step for step in steps.values() if "${{" in step["run"]], "inputs become text of a script"
    programs, summary = folder / "bin", folder / "summary"
    programs.mkdir(exist_ok=True)
    if not (programs / "python3").exists():
        (programs / "python3").symlink_to(sys.executable)
    summary.write_text("")
    done = subprocess.run(
        ["bash", "-e", "-c", steps["Check"]["run"]],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={
            "PATH": f"{programs}:{os.environ['PATH']}",
            "VIRTUAL_ENV": sys.prefix,
            "PYTHONPATH": ":".join([str(ROOT), *sys.path]),
            "RUNNER_TEMP": str(folder),
            "GITHUB_STEP_SUMMARY": str(summary),
            "MODELS": "*.tflite",
            "MAX_FLASH": "",
            "BOARD": "",
            "RUNTIME": "arduino",
            "REWRITTEN": "false",
            **inputs,
        },
    )
    return done, summary.read_text()


def test_the_script_of_the_action_fails_with_the_table_in_the_summary(model: Path, tmp_path: Path) -> None:
    for limit, code, word in (("1kB", 1, "too large"), ("10MB", 0, "fits"), ("$(touch evil)", 2, "")):
        done, summary = acted(tmp_path, MAX_RAM=limit)
        assert done.returncode == code and word in summary, done.stderr
        assert not (tmp_path / "evil").exists() and (not word or "a model\\|x.tflite" in done.stdout)


def test_action_and_hook_name_the_arena_of_rewrite(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "small.tflite"
    out.parent.mkdir()
    options = ["--max-ram", "10MB", "--runtime", "arduino"]
    printed = CliRunner().invoke(app, ["rewrite", str(model), str(out), *options, "--no-verify"]).stdout
    (sentence,) = re.findall(r"allocate a tensor arena of [\d,]+ bytes for [^(;]*", printed)
    size = sentence.split()[5]
    hook = run(*options, "--rewritten", model)[1]
    assert sentence.strip() in hook
    _, summary = acted(tmp_path, MAX_RAM="10MB", REWRITTEN="true")
    assert f" {size} |" in summary
    before = tflite_fuse.inspect(model, runtime="arduino").figures.arena_bytes
    assert size != f"{before:,}" and f" {before:,} |" in acted(tmp_path, MAX_RAM="10MB")[1]


def test_the_hook_calls_a_command_that_is_there() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, command = hook["entry"].split()
    assert program == "tflite-fuse" and CliRunner().invoke(app, [command, "--help"]).exit_code == 0
