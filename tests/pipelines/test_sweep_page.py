"""The page of a sweep on a phone, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.browser import browser, shown
from tflite_fuse.pipelines.summary import write_summary
from tflite_fuse.pipelines.sweep import Row

FIGURES = {
    "before_arena_bytes": 1_269_232.0,
    "arena_bytes": 221_408.0,
    "file_bytes": 2_894_840.0,
    "compute_factor": 1.0,
    "feasible": 1.0,
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_column_is_cut_off_on_a_phone(scheme: str, tmp_path: Path) -> None:
    rows = [
        Row("a", "mlperf_tiny_dscnn_kws_int8.tflite", "default", "", FIGURES),
        Row("b", "broken.tflite", "default", "broken.tflite: an offset points 95308 bytes past the end of the file"),
    ]
    write_summary(tmp_path, rows)
    with browser(tmp_path / "profile") as driver:
        shown(driver, tmp_path / "index.html", 380, scheme)
        inner, outer = driver.execute_script(
            "const box = document.querySelector('div'); return [box.scrollWidth, box.clientWidth]"
        )
    assert inner <= outer
