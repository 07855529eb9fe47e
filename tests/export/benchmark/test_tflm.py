"""Benchmarks for projects with TensorFlow Lite Micro, against stand-ins for the runtime and the boards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tflite_fuse
from tests.export.exported import network
from tests.export.stand_ins import FORMATS, run_with_stand_ins
from tflite_fuse.errors import UsageError
from tflite_fuse.export import export_model
from tflite_fuse.export.benchmark import OnBoard


def said(format: str, tmp_path: Path, *flags: str) -> list[dict[str, Any]]:
    original = network()
    rewritten = tflite_fuse.rewrite(original, verify=False).model
    export_model(rewritten, tmp_path / "model", format, benchmark=original, board=OnBoard("nano33ble", 64))
    text = run_with_stand_ins(tmp_path / "model" / FORMATS[format], format, 6, tmp_path, "-DFAKE_UNFUSED=1", *flags)
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("format", FORMATS)
def test_runs_both_models_and_prints_a_line_for_each(format: str, tmp_path: Path) -> None:
    original, rewritten = said(format, tmp_path, "-DFAKE_TICKS=5")
    assert (original["run"], rewritten["run"]) == ("original", "rewritten")
    assert original["arena_bytes"] > rewritten["arena_bytes"] and rewritten["arena_used"] == 1000
    assert rewritten["kernels"] == ("esp-nn" if format == "esp-idf" else "cmsis-nn")
    # Five microseconds pass from each reading of the clock to the next: two are around an operator, four around a run.
    assert rewritten["microseconds"] == 15 and rewritten["blocks"] == [{"name": "OPERATOR", "microseconds": 5}]


@pytest.mark.parametrize("format", FORMATS)
def test_outputs_that_differ_end_with_the_first_difference_and_no_time(format: str, tmp_path: Path) -> None:
    original, rewritten = said(format, tmp_path, "-DFAKE_TICKS=5", "-DFAKE_GROWTH=1")
    assert "microseconds" in original and "microseconds" not in rewritten
    assert rewritten["error"] == "output 0, byte 0, of input set 0 is 8, and 7 in the original"


def test_a_clock_that_stands_still_gives_no_time(tmp_path: Path) -> None:
    (found,) = said("arduino", tmp_path)
    assert "the clock does not move" in found["error"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_runtime_that_refuses_is_an_error_in_a_line(format: str, tmp_path: Path) -> None:
    (found,) = said(format, tmp_path, "-DFAKE_TICKS=5", "-DFAKE_ALLOCATES=0")
    assert found["error"] == "AllocateTensors failed"


def test_zephyr_has_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no benchmark for zephyr"):
        export_model(network(), tmp_path / "model", "zephyr", benchmark=network())
