"""The sample model matches the demo's text: small, accurate, and with work for every pass."""

from __future__ import annotations

import numpy as np
import pytest

from scripts import shapes
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.ir.liveness import peak
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.greedy_planner import head_bytes
from tflite_fuse.model import load_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="needs the tflite-micro wheel")

OPERATORS = {
    "ADD",
    "AVERAGE_POOL_2D",
    "CONCATENATION",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "FULLY_CONNECTED",
    "MEAN",
    "PAD",
    "SOFTMAX",
}


def test_file_is_small_and_made_of_common_operators() -> None:
    model = load_model(SAMPLE_MODEL)
    assert SAMPLE_MODEL.stat().st_size <= 300_000
    assert {operator_name(model, operator) for operator in model.main.operators} == OPERATORS


def test_input_is_a_picture_as_the_drawing_gives_it() -> None:
    model = load_model(SAMPLE_MODEL)
    tensor = model.main.tensors[model.main.inputs[0]]
    assert tensor.dims == (1, shapes.SIZE, shapes.SIZE, 3)
    assert tensor.quantization is not None and tensor.quantization.scale and tensor.quantization.zero_point
    assert tensor.quantization.scale[0] == pytest.approx(1 / 255)
    assert tensor.quantization.zero_point[0] == -128
    assert model.main.tensors[model.main.outputs[0]].dims == (1, len(shapes.CLASSES))


def test_file_order_and_greedy_planner_waste_memory() -> None:
    """Another order of the cell's branches has a lower peak, and the runtime's planner is above either bound."""
    model = load_model(SAMPLE_MODEL)
    graph = program_of(model)
    pool = next(i for i, op in enumerate(graph.steps) if op.name.startswith("AVERAGE_POOL_2D"))
    join = next(i for i, op in enumerate(graph.steps) if op.name.startswith("CONCATENATION"))
    order = list(range(len(graph.steps)))
    order[pool:join] = [*order[pool + 2 : join], pool, pool + 1]
    assert peak(graph.reordered(order)) < 0.8 * peak(graph)
    assert head_bytes(model) > peak(graph)


@pytest.mark.slow
@needs_tflm
def test_accuracy_in_the_runtime() -> None:
    images, labels = shapes.pictures(120)
    inputs = [[image[None]] for image in shapes.quantized(images)]
    outputs = tflm.run(SAMPLE_MODEL.read_bytes(), inputs).outputs
    found = np.array([int(arrays[0].argmax()) for arrays in outputs])
    assert np.mean(found == labels) >= 0.8


def test_pictures_are_a_function_of_the_seed() -> None:
    images, labels = shapes.pictures(12, seed=5)
    again, labels_again = shapes.pictures(12, seed=5)
    other, _ = shapes.pictures(12, seed=6)
    assert images.shape == (12, shapes.SIZE, shapes.SIZE, 3)
    assert images.dtype == np.uint8
    assert np.array_equal(images, again)
    assert np.array_equal(labels, labels_again)
    assert not np.array_equal(images, other)
    assert sorted(labels) == sorted(list(range(len(shapes.CLASSES))) * 2)


@pytest.mark.parametrize("label", range(len(shapes.CLASSES)), ids=shapes.CLASSES)
def test_every_shape_is_visible(label: int) -> None:
    """A shape covers part of the picture, with an edge sharper than the background's gradient and noise."""
    for seed in range(5):
        picture = shapes.draw(label, np.random.default_rng(seed)).astype(float)
        blocks = picture.reshape(32, 4, 32, 4, 3).mean(axis=(1, 3))
        steps = np.abs(np.diff(blocks, axis=0)).max(axis=2)
        assert steps.max() > 25.0
        assert np.mean(steps > 25.0) < 0.3


def test_quantized_maps_pixels_to_the_whole_int8_range() -> None:
    assert shapes.quantized(np.array([0, 128, 255], np.uint8)).tolist() == [-128, 0, 127]
