"""Published figures against ours on the same networks. Skipped where the networks are not beside the project."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scripts.papers.layers import graph_from_layers
from scripts.points import least_ram
from tests.conftest import SHARED
from tflite_fuse.runtime import tflm
from tflite_fuse.search.front import Front
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front
from tflite_fuse.search.schemes import Scheme

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_papers.py"

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

TARGETS = {
    "mbv2-w0.35": (84_000, 76_000),
    "mcunet-in0": (18_500, 13_500),
    "mcunet-in1": (43_000, 39_000),
    "mcunet-in2": (115_000, 106_000),
    "mcunet-in3": (143_000, 129_000),
    "mcunet-in4": (148_000, 124_000),
    "mcunet-vww0": (22_500, 20_500),
    "mcunet-vww1": (32_500, 27_500),
    "mcunet-vww2": (91_000, 85_000),
    "proxyless-w0.3": (134_000, 122_000),
}
"""Bytes at zero recompute and at a compute factor of at most 1.1: input image and residuals counted."""

SECONDS = 2.0
"""For the whole front of any of these networks."""


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"no {name} beside the project")
    return path


@cache
def front_of(name: str) -> Front:
    return fusion_front(graph_from_layers(json.loads(shared(f"arch/{name}.json").read_text())))


@pytest.mark.parametrize("name", TARGETS)
def test_working_sets_with_the_image_resident(name: str) -> None:
    description = json.loads(shared(f"arch/{name}.json").read_text())
    start = time.process_time()
    front = fusion_front(graph_from_layers(description))
    assert time.process_time() - start < SECONDS
    assert front.unfused.work == description["macs_total"]
    assert front.unfused.ram_bytes == description["peak_layerwise_with_residual"]
    zero, little = TARGETS[name]
    assert least_ram(front, 1.0).ram_bytes <= zero
    assert least_ram(front, 1.1).ram_bytes <= little
    assert least_ram(front, 1.0).compute_factor == 1.0


def test_every_row_of_msf_cnns_table_is_beaten() -> None:
    with shared("facts/msf_cnn_table1.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    fronts = run_bench("msf-cnn")["fronts"]
    for row in rows:
        if row["ram_kb"]:
            ram, factor = float(row["ram_kb"]) * 1000, float(row["compute_factor"])
            points = [(point["ram_bytes"], point["compute_factor"]) for point in fronts[row["model"]]]
            assert any(r <= ram and f <= factor and (r, f) != (ram, factor) for r, f in points), row


def test_unfused_chains_need_the_ram_of_the_paper() -> None:
    rows = [row for row in run_bench("msf-cnn")["rows"] if row["constraint"] == "vanilla"]
    assert len(rows) == 3
    for row in rows:
        assert row["ours_ram_bytes"] == pytest.approx(row["theirs_ram_bytes"], rel=1e-3)


def test_schemes_are_never_better_than_the_free_search_on_a_real_network() -> None:
    free = front_of("mcunet-vww0")
    for scheme in Scheme:
        for point in fusion_front(free.graph, SearchOptions(scheme=scheme)).points:
            assert any(o.ram_bytes <= point.ram_bytes and o.work <= point.work for o in free.points), scheme


@pytest.mark.parametrize(("name", "reduction", "blocks"), [("mbv2-w0.35", 0.5, 2), ("mcunet-vww0", 0.5, 3)])
def test_fused_inverted_residuals_halve_the_memory_with_few_blocks(name: str, reduction: float, blocks: int) -> None:
    free = front_of(name)
    fused = least_ram(fusion_front(free.graph, SearchOptions(scheme=Scheme.INVERTED_RESIDUAL, tiles=(8, 8))))
    assert fused.ram_bytes <= (1 - reduction) * free.unfused.ram_bytes
    assert len(fused.blocks) == blocks
    assert least_ram(free, fused.compute_factor).ram_bytes < fused.ram_bytes


@cache
def run_bench(paper: str) -> dict[str, Any]:
    shared("facts/msf_cnn_table1.csv")
    command = [sys.executable, str(SCRIPT), "--paper", paper, "--inputs", "0", "--json"]
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert result["paper"] == paper and result["accounting"]
    return result


def test_the_benchmark_names_missing_files(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("bench_papers.py: ") and "--data" in done.stderr


def run_real(paper: str, model: str, *more: str) -> dict[str, Any]:
    shared("facts/msf_cnn_table1.csv")
    command = [sys.executable, str(SCRIPT), "--paper", paper, "--model", model, "--inputs", "2", "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert row["model"] == model
    return dict(row)


@needs_tflm
def test_real_runs_on_networks_of_streamnet() -> None:
    row = run_real("streamnet", "mcunet-vww1")
    theirs = row["theirs_stream_2d_ram_bytes"]
    assert row["measured streamed head_bytes"] <= theirs / 3
    assert row["measured external head_bytes"] <= row["measured streamed head_bytes"]
    assert row["measured resident head_bytes"] <= min(1.08 * row["image_bytes"], theirs)


@needs_tflm
@pytest.mark.parametrize("name", ["MBV2-w0.35", "MN2-vww5"])
def test_real_runs_beat_the_least_ram_of_msf_cnn_by_nine_percent(name: str) -> None:
    row = run_real("msf-cnn", name, "--constraint", "P1:inf")
    assert row["measured_head_bytes"] <= 0.91 * row["theirs_ram_bytes"]
    assert row["measured_compute_factor"] <= row["theirs_compute_factor"]


@needs_tflm
@pytest.mark.parametrize("name", ["mlperf_tiny_dscnn_kws_int8", "mcunet_vww1_float_io_int8"])
def test_real_runs_of_public_models_stay_within_the_aims(name: str) -> None:
    row = run_real("frontier", name)
    assert row["met"]
    for mode in ("resident", "streamed", "external"):
        assert row[f"{mode}: arena_bytes"] <= row[f"{mode}: aim_bytes"] and row[f"{mode}: F"] <= 1.1
