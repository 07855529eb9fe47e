"""Every int8 model beside the project: its fusable pieces as blocks of whole tensors, against the real runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.runtime.fused_models import constants_of
from tflite_fuse.errors import BlockError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.extract import Extraction, extract, fusability
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.reference import run_block_reference

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def fusable_runs(model: Model) -> list[list[int]]:
    """Longest runs of consecutive fusable operators."""
    runs: list[list[int]] = [[]]
    for index, reason in enumerate(fusability(model)):
        if reason is None:
            runs[-1].append(index)
        else:
            runs.append([])
    return [run for run in runs if run]


def extracted(model: Model, run: list[int]) -> list[Extraction]:
    """A run as one block, or one by one where an operator reads pixels that the one before wrote as others."""
    try:
        return [extract(model, run)]
    except BlockError:
        return [extract(model, [index]) for index in run]


def model_inputs(model: Model, count: int) -> list[list[npt.NDArray[np.generic]]]:
    rng = np.random.default_rng(7)

    def one(index: int, number: int) -> npt.NDArray[np.generic]:
        tensor = model.main.tensors[index]
        if tensor.type == TensorType.FLOAT32:
            return rng.uniform(-1, 1, tensor.dims).astype(np.float32)
        value = {0: -128, 1: 127}.get(number)
        drawn = rng.integers(-128, 128, tensor.dims) if value is None else np.full(tensor.dims, value)
        return drawn.astype(np.int8)

    return [[one(index, number) for index in model.main.inputs] for number in range(count)]


def test_fusable_pieces_compute_the_runtime_s_bytes(shared_model: Path) -> None:
    model = load_model(shared_model)
    extractions = [each for run in fusable_runs(model) for each in extracted(model, run)]
    if not extractions:
        assert any("uint8" in (reason or "") for reason in fusability(model))
        return
    stored = constants_of(model)
    operands = dict.fromkeys(t for each in extractions for t in (*each.inputs, *each.outputs))
    watched = tuple(tensor for tensor in operands if tensor not in stored)
    # Outputs of the graph stay in the arena to the end, so listing the operands there makes them readable.
    exposed = replace_main(model, replace(model.main, outputs=watched))
    batches = model_inputs(model, count=3)
    for values in tflm.run(serialize_model(exposed), batches).outputs:
        truth = stored | dict(zip(watched, values, strict=True))
        for extraction in extractions:
            results = run_block_reference(extraction.block, [truth[index] for index in extraction.inputs])
            for index, result in zip(extraction.outputs, results, strict=True):
                np.testing.assert_array_equal(result.ravel(), truth[index].ravel())
