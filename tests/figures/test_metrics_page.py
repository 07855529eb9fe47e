"""Errors of estimates on public models are within the bounds on the page on pipelines."""

from __future__ import annotations

import re

import pytest

import tflite_fuse
from scripts.comparison import PAGE
from tests.conftest import SHARED

TEXT = " ".join((PAGE.parent / "pipelines.md").read_text().split())


@pytest.mark.parametrize(
    "name",
    ["mlperf_tiny_dscnn_kws_int8", "mlperf_tiny_resnet8_int8", "mlperf_tiny_vww96_int8", "mlperf_tiny_wakeword1d_int8"],
)
def test_errors_of_estimates_are_within_those_on_the_page(name: str) -> None:
    path = SHARED / "models" / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    arena = re.search(r"arena was [\d.]+ % off on average and ([\d.]+) % at most", TEXT)
    instructions = re.search(r"instructions [\d.]+ % and ([\d.]+) %", TEXT)
    assert arena and instructions
    estimate, exact = tflite_fuse.metrics(path), tflite_fuse.metrics(path, effort="exact")
    for key, most in (("arena_bytes", arena), ("instructions", instructions)):
        assert round(abs(estimate[key] / exact[key] - 1) * 100, 1) <= float(most[1]), "run scripts/bench_metrics.py"
