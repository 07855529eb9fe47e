"""Folders for ESPHome: a manifest whose arena holds for every release, and what a fused model needs beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.export.exported import fused
from tests.test_cli import validate
from tests.uint8_models import with_uint8_borders
from tflite_fuse import UsageError
from tflite_fuse.export import export_model
from tflite_fuse.export.arena import declared_arenas
from tflite_fuse.memory.tflm.runtimes import runtime_for
from tflite_fuse.model import load_model, serialize_model


def wake_word(features: int = 40) -> bytes:
    b = ModelBuilder(5)
    x = b.conv(b.reshape(b.input((1, 3, features)), (1, 3, 1, features)), 16, (3, 1), activation="RELU")
    y = b.logistic(b.fully_connected(b.reshape(b.conv(x, 8), (1, 24)), 1))
    return serialize_model(with_uint8_borders(b.build([y]), inputs=False))


def manifest(folder: Path, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / f"{name}.json").read_text())
    return found


def test_the_arena_holds_for_old_and_new_releases_on_every_core(tmp_path: Path) -> None:
    source = tmp_path / "hey_you.tflite"
    source.write_bytes(wake_word())
    written = export_model(source, tmp_path / "out", "esphome")
    validate(written.to_json("esphome", tmp_path / "out"), "export")
    found = manifest(tmp_path / "out", "hey_you")
    assert (found["model"], found["wake_word"], found["version"]) == ("hey_you.tflite", "hey you", 2)
    needed = [
        each.nbytes
        for generation in ("2024", "2026")
        for each in declared_arenas(load_model(source), runtime_for("esp-idf", "esp-nn", generation))
    ]
    assert found["micro"]["tensor_arena_size"] == written.arena_bytes == max(needed) > min(needed)  # type: ignore[index]
    assert (tmp_path / "out" / "hey_you.tflite").read_bytes() and not (tmp_path / "out" / "components").exists()


def test_a_manifest_beside_the_model_keeps_its_trained_values(tmp_path: Path) -> None:
    small = tflite_fuse.rewrite(wake_word(), verify=False).model
    source = tmp_path / "mine.tflite"
    source.write_bytes(small)
    told = {
        "wake_word": "Mine",
        "micro": {"probability_cutoff": 0.5, "tensor_arena_size": 99999, "feature_step_size": 20},
    }
    source.with_suffix(".json").write_text(json.dumps(told))
    written = export_model(source, tmp_path / "out", "esphome")
    found = manifest(tmp_path / "out", "mine")
    expected = {"probability_cutoff": 0.5, "tensor_arena_size": written.arena_bytes, "feature_step_size": 20}
    assert found == {"wake_word": "Mine", "micro": expected, "model": "mine.tflite"}
    assert list((tmp_path / "out" / "components" / "tflite_fuse").rglob("tflite_fuse_tflm.cpp"))
    assert "tflite_fuse_register(op_resolver)" in (tmp_path / "out" / "README.md").read_text()
    for text in ("[", "[]", '{"micro": 3}'):
        source.with_suffix(".json").write_text(text)
        with pytest.raises(UsageError, match=r"mine\.json: "):
            export_model(source, tmp_path / "again", "esphome")
        assert not (tmp_path / "again").exists()


def test_other_models_and_options_are_refused(tmp_path: Path) -> None:
    for model in (fused(), wake_word(features=39)):
        with pytest.raises(UsageError, match=r"microWakeWord alone: one input int8 \[1, steps, 40\]"):
            export_model(model, tmp_path / "out", "esphome")
    for options in ({"kernels": "esp-nn"}, {"tflm": "2024"}, {"two_arenas": True}, {"benchmark": wake_word()}):
        with pytest.raises(UsageError, match="one arena, for all releases"):
            export_model(wake_word(), tmp_path / "out", "esphome", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
