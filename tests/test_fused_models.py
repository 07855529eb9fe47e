"""Whole models, fused at points all along their front, in the real runtime: same bytes, planned head, lower bound.

Real models where they lie beside the project, the published layer lists with random weights, and small random networks
that are always there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from scripts.zoo.architectures import build_architecture_file
from scripts.zoo.networks import inverted_residual_network
from tflite_fuse.emit.insert_blocks import insert_blocks
from tflite_fuse.errors import ModelError
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.place.portfolio import place
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.passes.plan import Plan
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.search.front import Front, Point
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front

POINTS = 5
INPUTS = 16

Outputs = list[list[np.ndarray]]


def spread(points: Sequence[Point], count: int = POINTS) -> list[Point]:
    """Both ends of a front and what lies evenly between."""
    chosen = np.unique(np.linspace(0, len(points) - 1, min(count, len(points))).round().astype(int))
    return [points[index] for index in chosen]


def check_front(model: Model, inputs: int = INPUTS, points: int = POINTS) -> Front:
    samples = generate_inputs(model, inputs)
    expected = tflm.run(serialize_model(model), samples).outputs
    front = fusion_front(model, SearchOptions(alignment=16))
    for point in spread(front.points, points):
        fused, _ = insert_blocks(model, point.blocks)
        planned = Plan().run(fused)
        result = tflm.run(serialize_model(planned.model), samples)
        assert_same(result.outputs, expected, f"F = {point.compute_factor:.3f}")
        placement = place(program_of(fused))
        assert placement.optimal and placement.height == placement.lower_bound
        assert result.allocations is not None and result.allocations.head_bytes == placement.height
    return front


def assert_same(outputs: Outputs, expected: Outputs, where: str) -> None:
    for index, (ours, theirs) in enumerate(zip(outputs, expected, strict=True)):
        for a, b in zip(ours, theirs, strict=True):
            assert a.tobytes() == b.tobytes(), f"{where}: input {index} differs"


def test_real_models_fused_compute_the_same_bytes(shared_model: Path) -> None:
    if shared_model.stem.startswith("swiftnet"):
        with pytest.raises(ModelError, match="Hybrid"):
            tflm.measure(shared_model.read_bytes())
        return
    check_front(load_model(shared_model))


def test_published_networks_fused_compute_the_same_bytes(shared_arch: Path) -> None:
    if shared_arch.stem.startswith("msf-chain"):
        inputs, points = 2, 3
    else:
        inputs, points = INPUTS, POINTS
    front = check_front(build_architecture_file(shared_arch, seed=3), inputs, points)
    assert len(front.points) >= points


@pytest.mark.parametrize("seed", range(4))
def test_small_networks_fused_compute_the_same_bytes(seed: int) -> None:
    check_front(inverted_residual_network(seed=seed), inputs=8)
