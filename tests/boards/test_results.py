"""Lines of benchmarks are accepted if plausible, and refused with one sentence otherwise."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scripts.zoo import ModelBuilder
from tests.test_cli import validate
from tflite_fuse.boards.results import own_file, read_results
from tflite_fuse.boards.table import find_board
from tflite_fuse.boards.time import board_time
from tflite_fuse.cli import app
from tflite_fuse.errors import UsageError
from tflite_fuse.model import save_model

MODEL = b"stands for a model"


@pytest.fixture(autouse=True)
def own_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFLITE_FUSE_RESULTS", str(tmp_path / "own" / "results.jsonl"))
    return own_file()


def line(**changes: Any) -> str:
    fields = {
        "schema": "tflite-fuse/board-result/1",
        "run": "rewritten",
        "model": "kws.tflite",
        "sha256": hashlib.sha256(MODEL).hexdigest(),
        "bytes": len(MODEL),
        "runtime": "none",
        "kernels": "tflite-fuse",
        "predicted_instructions": 4_400_000,
        "board": "nano33ble",
        "core": "cortex-m4",
        "clock_hz": 64_000_000,
        "arena_bytes": 4848,
        "arena_used": 4848,
        "runs": 30,
        "microseconds": 100_000,
        "blocks": [{"name": "CONV to SOFTMAX", "microseconds": 99_990}],
    }
    return json.dumps({name: value for name, value in (fields | changes).items() if value is not None})


def file(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "results.jsonl"
    path.write_text("".join(f"{each}\n" for each in lines))
    return path


def test_lines_of_a_monitor_between_are_skipped(tmp_path: Path) -> None:
    (found,) = read_results(file(tmp_path, "--- forcing DTR ---", line(), "arena: 3"))
    assert found.board == find_board("nano33ble") and found.cycles == 6_400_000


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"board": "nano34"}, "'nano34' is no board that is known"),
        ({"microseconds": 0}, "'microseconds' is missing or cannot be 0"),
        ({"microseconds": None}, "'microseconds' is missing or cannot be None"),
        ({"microseconds": True}, "'microseconds' is missing or cannot be True"),
        ({"microseconds": 900_000_000}, "no inference takes more than 600 seconds"),
        ({"microseconds": 1_000, "blocks": []}, "cycles for each predicted instruction"),
        ({"microseconds": 50_000}, "its blocks take 99,990"),
        ({"clock_hz": 640_000_000}, "nano33ble runs at 64 MHz"),
        ({"arena_bytes": 400_000}, "an arena of 400,000 bytes cannot be on nano33ble"),
        ({"arena_used": 5000}, "an arena of 4,848 bytes cannot be"),
        ({"core": "cortex-m7"}, "nano33ble has a cortex-m4, and this ran on a cortex-m7"),
        ({"sha256": "f00"}, "the model's hash is no SHA-256"),
        ({"schema": "something/1"}, "is no line of a benchmark of this version"),
        ({"error": "output 0, byte 1, is 2"}, "the benchmark failed: output 0, byte 1, is 2"),
        ({"blocks": [{"name": 3}]}, "'blocks' is no list of names and microseconds"),
        ({"predicted_instructions": -4}, "'predicted_instructions' is no count"),
    ],
)
def test_impossible_results_are_refused(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    path = file(tmp_path, line(), line(**changes))
    with pytest.raises(UsageError) as refused:
        read_results(path)
    assert sentence in str(refused.value) and "line 2: " in str(refused.value)


@pytest.mark.parametrize("text", ["{", '{"schema": ', "{" + "[" * 100_000])
def test_half_a_line_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 1: is no JSON; copy the whole line"):
        read_results(file(tmp_path, text))


def test_bytes_must_be_those_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(MODEL)
    path = file(tmp_path, line())
    assert read_results(path, [tmp_path / "model.tflite"])
    (tmp_path / "model.tflite").write_bytes(MODEL + b"!")
    with pytest.raises(UsageError, match="another hash or size than the files of --model"):
        read_results(path, [tmp_path / "model.tflite"])


def add(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["boards", "add", *map(str, arguments)])
    return done.exit_code, done.output


def test_added_results_calibrate_predictions_once(tmp_path: Path, own_results: Path) -> None:
    board = find_board("nano33ble")
    assert not board_time(board, 1_000_000).calibrated
    code, said = add(file(tmp_path, line()))
    assert code == 0 and "1 of 1 are new" in said
    assert "data/board_results.jsonl by a pull request" in said.replace("\n", " ")
    assert json.loads(said.splitlines()[-1]) == json.loads(line())
    found = board_time(board, 4_400_000)
    assert found.calibrated and (found.least_ms + found.most_ms) / 2 == pytest.approx(100)
    assert "0 of 1 are new" in add(file(tmp_path, line()))[1]
    assert len(own_results.read_text().splitlines()) == 1


def test_unfused_runs_are_kept_and_calibrate_nothing(tmp_path: Path, own_results: Path) -> None:
    assert add(file(tmp_path, line(run="unfused", predicted_instructions=0)))[0] == 0
    assert not board_time(find_board("nano33ble"), 1_000_000).calibrated
    assert len(own_results.read_text().splitlines()) == 1


def test_refused_lines_end_with_code_2_and_keep_no_line(tmp_path: Path, own_results: Path) -> None:
    code, said = add(file(tmp_path, line(), line(board="none such")))
    assert code == 2 and said.count("\n") <= 3 and not own_results.exists()
    assert add(tmp_path / "absent.jsonl")[0] == 2
    assert add(file(tmp_path, "nothing"))[0] == 2


def test_a_board_of_ones_own_is_described_by_its_file(tmp_path: Path) -> None:
    mine = ('name = "mine"', 'core = "cortex-m7"', "mhz = 400", 'ram = "512KiB"', 'flash = "2MiB"')
    (tmp_path / "mine.toml").write_text("\n".join(mine))
    path = file(tmp_path, line(board="mine", core="cortex-m7", clock_hz=400_000_000, microseconds=10_500, blocks=[]))
    assert add(path)[0] == 2
    assert add(path, "--board", tmp_path / "mine.toml")[0] == 0
    mine, other = find_board(str(tmp_path / "mine.toml")), find_board("teensy41")
    assert board_time(mine, 4_400_000).calibrated
    assert "measured" not in board_time(other, 4_400_000).note  # nor is it refused for the other board in the file


def test_a_line_cannot_name_a_file_as_its_board(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("")
    with pytest.raises(UsageError, match="is no board that is known"):
        read_results(file(tmp_path, line(board=str(tmp_path / "mine.toml"))))


def test_bytes_of_the_file_that_are_no_text_are_kept(tmp_path: Path, own_results: Path) -> None:
    own_results.parent.mkdir()
    own_results.write_bytes(b"a note: \xff\n")
    assert add(file(tmp_path, line()))[0] == 0
    assert own_results.read_bytes().startswith(b"a note: \xff\n{")
    assert board_time(find_board("nano33ble"), 4_400_000).calibrated


def test_json_has_a_schema(tmp_path: Path) -> None:
    code, said = add(file(tmp_path, line()), "--json")
    assert code == 0
    validate(json.loads(said), "board_results")


def test_words_are_searched_as_before() -> None:
    done = CliRunner().invoke(app, ["boards", "nano33ble"])
    assert done.exit_code == 0 and "nano33ble" in done.output


def test_damaged_results_end_a_rewrite_before_it_writes_the_model(tmp_path: Path, own_results: Path) -> None:
    own_results.parent.mkdir()
    own_results.write_text(line(sha256="x"))
    model, written = tmp_path / "model.tflite", tmp_path / "small.tflite"
    b = ModelBuilder()
    save_model(b.build([b.conv(b.input((1, 4, 4, 1)), 2)]), model)
    arguments = ["rewrite", str(model), str(written), "--board", "nano33ble", "--no-verify"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and "the model's hash is no SHA-256" in done.output
    assert not written.exists()
