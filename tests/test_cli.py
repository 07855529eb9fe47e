"""The command line: exit codes, messages, JSON, and no half-written files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import referencing
import typer
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo import ModelBuilder
from tflite_fuse.cli import app
from tflite_fuse.export import FORMATS
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS
from tflite_fuse.model import load_model, save_model
from tflite_fuse.model.schema import Model, OperatorCode
from tflite_fuse.model.types import TensorType

ROOT = Path(__file__).resolve().parents[1]


def branching_model(seed: int = 0) -> Model:
    """A cell whose default order is worse than the best one."""
    b = ModelBuilder(seed=seed)
    x = b.input((1, 16, 16, 4))
    wide = [b.conv(x, 24, kernel=1, activation="RELU6") for _ in range(3)]
    narrow = [b.conv(w, 4, kernel=3, stride=2) for w in wide]
    return b.build([b.concat(narrow)])


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tflite_fuse", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200", **environment},
        cwd=ROOT,
        check=False,
    )


def validate(document: dict[str, Any], schema_name: str) -> None:
    schemas = [json.loads(path.read_text()) for path in (ROOT / "schemas").glob("*.schema.json")]
    registry = referencing.Registry().with_resources(
        (schema["$id"], referencing.Resource.from_contents(schema)) for schema in schemas
    )
    schema = json.loads((ROOT / "schemas" / f"{schema_name}.schema.json").read_text())
    jsonschema.Draft202012Validator(schema, registry=registry).validate(document)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "in.tflite"
    save_model(branching_model(), path)
    return path


def test_rewrite_lowers_the_peak_and_proves_it(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    done = run("rewrite", model, out, "--passes", "reorder,plan", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    validate(report, "report")
    assert report["after"]["peak_bytes"] < report["before"]["peak_bytes"]
    assert report["after"]["head_bytes"] < report["before"]["head_bytes"]
    assert {step: claim["proven"] for step, claim in report["optimal"].items()} == {"order": True, "plan": True}
    assert report["verified"]["bit_exact"] is True and report["verified"]["inputs"] == 16
    assert report["estimate_bytes"] is None
    assert report["after"]["file_bytes"] == out.stat().st_size
    load_model(out)


def test_rewrite_prints_a_table_and_a_verdict(model: Path, tmp_path: Path) -> None:
    done = run("rewrite", model, tmp_path / "out.tflite", "--no-verify")
    assert done.returncode == 0, done.stderr
    first, allocate, fit, proof, step = done.stdout.splitlines()
    report = json.loads(run("rewrite", model, tmp_path / "out.tflite", "--no-verify", "--json").stdout)
    before, after = (report[when]["arena_bytes"] for when in ("before", "after"))
    assert f"{before:,} -> {after:,} bytes" in first and first.endswith("NOT RUN")
    assert "allocate" in allocate and fit.startswith("fits ")
    assert proof.startswith("UNVERIFIED: ") and "kernels not run" in proof and "tflite-fuse export" in step
    more = run("rewrite", model, tmp_path / "out.tflite", "--no-verify", "--verbose").stdout
    assert more.startswith(done.stdout) and "before" in more and "head" in more
    assert "\x1b" not in more


def test_inspect_names_the_bottleneck(model: Path) -> None:
    done = run("inspect", model, "--json")
    assert done.returncode == 0, done.stderr
    inspection = json.loads(done.stdout)
    validate(inspection, "inspection")
    rows = inspection["operators"]
    worst = max(rows, key=lambda row: row["working_set_bytes"])
    assert worst["bottleneck"] and inspection["bottleneck"] in [r["name"] for r in rows if r["bottleneck"]]
    assert worst["working_set_bytes"] == inspection["figures"]["peak_bytes"]
    first, allocate, fit, checked, step = run("inspect", model).stdout.splitlines()
    arena, rewritten = inspection["figures"]["arena_bytes"], inspection["rewritten"]["arena_bytes"]
    assert f"{arena:,} -> {rewritten:,} bytes" in first
    assert f"allocate a tensor arena of {arena:,} bytes" in allocate and fit.startswith("fits ")
    assert "proven" in checked and "kernels not run" in checked and f"tflite-fuse rewrite {model}" in step
    assert any("<- peak" in line for line in run("inspect", model, "--verbose").stdout.splitlines())


def test_verify_distinguishes_equal_from_different(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tflite"
    save_model(branching_model(seed=1), other)
    assert run("verify", model, model, "--inputs", 3).returncode == 0
    differs = run("verify", model, other)
    assert differs.returncode == 1 and "differs at [" in differs.stderr


def test_json_of_pareto_and_verify_keeps_its_schema(model: Path, tmp_path: Path) -> None:
    front = json.loads(run("pareto", model, "--json").stdout)
    validate(front, "front")
    rams = [point["ram_bytes"] for point in front["points"]]
    assert rams == sorted(rams) and any("no recompute" in point["marks"] for point in front["points"])
    rows = run("pareto", model, "--csv").stdout.splitlines()
    assert rows[0].startswith("ram_bytes,macs") and len(rows) == len(rams) + 1
    other = tmp_path / "other.tflite"
    save_model(branching_model(seed=1), other)
    for second, equal in ((model, True), (other, False)):
        done = run("verify", model, second, "--inputs", 2, "--json")
        comparison = json.loads(done.stdout)
        validate(comparison, "comparison")
        assert comparison["bit_exact"] is equal and done.returncode == (0 if equal else 1)


def test_compute_is_counted_in_instructions_on_request(model: Path, tmp_path: Path) -> None:
    front = json.loads(run("pareto", model, "--cost", "instructions", "--target", "esp32c3", "--json").stdout)
    validate(front, "front")
    assert front["target"] == "esp32c3" and front["points"][-1]["instructions"] > 0
    fitted = run("rewrite", model, tmp_path / "out.tflite", "--cost", "instructions", "--max-compute", 1.5, "--verbose")
    assert fitted.returncode == 0 and "instructions of generic expected" in fitted.stdout, fitted.stderr
    for options in (("--target", "z80"), ("--cost", "watts")):
        for arguments in (("pareto", model), ("rewrite", model, tmp_path / "no.tflite")):
            done = run(*arguments, *options)
            assert done.returncode == 2 and options[1] in done.stderr and not (tmp_path / "no.tflite").exists()


def test_rewrite_names_the_arena_of_plain_c_where_it_is_smaller(model: Path, tmp_path: Path) -> None:
    done = run("rewrite", model, tmp_path / "out.tflite", "--no-verify")
    needed = re.search(r"or --format c, which needs ([\d,]+) bytes without TensorFlow Lite Micro", done.stdout)
    exported = json.loads(run("export", tmp_path / "out.tflite", tmp_path / "c", "--format", "c", "--json").stdout)
    assert needed is not None and int(needed[1].replace(",", "")) == exported["arena_bytes"]


def test_export_writes_a_folder_or_refuses_with_a_reason(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sketch"
    done = run("export", model, folder, "--format", "arduino")
    assert done.returncode == 0, done.stderr
    assert "tensor arena of" in done.stdout and (folder / "sketch.ino").exists()
    again = run("export", model, folder, "--format", "arduino")
    assert again.returncode == 2 and "--force" in again.stderr
    unknown = run("export", model, tmp_path / "other", "--format", "abacus")
    assert unknown.returncode == 2 and not (tmp_path / "other").exists()


@pytest.mark.parametrize("kind", sorted({*FORMATS} - {"esphome"}))
def test_the_json_of_an_export_names_its_files(kind: str, model: Path, tmp_path: Path) -> None:
    done = run("export", model, tmp_path / "out", "--format", kind, "--json")
    written = json.loads(done.stdout)
    validate(written, "export")
    assert written["format"] == kind and {Path(each) for each in written["files"]} == {
        path for path in (tmp_path / "out").rglob("*") if path.is_file()
    }


def test_verify_takes_the_users_own_data(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "mine.npz"
    np.savez(data, np.zeros((5, 16, 16, 4), np.int8))
    done = run("verify", model, model, "--data", data)
    assert done.returncode == 0 and "same bytes on 5 inputs" in done.stdout
    np.savez(data, np.zeros((5, 16, 16, 3), np.int8))
    refused = run("verify", model, model, "--data", data)
    assert refused.returncode == 2 and "input_0" in refused.stderr


@pytest.mark.parametrize("command", ["rewrite", "inspect", "verify"])
def test_bad_files_are_answered_with_one_sentence(command: str, tmp_path: Path, model: Path) -> None:
    out = tmp_path / "out.tflite"
    extra = {"rewrite": [out], "inspect": [], "verify": [model]}[command]
    broken = tmp_path / "broken.tflite"
    for content in (b"", model.read_bytes()[:1000], b"no model at all, only text in a file", None):
        if content is None:
            broken.unlink()
        else:
            broken.write_bytes(content)
        done = run(command, broken, *extra)
        assert done.returncode == 2, (content, done)
        assert "broken.tflite" in done.stderr and len(done.stderr.strip().splitlines()) == 1
        assert not out.exists()


def test_a_target_that_cannot_be_written_leaves_nothing(model: Path, tmp_path: Path) -> None:
    done = run("rewrite", model, tmp_path / "missing" / "out.tflite", "--no-verify")
    assert done.returncode == 2 and "cannot be written" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tflite"]


@pytest.mark.parametrize("arguments", [["rewrite", "in.tflite", "-"], ["export", "in.tflite", "-", "--format", "c"]])
def test_a_dash_is_no_place_to_write_to(model: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(model.parent)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and "standard output" in done.stderr and len(done.stderr.splitlines()) == 1
    assert [path.name for path in model.parent.iterdir()] == ["in.tflite"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("rewrite in.tflite folder", "folder: cannot be written"),
        ("rewrite in.tflite missing/out.tflite", "missing/out.tflite: cannot be written"),
        ("rewrite in.tflite missing.tflite -o out", "missing.tflite: cannot be read"),
        ("rewrite in.tflite other.tflite -o in.tflite", "in.tflite: is a file"),
        ("rewrite in.tflite out.tflite --board nano33ble --target esp32c3", "the core of nano33ble is cortex-m4"),
        ("rewrite in.tflite out.tflite --max-ram 64kB --least-ram", "drop one of the two"),
        ("inspect other.onnx", "`tflite-fuse rewrite` converts it"),
        ("inspect other.keras", "TFLiteConverter"),
        ("export folder out --format c", "folder: is a folder without a plan"),
        ("check missing.tflite --max-ram 64kB", "missing.tflite: cannot be read"),
        ("check in.tflite folder --max-ram 64kB", "folder: cannot be read"),
        ("check in.tflite --max-ram 64kB --json --markdown", "exclude each other"),
        ("boards add", "takes one file"),
        ("cluster status folder", "model.tflite: cannot be read"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_work(
    model: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, told: str
) -> None:
    folder = model.parent
    (folder / "folder").mkdir()
    for name in ("other.onnx", "other.keras", "other.tflite"):
        (folder / name).write_bytes(b"PK\3\4 of another kind")
    before = sorted(folder.rglob("*"))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tflite_fuse, "rewrite", None)
    done = CliRunner().invoke(app, arguments.split())
    assert done.exit_code == 2 and told in done.stderr and not done.stdout, done
    assert len(done.stderr.splitlines()) == 1 and sorted(folder.rglob("*")) == before


def test_the_input_is_only_replaced_on_request(model: Path) -> None:
    before = model.read_bytes()
    refused = run("rewrite", model, model, "--no-verify")
    assert refused.returncode == 2 and "--force" in refused.stderr and model.read_bytes() == before
    assert run("rewrite", model, model, "--no-verify", "--force").returncode == 0
    assert model.read_bytes() != before


@pytest.mark.parametrize(
    "arguments",
    [
        ["--passes", "reorder,polish"],
        ["--passes", "plan,reorder"],
        ["--passes", "reorder,reorder"],
        ["--time-limit", "-1"],
        ["--inputs", "0"],
        ["--scheme", "inverted-residual", "--tiles", "4"],
        ["--scheme", "inverted-residual", "--tiles", "4x4", "--tile-size", "8x8"],
        ["--unknown"],
    ],
)
def test_bad_usage_exits_with_2(model: Path, tmp_path: Path, arguments: list[str]) -> None:
    done = run("rewrite", model, tmp_path / "out.tflite", *arguments)
    assert done.returncode == 2 and done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out.tflite").exists()


@pytest.mark.parametrize(
    ("command", "option", "choices"),
    [
        ("rewrite", "in_place", KERNEL_SETS),
        ("rewrite", "passes", tflite_fuse.DEFAULT_PASSES),
        *((command, "scheme", tflite_fuse.SCHEMES) for command in ("rewrite", "pareto")),
        *((command, "input_mode", tflite_fuse.INPUT_MODES) for command in ("rewrite", "pareto")),
        *((command, "target", tflite_fuse.TARGETS) for command in ("rewrite", "pareto")),
        ("export", "kind", FORMATS),
    ],
)
def test_help_names_every_choice(command: str, option: str, choices: tuple[str, ...]) -> None:
    words = re.findall(r"[\w-]+", options_of(command)[option].help or "")
    assert set(choices) <= set(words)


COMMANDS = ("rewrite", "inspect", "verify", "pareto", "report", "sweep", "check", "export", "boards", "split")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_all_of_every_option_and_ends_with_an_example(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"]).stdout
    for parameter in options_of(command).values():
        words = (parameter.help or "").split()
        assert " ".join(words) in " ".join(shown.split()), parameter.name
        flag = parameter.param_type_name == "option" and parameter.is_flag
        assert not flag or not re.search(rf"{parameter.opts[0]} +<", shown)
    assert f"Example:\n  tflite-fuse {command} " in shown


def test_help_groups_options_under_the_headings_of_their_declaration() -> None:
    lines = CliRunner().invoke(app, ["rewrite", "--help"]).stdout.splitlines()
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings[:6] == ["Arguments:", "Goal:", "Blocks:", "Inputs and outputs:", "Core:", "Checks:"]


def test_a_shell_completes_commands_and_words() -> None:
    assert "_TFLITE_FUSE_COMPLETE" in completed("complete_bash", "tflite-fuse", installing=True)
    assert completed("complete_bash", "tflite-fuse re").split() == ["rewrite", "report"]
    assert completed("complete_bash", "tflite-fuse rewrite --scheme h").split() == ["head-patches", "h-cache"]


def completed(mode: str, typed: str, installing: bool = False) -> str:
    """What the command answers a shell that completes the last word typed."""
    program = "import sys; sys.argv[0] = 'tflite-fuse'; from tflite_fuse.cli import app; app(prog_name='tflite-fuse')"
    variables = {"_TFLITE_FUSE_COMPLETE": "source_bash" if installing else mode}
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    environment = os.environ | variables | words
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    ).stdout


def test_a_report_is_a_page_and_refuses_other_file_names(model: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(model), "-o", str(model.with_name("x.pdf"))])
    assert done.exit_code == 2 and "a report is an HTML page" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not model.with_name("x.pdf").exists()


def options_of(command: str) -> dict[str, Any]:
    """A command's parameters by name."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    found: Any = group.get_command(typer.Context(group), command)
    return {parameter.name or "": parameter for parameter in found.params}


