"""Runs of scripts/bench_papers.py: published figures against ours, and against rewritten models that were run.

Skipped where the networks are not beside the project.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SHARED
from tflite_fuse.runtime import tflm

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_papers.py"
TABLE = SHARED / "facts" / "msf_cnn_table1.csv"

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
needs_facts = pytest.mark.skipif(not TABLE.is_file(), reason="no published figures beside the project")


@cache
def run_bench(paper: str) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), "--paper", paper, "--inputs", "0", "--json"]
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert result["paper"] == paper and result["accounting"]
    return result


def run_real(paper: str, model: str, *more: str) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), "--paper", paper, "--model", model, "--inputs", "2", "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert row["model"] == model
    return dict(row)


def test_the_benchmark_names_missing_files(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("bench_papers.py: ") and "--data" in done.stderr


@needs_facts
def test_every_row_of_msf_cnns_table_is_beaten() -> None:
    with TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    fronts = run_bench("msf-cnn")["fronts"]
    for row in rows:
        if row["ram_kb"]:
            ram, factor = float(row["ram_kb"]) * 1000, float(row["compute_factor"])
            points = [(point["ram_bytes"], point["compute_factor"]) for point in fronts[row["model"]]]
            assert any(r <= ram and f <= factor and (r, f) != (ram, factor) for r, f in points), row


@needs_facts
def test_unfused_chains_need_the_ram_of_the_paper() -> None:
    rows = [row for row in run_bench("msf-cnn")["rows"] if row["constraint"] == "vanilla"]
    assert len(rows) == 3
    for row in rows:
        assert row["ours_ram_bytes"] == pytest.approx(row["theirs_ram_bytes"], rel=1e-3)


@needs_tflm
@needs_facts
def test_real_runs_on_networks_of_streamnet() -> None:
    row = run_real("streamnet", "mcunet-vww1")
    theirs = row["theirs_stream_2d_ram_bytes"]
    assert row["measured streamed head_bytes"] <= theirs / 3
    assert row["measured external head_bytes"] <= row["measured streamed head_bytes"]
    assert row["measured resident head_bytes"] <= min(1.08 * row["image_bytes"], theirs)


@needs_tflm
@needs_facts
@pytest.mark.parametrize("name", ["MBV2-w0.35", "MN2-vww5"])
def test_real_runs_beat_the_least_ram_of_msf_cnn_by_nine_percent(name: str) -> None:
    row = run_real("msf-cnn", name, "--constraint", "P1:inf")
    assert row["measured_head_bytes"] <= 0.91 * row["theirs_ram_bytes"]
    assert row["measured_compute_factor"] <= row["theirs_compute_factor"]


@needs_tflm
@needs_facts
@pytest.mark.parametrize("name", ["mlperf_tiny_dscnn_kws_int8", "mcunet_vww1_float_io_int8"])
def test_real_runs_of_public_models_stay_within_the_aims(name: str) -> None:
    row = run_real("frontier", name)
    assert row["met"]
    for mode in ("resident", "streamed", "external"):
        assert row[f"{mode}: arena_bytes"] <= row[f"{mode}: aim_bytes"] and row[f"{mode}: F"] <= 1.1
