"""Options from a file: by name, for all commands or for one, and with a hint for wrong names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.test_cli import branching_model
from tflite_fuse.cli import app
from tflite_fuse.model import save_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "in.tflite"
    save_model(branching_model(), path)
    return path


def run(config: str, command: str, *arguments: object) -> tuple[int, str, str]:
    model = Path(str(arguments[0]))
    path = model.parent / "tflite-fuse.toml"
    path.write_text(config)
    result = CliRunner().invoke(app, [command, *map(str, arguments), "--config", str(path)])
    return result.exit_code, result.stdout, result.stderr


def test_a_file_sets_options_that_are_not_typed(model: Path) -> None:
    out = model.with_name("out.tflite")
    code, told, _ = run("no-verify = true\n[rewrite]\njson = true\nno-fuse = true\n", "rewrite", model, out)
    assert code == 0 and json.loads(told)["verified"] is None and not json.loads(told)["blocks"]
    code, told, _ = run("[rewrite]\njson = true\ninputs = 5\n", "rewrite", model, out, "--inputs", 3)
    assert code == 0 and json.loads(told)["verified"]["inputs"] == 3


def test_a_limit_may_be_a_number_of_bytes_or_a_text(model: Path) -> None:
    for limit in ("100", '"100B"'):
        code, _, error = run(f"max-ram = {limit}", "rewrite", model, model.with_name("out.tflite"), "--no-verify")
        assert code == 1 and "an arena of 100 bytes cannot be reached" in error


def test_a_required_option_may_come_from_the_file(model: Path) -> None:
    folder = model.with_name("project")
    code, told, _ = run('[export]\nformat = "platformio"\njson = true\n', "export", model, folder)
    assert code == 0 and json.loads(told)["directory"] == str(folder)


def test_options_of_other_commands_are_ignored(model: Path) -> None:
    code, told, error = run('mutation-score = 3\n[rewrite]\nscheme = "nonsense"\n', "inspect", model)
    assert code == 0 and "allocate a tensor arena of" in told, error


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('max-rma = "3kB"', "the file has the unknown key 'max-rma'; did you mean 'max-ram'?"),
        ("[rewrite]\nmax_ram = 3", "[rewrite] has the unknown key 'max_ram'; did you mean 'max-ram'?"),
        ("[rewrit]\n", "there is no command 'rewrit'; did you mean 'rewrite'?"),
        ("[inspect]\nno-fuse = true", "[inspect] has the unknown key 'no-fuse'"),
        ('no-fuse = "yes"', "no-fuse is true or false, not 'yes'"),
        ("max-ram = [1]", "max-ram is a text or a number"),
        ("max-ram = true", "max-ram is a text or a number"),
        ("max-ram = ", "not valid TOML"),
        ("max-ram = " + "9" * 5000, "not valid TOML"),
        ('max-compute = "much"', "max-compute"),
        ("config = 'x'", "the file has the unknown key 'config'"),
    ],
)
def test_unknown_entries_are_refused_in_one_sentence(model: Path, config: str, message: str) -> None:
    out = model.with_name("out.tflite")
    code, _, error = run(config, "rewrite", model, out)
    assert code == 2 and message in error and not out.exists()


def test_a_missing_file_is_one_sentence(model: Path) -> None:
    result = CliRunner().invoke(app, ["inspect", str(model), "--config", "none.toml"])
    assert result.exit_code == 2 and "none.toml: cannot be read" in result.stderr