def test_colour_is_never_forced_on_a_pipe(model: Path) -> None:
    for environment in ({"NO_COLOR": "1"}, {}):
        assert "\x1b" not in run("inspect", model, **environment).stdout


def test_float_models_are_inspected_too(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input((1, 8, 8, 2), type=TensorType.FLOAT32)
    path = tmp_path / "float_io.tflite"
    save_model(b.build([b.dequantize(b.conv(b.quantize(x), 4, kernel=3))]), path)
    done = run("inspect", path, "--verbose")
    assert done.returncode == 0 and "QUANTIZE" in done.stdout


# ---- Names and streams out of strange hands ----

HOSTILE = "\x1b[2J\x1b]0;x\x07\r\n[red]a[/blue] \u202e\udcff"


def hostile_model(path: Path) -> Path:
    """Every name in it wants more than to be shown."""
    model = branching_model()
    tensors = tuple(replace(tensor, name=HOSTILE) for tensor in model.main.tensors)
    code = OperatorCode(32, HOSTILE, 1, 32)
    codes = (*model.operator_codes, code)
    operators = (replace(model.main.operators[0], opcode_index=len(codes) - 1), *model.main.operators[1:])
    graph = replace(model.main, tensors=tensors, operators=operators, name=HOSTILE)
    save_model(replace(model, operator_codes=codes, subgraphs=(graph,), description=HOSTILE), path)
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("arguments", [["inspect"], ["pareto"], ["pareto", "--csv"], ["pareto", "--json"], ["rewrite"]])
def test_no_name_moves_the_cursor_or_stops_the_output(arguments: list[str], encoding: str, tmp_path: Path) -> None:
    path = hostile_model(tmp_path / "a\x1b[31m\n.tflite")
    out = [tmp_path / "out.tflite", "--no-verify"] if arguments == ["rewrite"] else []
    done = run(*arguments, path, *out, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    said = (done.stdout + done.stderr).replace("\n", "")
    assert all(character.isprintable() for character in said)
    assert load_model(out[0]) if out else True


def test_json_of_hostile_names_can_be_read_in_any_encoding(tmp_path: Path) -> None:
    path = hostile_model(tmp_path / "model.tflite")
    for encoding in ("utf-8", "ascii"):
        document = json.loads(run("inspect", path, "--json", PYTHONIOENCODING=encoding).stdout)
        assert any(HOSTILE in row["name"] for row in document["operators"])


def test_messages_about_hostile_names_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\n.tflite"
    path.write_bytes(b"nothing")
    done = run("inspect", path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "\x1b" not in done.stderr


def test_a_model_may_come_through_a_pipe(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    for arguments in (["inspect", "/dev/stdin"], ["rewrite", "/dev/stdin", str(out), "--no-verify"]):
        command = [sys.executable, "-m", "tflite_fuse", *arguments]
        done = subprocess.run(command, input=model.read_bytes(), capture_output=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr
    with subprocess.Popen(["cat", str(model)], stdout=subprocess.PIPE) as a:
        assert a.stdout is not None
        done = subprocess.run(
            [sys.executable, "-m", "tflite_fuse", "verify", f"/dev/fd/{a.stdout.fileno()}", str(out), "--inputs", "1"],
            pass_fds=[a.stdout.fileno()],
            capture_output=True,
            cwd=ROOT,
            check=False,
        )
    assert done.returncode == 0, done.stderr


def test_a_reader_that_has_seen_enough_is_no_defect(model: Path) -> None:
    command = f"{sys.executable} -m tflite_fuse inspect {model} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_stop_no_command(model: Path, tmp_path: Path, closed: str) -> None:
    command = f"{sys.executable} -m tflite_fuse rewrite {model} {tmp_path / 'out.tflite'} --no-verify {closed}"
    assert subprocess.run(command, shell=True, cwd=ROOT, check=False).returncode == 0
    assert load_model(tmp_path / "out.tflite").main.operators


def test_a_full_output_stream_ends_without_a_traceback(model: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "tflite_fuse", "inspect", str(model)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    assert done.returncode != 0 and "Traceback" not in done.stderr


def test_a_defect_is_reported_as_one_and_logged_on_request(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("what nobody foresaw\x1b[2J")

    monkeypatch.setattr(tflite_fuse, "inspect", broken)
    done = CliRunner().invoke(app, ["inspect", str(model)])
    assert done.exit_code == 3 and done.stderr.startswith("tflite-fuse: a defect of tflite-fuse, please report it")
    assert "KeyError" in done.stderr and "--log FILE" in done.stderr and "\x1b" not in done.stderr
    log = tmp_path / "defect.txt"
    done = CliRunner().invoke(app, ["--log", str(log), "inspect", str(model)])
    assert done.exit_code == 3 and str(log) in done.stderr.replace("\n", "")
    assert "Traceback" in log.read_text() and tflite_fuse.__version__ in log.read_text()
