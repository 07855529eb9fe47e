"""Ranges of channels hold in the runtime: no value is outside of its range, in the pass and in the proof."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.mixed import mixed_graph
from tests.drawing.raw_models import RawModel
from tests.passes.preparing.chains_of_zeros import chains
from tflite_fuse.check.original.meanings import meanings_in_file
from tflite_fuse.check.original.ranges import extents
from tflite_fuse.check.original.values import Original
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.lower import lower_model
from tflite_fuse.passes.preparing.constant_channels import find_ranges
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def difference(sign: str, scales: tuple[float, float]) -> Model:
    """A sum or a difference of two inputs."""
    raw = RawModel()
    ends = [raw.tensor((1, 4, 4, 3), scale, -4) for scale in scales]
    result = raw.tensor((1, 4, 4, 3), 0.9, 7)
    raw.operator(sign, ends, [result], make_options("SubOptions" if sign == "SUB" else "AddOptions"))
    return raw.build(ends, [result])


def require_within(model: Model, seed: int) -> None:
    """Run a model on random images and on those of one value; compare all int8 tensors it computes."""
    made = [t for operator in model.main.operators for t in operator.outputs or ()]
    int8 = tuple(t for t in dict.fromkeys(made) if model.main.tensors[t].type == TensorType.INT8)
    shown = replace_main(model, replace(model.main, outputs=int8))
    types = {TensorType.INT8: np.int8, TensorType.UINT8: np.uint8, TensorType.FLOAT32: np.float32}
    inputs = [model.main.tensors[t] for t in model.main.inputs]
    rng = np.random.default_rng(seed)
    images = [
        [rng.integers(-128, 128, each.dims).astype(types[TensorType(each.type)]) for each in inputs] for _ in range(4)
    ]
    images += [[np.full(each.dims, end).astype(np.int16).astype(types[TensorType(each.type)]) for each in inputs]
               for end in (-128, 127, 0)]  # fmt: skip
    ours = {t: (found.low, found.high) for t, found in find_ranges(lower_model(model)).items()}
    original = Original(model)
    known = extents(original, meanings_in_file(original))
    proven = {t: (found.least, found.greatest) for t, found in known.items()}
    for outputs in tflm.run(serialize_model(shown), images).outputs:
        for tensor, values in zip(int8, outputs, strict=True):
            rows = values.reshape(-1, (1, *model.main.tensors[tensor].dims)[-1])
            for low, high in (each[tensor] for each in (ours, proven) if tensor in each):
                assert (rows >= low).all(), model.main.tensors[tensor].name
                assert (rows <= high).all(), model.main.tensors[tensor].name


@needs_tflm
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 20))
def test_networks_stay_within(seed: int) -> None:
    require_within(mixed_graph(random.Random(seed).randint), seed)


@needs_tflm
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(chains)
def test_chains_of_zeros_stay_within(model: Model) -> None:
    require_within(model, 1)


@needs_tflm
@pytest.mark.parametrize("sign", ["ADD", "SUB"])
@pytest.mark.parametrize("scales", [(0.3, 0.3), (0.2, 0.7), (0.7, 0.2)])
def test_sums_and_differences_stay_within(sign: str, scales: tuple[float, float]) -> None:
    require_within(difference(sign, scales), 3)
