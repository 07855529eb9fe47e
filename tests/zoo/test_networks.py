"""The network families run in TensorFlow Lite Micro; random graphs are valid files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

from scripts.zoo import networks
from tests.builders import random_models
from tflite_fuse.ir.program import program_of
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="needs the tflite-micro wheel")


def run_once(model: Model) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = [model.main.tensors[index].dims for index in model.main.inputs]
    arrays = [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]
    return tflm.run(serialize_model(model), [arrays]).outputs[0]


@needs_tflm
@pytest.mark.parametrize(
    "build",
    [
        networks.inverted_residual_network,
        networks.one_dimensional_network,
        lambda: networks.one_dimensional_network(along_rows=True),
        networks.branching_network,
        networks.cell_network,
        networks.pyramid_network,
    ],
)
def test_family_runs(build: Callable[[], Model]) -> None:
    assert np.unique(run_once(build())[0]).size > 1


def test_one_dimensional_axes_agree() -> None:
    names = [
        [operator_name(model, operator) for operator in model.main.operators]
        for model in (networks.one_dimensional_network(), networks.one_dimensional_network(along_rows=True))
    ]
    assert names[0] == names[1]


def test_branching_network_rewards_depth_first_order() -> None:
    """Breadth first holds every widened branch at once."""
    model = networks.branching_network(size=16, channels=8, branches=3, wide=2)
    widened = [tensor for tensor in model.main.tensors if tensor.dims == (1, 16, 16, 16) and tensor.buffer == 0]
    assert len(widened) == 3


@settings(max_examples=40)
@given(random_models(variables=True))
def test_random_models_are_valid_files(model: Model) -> None:
    assert load_model(serialize_model(model)) == model
    graph = program_of(model)
    assert len(graph.steps) == len(model.main.operators)


@needs_tflm
@settings(max_examples=12)
@given(random_models(variables=True))
def test_random_models_run(model: Model) -> None:
    outputs = run_once(model)
    expected = [model.main.tensors[index].dims for index in model.main.outputs]
    assert [array.shape for array in outputs] == expected
