"""Random graphs with branches: every run of operators that is a block gives the real runtime's bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.builders import random_models
from tests.drawing.raw_models import edgy_int8, seeds
from tests.runtime.fused_models import constants_of
from tflite_fuse.errors import BlockError
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.ops.lowering.extract import Extraction, extract, fusability
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.reference import run_block_reference

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def blocks(model: Model) -> list[Extraction]:
    """Every run of consecutive fusable operators that makes a block, longest first from each start."""
    found: list[Extraction] = []
    reasons = fusability(model)
    start = 0
    while start < len(reasons):
        end = start
        while end < len(reasons) and reasons[end] is None:
            end += 1
        for last in range(end, start, -1):
            try:
                found.append(extract(model, range(start, last)))
            except BlockError:
                continue
            start = last - 1
            break
        start += 1
    return found


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(random_models(most_operators=10), seeds)
def test_runs_of_operators_as_blocks(model: Model, seed: int) -> None:
    extractions = blocks(model)
    stored = constants_of(model)
    operands = dict.fromkeys(t for each in extractions for t in (*each.inputs, *each.outputs))
    watched = tuple(tensor for tensor in operands if tensor not in stored)
    if not watched:
        return
    exposed = replace_main(model, replace(model.main, outputs=watched))
    rng = np.random.default_rng(seed)
    images = [edgy_int8(rng, model.main.tensors[index].dims) for index in model.main.inputs]
    truth = stored | dict(zip(watched, tflm.run(serialize_model(exposed), [images]).outputs[0], strict=True))
    for extraction in extractions:
        results = run_block_reference(extraction.block, [truth[index] for index in extraction.inputs])
        for index, result in zip(extraction.outputs, results, strict=True):
            np.testing.assert_array_equal(result.ravel(), truth[index].ravel())
