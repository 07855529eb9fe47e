"""The bench over a folder of models: a row for each, including refused ones, and the mean of counted ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scripts.bench_corpus import measured, table
from scripts.zoo.networks import inverted_residual_network
from tests.uint8_models import with_uint8_borders
from tflite_fuse.model import save_model
from tflite_fuse.runtime import tflm


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_every_model_has_a_row_and_those_with_blocks_count(tmp_path: Path) -> None:
    save_model(with_uint8_borders(inverted_residual_network(size=24, blocks=1)), tmp_path / "good.tflite")
    (tmp_path / "bad.tflite").write_bytes(b"no model")
    rows = [measured(tmp_path / f"{name}.tflite", name, 2, None) for name in ("bad", "good")]
    bad, good = rows
    assert bad.report is None and bad.reason.startswith("refused") and not bad.counts
    assert good.counts and good.ratio is not None and good.ratio > 1 and good.ceiling is not None
    assert good.streamed is not None and good.report is not None and good.streamed < good.report.before.arena_bytes
    assert good.gain_streamed is not None and good.gain_streamed > 1
    outside = {("SVDF", "SVDF is not a fusable operator"): 1200}
    text = "\n".join(table([bad, replace(good, outside=outside, seconds=3.0)]))
    assert "| SVDF | SVDF is not a fusable operator | 1 | 1,200 |" in text and "good took longest, 3 s." in text
    assert f"{good.ratio:.2f}x is the geometric mean of the 1 models" in text and "1 refused, 0 larger" in text
