"""Blocks of one operator are proven for all options and quantizations: no false alarms."""

from __future__ import annotations

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.drawing import raw_elementwise
from tests.drawing import raw_models as raw
from tests.drawing.steps.attention import matrix_products
from tests.drawing.steps.gates import gates_in_every_position
from tests.drawing.steps.recurrent import lstms
from tests.runtime.fused_models import fuse
from tflite_fuse.check import validate
from tflite_fuse.errors import BlockError
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.model.schema import Model

MODELS = st.one_of(
    raw.convolutions(),
    raw.depthwise_convolutions(),
    raw.fully_connected(),
    raw.pads(),
    raw.pools("AVERAGE_POOL_2D"),
    raw.pools("MAX_POOL_2D"),
    raw.reductions("MEAN"),
    raw.reductions("REDUCE_MAX"),
    raw.first_largest(),
    matrix_products(),
    raw.concatenations(),
    st.sampled_from(sorted(raw_elementwise.PAIR_OPTIONS)).flatmap(raw_elementwise.pairs),
    st.sampled_from(raw_elementwise.ELEMENTWISE).flatmap(raw_elementwise.elementwise),
    raw_elementwise.elementwise_chains(),
    raw_elementwise.gated(),
    raw_elementwise.softmaxes(),
    gates_in_every_position(),
    lstms(),
)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(MODELS)
def test_a_block_of_any_operator_is_proven(model: Model) -> None:
    data = serialize_model(model)
    try:
        fused = fuse(data, range(len(model.main.operators)))
    except BlockError:  # it cannot be a block
        event("no block")
        return
    found = validate(load_model(data), load_model(fused))
    assert found.proven, [str(finding) for finding in found.findings[:5]]
