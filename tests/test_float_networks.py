"""Whole float32 networks: rewritten, proven, equal bytes in TensorFlow Lite Micro, and smaller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import networks
from scripts.zoo.float_twin import float_twin
from tests.drawing.raw_models import RawModel
from tests.drawing.steps.attention import dense
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.ops.lowering.extract import fusability
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


def normalized_head() -> Model:
    """Wake word heads' layers: dense, then a layer normalization as Keras writes it, 1 / deviation times factors."""
    model, rng = RawModel(), np.random.default_rng(3)
    x, axis = model.tensor((1, 96), 0.05), model.constant(np.array([1], np.int32))
    wide = dense(model, x, 32, rng)
    mean, squares, variance = model.tensor((1, 1), 0.05), model.tensor((1, 32), 0.5, -128), model.tensor((1, 1), 0.5)
    raised, inverse, factors = (
        model.tensor((1, 1), 0.5, -128),
        model.tensor((1, 1), 0.01, -128),
        model.tensor((1, 32), 0.01),
    )
    scaled, moved, rest, output = (model.tensor((1, 32), 0.05) for _ in range(4))
    gamma, beta, least = (
        model.constant(rng.integers(-127, 128, shape).astype(np.int8), [0.01]) for shape in ((32,), (32,), (1,))
    )
    reducing, product = make_options("ReducerOptions", keep_dims=True), make_options("MulOptions")
    model.operator("MEAN", [wide, axis], [mean], reducing)
    model.operator("SQUARED_DIFFERENCE", [wide, mean], [squares], None)
    model.operator("MEAN", [squares, axis], [variance], reducing)
    model.operator("ADD", [variance, least], [raised], make_options("AddOptions"))
    model.operator("RSQRT", [raised], [inverse], None)
    model.operator("MUL", [inverse, gamma], [factors], product)
    model.operator("MUL", [wide, factors], [scaled], product)
    model.operator("MUL", [mean, factors], [moved], product)
    model.operator("SUB", [beta, moved], [rest], make_options("SubOptions"))
    model.operator("ADD", [scaled, rest], [output], make_options("AddOptions", fused_activation_function=1))
    return model.build([x], [dense(model, output, 1, rng)])


@pytest.mark.parametrize("make", [lambda model: model, float_twin], ids=["int8", "float32"])
def test_blocks_hold_all_of_a_head_with_a_layer_normalization(make: Callable[[Model], Model]) -> None:
    model = make(normalized_head())
    assert set(fusability(model)) == {None}
    report = tflite_fuse.rewrite(serialize_model(model), inputs=6, verify=True).report
    assert report.proven is not None and report.proven.blocks > 0
