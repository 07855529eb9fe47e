"""Operators that ``inspect`` calls blocked are those that a rewrite leaves outside of blocks."""

from __future__ import annotations

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.drawing.raw_streams import RawStream
from tflite_fuse.model.file import load_model, serialize_model


def stream(cut: str) -> bytes:
    raw, rng = RawStream(), np.random.default_rng(0)
    source = raw.tensor((1, 1, 1, 40), 0.1, -5)
    mixed = raw.mixed(raw.window(source, 30, 30, cut, None), (31,), rng, "SPLIT")
    return serialize_model(raw.stream([source], [raw.convolution(mixed, 8, (1, 1), (1, 1), rng)]))


def blocked(data: bytes) -> list[str]:
    return [row.name.rpartition("_")[0] for row in tflite_fuse.inspect(data).operators if row.blocked is not None]


@pytest.mark.parametrize("cut", ["STRIDED_SLICE", "SPLIT_V"])
def test_variables_that_become_rings_are_not_blocked(cut: str) -> None:
    data = stream(cut)
    assert {"VAR_HANDLE", "ASSIGN_VARIABLE"} <= {
        row.name.rpartition("_")[0] for row in tflite_fuse.inspect(data).operators
    }
    left = load_model(tflite_fuse.rewrite(data, verify=False).model)
    assert [code.custom_code for code in left.operator_codes or ()] == ["TFLITE_FUSE"] and not blocked(data)


def test_operators_left_unchanged_by_a_rewrite_have_a_reason() -> None:
    b = ModelBuilder(seed=0)
    x = b.input((1, 4, 4, 2))
    state = b.variable((1, 4, 4, 2))
    y = b.add(x, b.read_variable(state))
    b.assign_variable(state, y)
    data = serialize_model(b.build([b.log_softmax(b.reshape(y, (1, 32)))]))
    assert blocked(data) == ["VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "LOG_SOFTMAX"]
    assert blocked(tflite_fuse.rewrite(data, verify=False).model) == blocked(data)
