"""Tables of results against the runtime on all 256 values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawing import raw_elementwise, table_models
from tests.drawing.raw_models import RawModel, add_convolution
from tests.drawing.table_rows import BYTE_ROWS, LITERT_ROWS, REAL_PAIR_ROWS, REAL_ROWS
from tests.runtime.fused_models import fuse
from tests.runtime.small_models import run_in
from tflite_fuse import api
from tflite_fuse.check import validate
from tflite_fuse.check.original.functions import answers_behind
from tflite_fuse.check.original.values import Original
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.ops.kinds.lookup import answers_of
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.runtime import litert, tflm

pytestmark = pytest.mark.skipif(not tflm.available(), reason="TensorFlow Lite Micro is not installed")

VALUES = np.arange(-128, 128).astype(np.int8).reshape(1, 256)


def run(model: Model) -> list[np.ndarray]:
    return list(tflm.run(serialize_model(model), [[VALUES]]).outputs[0])


def assert_same_answers(model: Model) -> None:
    """The runtime, the table of a block and the proof agree on all 256 values."""
    np.testing.assert_array_equal(proven_answers(model), run(model)[0].ravel())


def proven_answers(model: Model) -> np.ndarray:
    """The table of a block, which is that of the proof."""
    (source,), (output,) = model.main.inputs, model.main.outputs
    (stage,) = extract(model, range(len(model.main.operators))).block.stages
    found = answers_behind(Original(model), source)
    proven = [answers for step, start, answers in found if (start, step.outputs) == (source, (output,))]
    assert proven, "the proof knows no table of it"
    for answers in proven:
        np.testing.assert_array_equal(answers, answers_of(stage))
    return proven[0]


few = settings(max_examples=25, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", sorted(BYTE_ROWS))
@few
@given(data=st.data())
def test_an_operator_gives_the_runtimes_answers(name: str, data: st.DataObject) -> None:
    assert_same_answers(data.draw(raw_elementwise.elementwise(name, (1, 256))))


@pytest.mark.skipif(not litert.available(), reason="LiteRT is not installed")
@pytest.mark.parametrize("name", sorted(LITERT_ROWS))
@few
@given(data=st.data())
def test_an_operator_that_tflm_lacks_gives_the_answers_of_litert(name: str, data: st.DataObject) -> None:
    """But for a value next to the middle of two steps, where the last bit of a C library's function decides."""
    model = data.draw(raw_elementwise.elementwise(name, (1, 256)))
    theirs = run_in(litert, serialize_model(model), [[VALUES]])[0][0].ravel().astype(int)
    apart = np.abs(proven_answers(model) - theirs)
    assert apart.max() <= 1 and np.count_nonzero(apart) <= 2


def test_a_model_with_an_operator_that_tflm_lacks_runs_there_rewritten() -> None:
    model = RawModel()
    source, output = model.tensor((1, 12, 12, 4), 0.1, 0), model.tensor((1, 12, 12, 8), 0.02, -100)
    middle = add_convolution(model, source, (1, 12, 12, 8), kernel=3)
    model.operator("GELU", [middle], [output], make_options("GeluOptions"))
    result = api.rewrite(serialize_model(model.build([source], [output])))
    assert [operator_name(load_model(result.model), op) for op in load_model(result.model).main.operators] == [
        "CUSTOM:TFLITE_FUSE"
    ]
    tflm.run(result.model, [[np.zeros((1, 12, 12, 4), np.int8)]])


@pytest.mark.parametrize("name", sorted({*REAL_ROWS, *REAL_PAIR_ROWS}))
@few
@given(data=st.data())
def test_an_operator_on_float32_gives_the_runtimes_answers(name: str, data: st.DataObject) -> None:
    assert_same_answers(data.draw(table_models.between_types(name)))


def test_silu_of_two_operators_gives_the_runtimes_answers() -> None:
    rng = np.random.default_rng(1)
    for _ in range(12):
        model = RawModel()
        scale = float(np.float32(10 ** rng.uniform(-2, -0.5)))
        source = model.tensor((1, 256), scale, int(rng.integers(-128, 128)))
        sigmoid = model.tensor((1, 256), 1 / 256, -128)
        output = model.tensor((1, 256), float(np.float32(scale * rng.uniform(0.5, 1))), int(rng.integers(-128, 128)))
        model.operator("LOGISTIC", [source], [sigmoid], None)
        model.operator("MUL", [source, sigmoid], [output], make_options("MulOptions"))
        built = model.build([source], [output])
        found = {step.name: answers for step, _, answers in answers_behind(Original(built), built.main.inputs[0])}
        np.testing.assert_array_equal(run(built)[0].ravel(), found["MUL"])


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(raw_elementwise.elementwise_chains())
def test_blocks_of_one_value_and_two_at_a_time_are_proven(model: Model) -> None:
    data = serialize_model(model)
    found = validate(load_model(data), load_model(api.rewrite(data, verify=False, time_limit=3).model))
    assert found.proven, [str(finding) for finding in found.findings[:3]]


def test_an_identity_may_clamp_bytes_that_do_not_occur() -> None:
    raw = RawModel()
    chain = [raw.tensor((1, 3, 3, 1), 0.05, -128)]
    for point in (-128, 0, -128, -128):
        chain.append(raw.tensor((1, 3, 3, 1), 1.0, point))
        raw.operator("ELU", [chain[-2]], [chain[-1]], None)
    data = serialize_model(raw.build([chain[0]], [chain[1], chain[4]]))
    # The block computes the last output from the first: the same bytes, by a table that clamps at 127 on the way.
    rewritten = api.rewrite(data, verify=False).model
    assert validate(load_model(data), load_model(rewritten)).proven


def test_a_table_behind_a_reshape_that_regroups_channels_is_proven() -> None:
    """As detection heads have it: both are a block, and the tensor before the RESHAPE has other rows and channels."""
    raw = RawModel()
    source, renamed = raw.tensor((1, 4, 4, 6), 0.1, 5), raw.tensor((1, 48, 2), 0.1, 5)
    output = raw.tensor((1, 48, 2), 0.2, -7)
    shape = raw.constant(np.array((1, 48, 2), np.int32))
    raw.operator("RESHAPE", [source, shape], [renamed], make_options("ReshapeOptions", new_shape=[1, 48, 2]))
    raw.operator("QUANTIZE", [renamed], [output], None)
    data = serialize_model(raw.build([source], [output]))
    found = validate(load_model(data), load_model(fuse(data, range(2))))
    assert found.proven, [str(finding) for finding in found.findings[:3]]
