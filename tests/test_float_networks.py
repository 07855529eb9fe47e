"""Whole float32 networks: rewritten, proven, equal bytes in TensorFlow Lite Micro, and smaller."""

from __future__ import annotations

from pathlib import Path

import pytest

import tflite_fuse
from scripts.zoo import networks
from scripts.zoo.float_twin import float_twin
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.runtime import tflm

MODELS = Path(__file__).resolve().parents[2] / "shared" / "models"

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

NETWORKS = {
    "residuals": networks.inverted_residual_network(size=24, blocks=2),
    "cells": networks.cell_network(size=24),
    "wide": networks.wide_network(),
    "pyramid": networks.pyramid_network(size=24),
}


def gain(model: Model, **options: object) -> float:
    """How many times smaller the float32 twin's arena is rewritten."""
    report = tflite_fuse.rewrite(serialize_model(float_twin(model)), inputs=6, **options).report  # type: ignore[arg-type]
    assert report.verified is not None and report.verified.bit_exact
    assert report.proven is not None and report.proven.blocks > 0
    return report.before.arena_bytes / report.after.arena_bytes


@pytest.mark.parametrize("model", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("mode", ["resident", "streamed", "external"])
def test_networks_shrink_and_keep_their_bytes(model: Model, mode: str) -> None:
    assert gain(model, input_mode=mode) > 1.1


@pytest.mark.parametrize(("name", "least"), [("mlperf_tiny_resnet8_int8", 4.0), ("mlperf_tiny_dscnn_kws_int8", 3.5)])
def test_twins_of_public_models(name: str, least: float) -> None:
    path = MODELS / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the project")
    assert gain(load_model(path)) > least
