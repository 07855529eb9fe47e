"""Both sides of the options' format are what the schema says."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.skipif(shutil.which("flatc") is None, reason="flatc is not installed")
def test_generating_the_format_again_changes_nothing() -> None:
    generator = runpy.run_path(str(ROOT / "scripts" / "generate_format.py"))
    schema = generator["read_schema"]()
    assert len(generator["FILES"]) == 4
    for path, make in generator["FILES"].items():
        assert make(schema) == (ROOT / path).read_text(), f"{path}: run scripts/generate_format.py"
