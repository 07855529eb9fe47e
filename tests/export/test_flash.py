"""The flash of a project is measured, or reported as not measured."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tflite_fuse
from tests.conftest import shared_models
from tests.export.exported import fused, network
from tflite_fuse.cli import app
from tflite_fuse.export import export_model, flash

needs_arm = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="arm-none-eabi-gcc is not installed")


def test_without_a_compiler_no_size_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flash._linked.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    found = export_model(fused(), tmp_path / "model", "c")
    flash._linked.cache_clear()
    assert found.flash.library_bytes is None
    assert "the library was not measured" in found.flash.sentence()
    assert "the library was not measured" in (tmp_path / "model" / "README.md").read_text()


def test_a_compiler_that_fails_is_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("arm-none-eabi-gcc", "arm-none-eabi-size"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    flash._linked.cache_clear()
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = export_model(fused(), tmp_path / "model", "c")
    flash._linked.cache_clear()
    assert found.flash.library_bytes is None


@needs_arm
def test_the_readme_contains_the_measured_sizes(tmp_path: Path) -> None:
    found = export_model(fused(), tmp_path / "model", "c").flash
    assert found.library_bytes is not None and 5_000 < found.library_bytes < 30_000
    text = (tmp_path / "model" / "README.md").read_text()
    assert f"Flash: {found.sentence()}. The library was measured at export" in text
    assert f" {found.library_bytes:,} for the library at -Os on a Cortex-M4" in text


@needs_arm
def test_the_command_prints_the_flash_too(tmp_path: Path) -> None:
    (tmp_path / "in.tflite").write_bytes(network("none"))
    done = CliRunner().invoke(app, ["export", str(tmp_path / "in.tflite"), str(tmp_path / "model"), "--format", "c"])
    assert done.exit_code == 0 and "for the library at -Os on a Cortex-M4" in done.output.replace("\n", " ")


@needs_arm
@shared_models("mlperf_tiny_dscnn_kws_int8")
def test_the_keyword_models_library_takes_at_most_20_kilobytes(path: Path, tmp_path: Path) -> None:
    """At -Os on a Cortex-M4, loops of weights in pairs included."""
    rewritten = tflite_fuse.rewrite(path, verify=False, target="cortex-m4").model
    found = export_model(rewritten, tmp_path / "model", "c").flash
    assert (found.flags, found.core) == ("-Os", "a Cortex-M4")
    assert found.library_bytes is not None and found.library_bytes <= 20_200
