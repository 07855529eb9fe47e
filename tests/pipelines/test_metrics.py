"""Flat metrics: equal to those of a rewrite, and no errors for infeasible goals."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.conftest import SHARED, shared_models
from tests.drawing.raw_streams import RawStream
from tests.test_cli import branching_model, validate
from tflite_fuse.cli import app
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.errors import ModelError, UsageError
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import RewriteOptions
from tflite_fuse.rewriting.rewrite import rewrite_model
from tflite_fuse.tuning import TUNING

BRANCHING = serialize_model(branching_model())


FEW_PLACED = replace(TUNING, placed_first=1, offered=2**31, runs_followed=0, fast_tried=4, local_searches=0)


def deep_model(blocks: int) -> bytes:
    """A chain of inverted residuals, three operators and an addition each."""
    b = ModelBuilder(seed=0)
    x = b.conv(b.input((1, 96, 96, 3)), 8, kernel=3, stride=2)
    for index in range(blocks):
        stride = 2 if index % 6 == 3 else 1
        wide = b.conv(x, 24, kernel=1, activation="RELU6")
        deep = b.depthwise(wide, kernel=3, stride=stride, activation="RELU6")
        narrow = b.conv(deep, 8, kernel=1)
        x = b.add(x, narrow) if stride == 1 else narrow
    return serialize_model(b.build([x]))


@pytest.mark.parametrize("effort", ["estimate", "exact"])
@pytest.mark.parametrize(
    "goal", [None, Goal(max_ram=1000), Goal(max_ram=1000, max_compute=0.5), Goal(max_compute=0.1), Goal(least_ram=True)]
)
def test_every_model_has_finite_numbers_of_the_schema(effort: str, goal: Goal | None) -> None:
    found = tflite_fuse.metrics(BRANCHING, effort=effort, goal=goal, max_flash=100)
    validate(found, "metrics")
    assert all(isinstance(value, float) and math.isfinite(value) for value in found.values())
    assert found["feasible"] == 0 and found["flash_over_bytes"] == found["file_bytes"] - 100
    if goal is not None and goal.max_ram is not None:
        assert found["ram_over_bytes"] == found["arena_bytes"] - 1000 > 0
    if goal is not None and goal.max_compute is not None:
        assert 0 < found["compute_over"] <= found["compute_factor"]


@pytest.mark.parametrize("options", [{}, {"goal": Goal(least_ram=True)}, {"input_mode": "streamed"}])
def test_exact_numbers_are_those_of_a_rewrite(options: dict[str, object]) -> None:
    found = tflite_fuse.metrics(SAMPLE_MODEL, effort="exact", **options)  # type: ignore[arg-type]
    result = tflite_fuse.rewrite(SAMPLE_MODEL, verify=False, **options)  # type: ignore[arg-type]
    after = result.report.after
    assert found["arena_bytes"] == after.arena_bytes and found["head_bytes"] == after.head_bytes
    assert found["file_bytes"] == len(result.model) and found["macs"] == after.macs
    assert found["before_arena_bytes"] == result.report.before.arena_bytes
    assert found["feasible"] == found["exact"] == 1


def test_an_estimate_has_the_names_of_the_exact_numbers() -> None:
    estimate, exact = (tflite_fuse.metrics(BRANCHING, effort=effort) for effort in ("estimate", "exact"))
    assert estimate.keys() == exact.keys() and (estimate["exact"], exact["exact"]) == (0, 1)


def test_an_estimate_includes_the_gain_of_fusing_and_meets_limits() -> None:
    found = tflite_fuse.metrics(SAMPLE_MODEL)
    assert found["arena_bytes"] < found["before_arena_bytes"] / 2 and found["blocks"] >= 1
    limit = Goal(max_ram=int(found["arena_bytes"]))
    assert tflite_fuse.metrics(SAMPLE_MODEL, goal=limit)["feasible"] == 1


@shared_models("mlperf_tiny_vww96_int8", "mlperf_tiny_wakeword1d_int8", "tflm_person_detect_int8")
def test_an_estimate_is_near(path: Path) -> None:
    data = path.read_bytes()
    estimate, exact = (tflite_fuse.metrics(data, effort=effort) for effort in ("estimate", "exact"))
    assert abs(estimate["arena_bytes"] / exact["arena_bytes"] - 1) < 0.1


@pytest.mark.parametrize(
    "path",
    [
        SHARED / "models" / "swiftnet_vww224_uint8.tflite",  # gains by another order
        SHARED / "real" / "fastestdet_person_int8.tflite",  # large maps at the start of many operators
        SHARED / "real" / "microwakeword_okay_nabu_v2.tflite",  # a stream
    ],
    ids=lambda path: path.stem,
)
def test_an_estimate_is_near_where_narrow_places_of_the_file_are_not_enough(path: Path) -> None:
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    estimate, data = tflite_fuse.metrics(path)["arena_bytes"], path.read_bytes()
    options = RewriteOptions(tuning=FEW_PLACED, verify=False)  # all candidates take twice as long and differ by 2 %
    exact = rewrite_model(load_model(data), data, options)[1].after.arena_bytes
    assert abs(estimate / exact - 1) < 0.05


def test_an_estimate_includes_the_states_of_a_stream() -> None:
    raw = RawStream()
    source = raw.tensor((1, 1, 1, 40), 0.1, -5)
    window = raw.window(source, 30, 30, "STRIDED_SLICE", None)
    rng = np.random.default_rng(0)
    data = serialize_model(raw.stream([source], [raw.mixed(window, (31,), rng, "SPLIT")]))
    estimate, exact = (tflite_fuse.metrics(data, effort=effort) for effort in ("estimate", "exact"))
    assert exact["arena_bytes"] < 0.6 * exact["before_arena_bytes"]
    assert abs(estimate["arena_bytes"] / exact["arena_bytes"] - 1) < 0.05


def test_an_estimate_of_a_deep_network_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = deep_model(18)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = tflite_fuse.metrics(data)
    assert found["before_operators"] >= 68
    assert not list(tmp_path.iterdir())


def test_an_input_that_cannot_leave_is_counted() -> None:
    b = ModelBuilder(seed=0)
    x = b.input((1, 8, 8, 4))
    data = serialize_model(b.build([b.log_softmax(b.reshape(x, (1, 256)))]))
    for effort in ("estimate", "exact"):
        found = tflite_fuse.metrics(data, effort=effort, input_mode="external")
        assert found["input_over_bytes"] == 256 and found["feasible"] == 0


def test_damaged_models_and_unknown_words_are_errors() -> None:
    with pytest.raises(ModelError):
        tflite_fuse.metrics(BRANCHING[:100])
    with pytest.raises(UsageError, match="effort is estimate or exact"):
        tflite_fuse.metrics(BRANCHING, effort="hard")


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_commands_write_the_same_numbers(tmp_path: Path) -> None:
    model, out, numbers = (tmp_path / name for name in ("in.tflite", "out.tflite", "m.json"))
    model.write_bytes(BRANCHING)
    assert run("rewrite", model, out, "--metrics", numbers, "--no-verify")[0] == 0
    found = json.loads(numbers.read_text())
    validate(found, "metrics")
    assert found["file_bytes"] == out.stat().st_size and found["verified_inputs"] == 0
    assert run("inspect", out, "--metrics", numbers)[0] == 0
    again = json.loads(numbers.read_text())
    validate(again, "metrics")
    assert {name: found[name] for name in again} == again


@pytest.mark.parametrize("where", ["none/m.json", "."])
def test_numbers_that_cannot_be_written_stop_the_command_first(tmp_path: Path, where: str) -> None:
    model, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    model.write_bytes(BRANCHING)
    code, told = run("rewrite", model, out, "--metrics", tmp_path / where)
    assert code == 2 and "cannot be written" in told and not out.exists()
