"""Pointwise stages of one or two values in every position of a block, in the real runtime: the original's bytes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawing import raw_elementwise
from tests.runtime.fused_models import fuse, fuse_outside
from tflite_fuse.ir.block import BlockConfig, Storage
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.inputs import generate_inputs

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

thorough = settings(max_examples=120, suppress_health_check=list(HealthCheck))

WHOLE = 65535
sizes = st.sampled_from([WHOLE, WHOLE, 1, 2, 3, 5])
chunks = st.sampled_from([1, 2, 4, 100])


@thorough
@given(raw_elementwise.elementwise_chains(), sizes, sizes, chunks)
def test_in_strips_bands_and_tiles(model: Model, height: int, width: int, chunk: int) -> None:
    data = serialize_model(model)
    fused = fuse(data, range(len(model.main.operators)), BlockConfig(height, width, chunk))
    assert compare(data, fused, generate_inputs(model, 4)).first_difference is None


@thorough
@given(raw_elementwise.elementwise_chains(), st.sampled_from([Storage.EXTERNAL, Storage.SCRATCH]), chunks)
def test_behind_inputs_outside_the_arena(model: Model, storage: Storage, chunk: int) -> None:
    data = serialize_model(model)
    fused = fuse_outside(data, range(len(model.main.operators)), storage, BlockConfig(WHOLE, WHOLE, chunk))
    assert compare(data, fused, generate_inputs(model, 4)).first_difference is None
