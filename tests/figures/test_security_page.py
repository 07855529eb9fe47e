"""Limits on the page on security are those of the code."""

from __future__ import annotations

from scripts.comparison import PAGE
from tflite_fuse import files
from tflite_fuse.ir.program import MOST_PARTS
from tflite_fuse.search.cut_graph import MOST_LAYERS
from tflite_fuse.search.from_model import MOST_PIXELS


def test_limits_on_files_and_models_equal_the_page() -> None:
    text = " ".join((PAGE.parent / "security.md").read_text().split())
    assert f"files beyond {files.MOST_BYTES >> 20} MiB and models beyond {MOST_PARTS:,} operators" in text
    assert f"models beyond {MOST_LAYERS:,} operators, or with maps beyond {MOST_PIXELS:,} pixels" in text
