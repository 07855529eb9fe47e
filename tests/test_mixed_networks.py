"""Random networks of every operator the zoo can build, rewritten and run beside the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tflite_fuse
from scripts.zoo.float_twin import float_from
from tests.builders.mixed import mixed_models
from tests.runtime.small_models import run_in
from tflite_fuse import Goal, LimitError, ModelError
from tflite_fuse.model.file import Model, serialize_model
from tflite_fuse.model.types import BUILTIN_CODES
from tflite_fuse.runtime import litert, tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.runtime.processes.worker import Array

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


@settings(max_examples=10)
@given(
    model=mixed_models(),
    mode=st.sampled_from(tflite_fuse.INPUT_MODES),
    goal=st.sampled_from([None, Goal(least_ram=True)]),
    int8_io=st.booleans(),
)
def test_random_networks_keep_their_bytes(model: Model, mode: str, goal: Goal | None, int8_io: bool) -> None:
    try:
        report = tflite_fuse.rewrite(
            serialize_model(model), input_mode=mode, goal=goal, int8_io=int8_io, verify=True, inputs=4
        ).report
    except LimitError:  # No block reads the input, or one that does needs more.
        assert mode != "resident" or int8_io
        return
    assert report.verified is not None and report.verified.bit_exact
    assert report.after.arena_bytes <= report.before.arena_bytes


@settings(max_examples=10)
@given(model=mixed_models(), share=st.floats(0, 1), mode=st.sampled_from(["resident", "streamed"]))
def test_networks_on_float32_from_some_operator_on_keep_their_bytes(model: Model, share: float, mode: str) -> None:
    mixed = float_from(model, int(share * len(model.main.operators)))
    try:
        report = tflite_fuse.rewrite(serialize_model(mixed), input_mode=mode, inputs=4).report
    except LimitError:
        assert mode != "resident"
        return
    except ModelError as error:
        assert "cannot load" in str(error)
        return
    assert report.verified is None or report.verified.bit_exact
    assert report.after.arena_bytes <= report.before.arena_bytes


@pytest.mark.skipif(not litert.available(), reason="LiteRT is not installed")
@settings(max_examples=10)
@given(model=mixed_models(), share=st.floats(0, 1) | st.just(0.0))
def test_networks_on_float32_have_the_bytes_of_litert_s_reference_kernels(model: Model, share: float) -> None:
    """LiteRT rounds some int8 results otherwise, so that the file itself is compared where all of it is float32."""
    first = int(share * len(model.main.operators))
    mixed = _with_litert_s_versions(float_from(model, first))
    data, inputs = serialize_model(mixed), generate_inputs(mixed, 4)
    rewritten = _bytes_of(run_in(litert, tflite_fuse.rewrite(data, verify=False).model, inputs))
    try:
        assert rewritten == _bytes_of(tflm.run(data, inputs).outputs)
    except ModelError as error:
        assert "cannot load" in str(error)
    if first == 0:
        assert rewritten == _bytes_of(run_in(litert, data, inputs))


def _with_litert_s_versions(model: Model) -> Model:
    """The model with the only version of HARD_SWISH that LiteRT has."""
    number = BUILTIN_CODES["HARD_SWISH"]
    codes = tuple(replace(each, version=1) if each.code == number else each for each in model.operator_codes)
    return replace(model, operator_codes=codes)


def _bytes_of(results: Sequence[Sequence[Array]]) -> list[list[bytes]]:
    return [[output.tobytes() for output in outputs] for outputs in results]
