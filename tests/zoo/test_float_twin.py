"""The float32 twin of an int8 network: nothing is quantized, and it computes about the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from scripts.zoo import networks
from scripts.zoo.borders import with_borders
from scripts.zoo.float_twin import float_twin
from tests.zoo.test_architectures import SMALL, build_model
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.types import TensorType
from tflite_fuse.runtime import tflm

NETWORKS = {
    "residuals": networks.inverted_residual_network(size=16, blocks=2),
    "cells": networks.cell_network(size=16),
    "wide": networks.wide_network(),
}


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("model", NETWORKS.values(), ids=NETWORKS)
def test_a_twin_computes_about_the_same(model: Model) -> None:
    twin, rng = float_twin(model), np.random.default_rng(0)
    assert {t.type for t in twin.main.tensors} <= {TensorType.FLOAT32, TensorType.INT32}
    source, output = model.main.tensors[model.main.inputs[0]], model.main.tensors[model.main.outputs[0]]
    images = [rng.integers(-128, 128, source.dims).astype(np.int8) for _ in range(4)]

    def real(values: np.ndarray, tensor: object) -> np.ndarray:
        quantization = tensor.quantization  # type: ignore[attr-defined]
        return ((values.astype(np.float64) - quantization.zero_point[0]) * quantization.scale[0]).astype(np.float32)

    expected = [real(each[0], output) for each in tflm.run(serialize_model(model), [[i] for i in images]).outputs]
    found = [each[0] for each in tflm.run(serialize_model(twin), [[real(i, source)] for i in images]).outputs]
    assert np.abs(np.array(expected) - np.array(found)).mean() < 0.1


def test_operators_between_types_are_gone() -> None:
    twin = float_twin(with_borders(NETWORKS["wide"], TensorType.FLOAT32, TensorType.FLOAT32))
    names = [operator_name(twin, operator) for operator in twin.main.operators]
    assert not {"QUANTIZE", "DEQUANTIZE"} & set(names) and names.count("CONV_2D") > 2


@pytest.mark.slow
def test_the_script_writes_the_twin_of_a_list_and_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "arch.json").write_text(json.dumps(SMALL))
    assert build_model(tmp_path / "arch.json", tmp_path / "int8.tflite").returncode == 0
    for source in ("arch.json", "int8.tflite"):
        done = build_model(tmp_path / source, tmp_path / f"{source}.out", "--float32")
        assert done.returncode == 0, done.stderr
    assert load_model(tmp_path / "arch.json.out") == load_model(tmp_path / "int8.tflite.out")
    refused = build_model(tmp_path / "int8.tflite", tmp_path / "out.tflite")
    assert refused.returncode == 2 and "--float32" in refused.stderr
