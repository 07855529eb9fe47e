"""Heads of attention, turned before the tokens and back: operators for each head give the runtime's bytes, proven."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.zoo.float_twin import float_twin
from tests.drawing.random_blocks import random_reals
from tests.drawing.raw_models import RawModel, edgy_int8, seeds
from tests.drawing.steps.attention import attention_of_heads, heads
from tests.drawing.witness import assert_same_bytes
from tflite_fuse import Goal
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.check.correspondence import Correspondence
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.operators import operator_name
from tflite_fuse.notes import note
from tflite_fuse.passes.preparing.heads import Heads
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def names(model: Model) -> list[str]:
    return [operator_name(model, operator) for operator in model.main.operators]


@needs_tflm
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(heads(), st.booleans(), seeds)
def test_operators_of_each_head_give_the_same_bytes(model: Model, real: bool, seed: int) -> None:
    model, rng = float_twin(model) if real else model, np.random.default_rng(seed)
    apart = Heads().run(model).model
    assert "TRANSPOSE" not in names(apart) and validate(model, apart).proven
    dims = model.main.tensors[model.main.inputs[0]].dims
    images = [[random_reals(rng, dims) if real else edgy_int8(rng, dims)]]
    before, after = (tflm.run(serialize_model(each), images).outputs[0] for each in (model, apart))
    for ours, theirs in zip(after, before, strict=True):
        assert_same_bytes(ours, theirs)


@needs_tflm
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("is_keras", [False, True])
def test_only_tokens_keys_and_values_are_whole(real: bool, is_keras: bool) -> None:
    model, size = attention_of_heads(48, 2, 16, is_keras=is_keras), 1
    if real:
        model, size = float_twin(model), 4
    result = rewrite(serialize_model(model), inputs=3, verify=True)
    assert set(names(load_model(result.model))) == {"CUSTOM:TFLITE_FUSE"}
    assert result.report.before.arena_bytes > 2 * 2 * 48 * 48 * size  # scores and shares
    assert result.report.after.arena_bytes < 3 * 48 * 32 * size + 1024
    assert note("changed", "heads", "TRANSPOSE_17" if is_keras else "TRANSPOSE_12", heads=2) in result.report.records


@pytest.mark.parametrize("keys", ["by column", "turned", "both"])
@pytest.mark.parametrize("batch", [(), (1,), (1, 2)])
def test_blocks_of_keys_and_values_of_the_same_channels_are_proven(keys: str, batch: tuple[int, ...]) -> None:
    model = attention_of_heads(6, 2, 3, keys, shares=True, batch=batch)
    result = rewrite(serialize_model(model), verify=False, goal=Goal(least_ram=True))
    assert not [each for each in result.report.records if each.reason == "no proof"]


def exchanged(model: Model, name: str) -> Model:
    """The model with the weights of its first two operators of a name exchanged."""
    first, second = [index for index, each in enumerate(names(model)) if each == name][:2]
    operators = list(model.main.operators)
    one, other = operators[first], operators[second]
    operators[first] = replace(one, inputs=((one.inputs or ())[0], *(other.inputs or ())[1:]))
    operators[second] = replace(other, inputs=((other.inputs or ())[0], *(one.inputs or ())[1:]))
    return replace_main(model, replace(model.main, operators=tuple(operators)))


def test_the_weights_of_another_head_are_not_proven() -> None:
    model = attention_of_heads(5, 2, 3)
    apart = Heads().run(model).model
    assert validate(model, apart).proven and not validate(model, exchanged(apart, "FULLY_CONNECTED")).proven


def test_heads_joined_in_another_order_are_not_proven() -> None:
    model = attention_of_heads(5, 2, 3)
    apart = Heads().run(model).model
    place = names(apart).index("CONCATENATION")
    operators = list(apart.main.operators)
    operators[place] = replace(operators[place], inputs=(operators[place].inputs or ())[::-1])
    swapped = replace_main(apart, replace(apart.main, operators=tuple(operators)))
    assert not validate(model, swapped).proven


@pytest.mark.parametrize("name", ["MUL", "BATCH_MATMUL"])
def test_long_chains_between_transposes_stay(name: str) -> None:
    """A chain as deep as a file likes, and one whose operands double at each step."""
    raw = RawModel()
    source = raw.tensor((1, 3, 6), 0.25)
    rows, newest, mixed, back = (raw.tensor(dims, 0.25) for dims in ((1, 3, 2, 3), *[(1, 2, 3, 3)] * 2, (1, 3, 2, 3)))
    raw.operator("RESHAPE", [source, raw.constant(np.array([1, 3, 2, 3], np.int32))], [rows], None)
    order = raw.constant(np.array([0, 2, 1, 3], np.int32))
    raw.operator("TRANSPOSE", [rows, order], [newest], None)
    one = raw.constant(np.array([3], np.int8), [0.25])
    for _ in range(2000 if name == "MUL" else 40):
        before, newest = newest, raw.tensor((1, 2, 3, 3), 0.25)
        raw.operator(name, [before, one if name == "MUL" else before], [newest], None)
    raw.operator("BATCH_MATMUL", [newest, newest], [mixed], None)
    raw.operator("TRANSPOSE", [mixed, order], [back], None)
    model = raw.build([source], [back])
    assert Heads().run(model).model is model and Correspondence(model, model).original.steps


def test_more_heads_than_a_concatenation_takes_stay_together() -> None:
    model = attention_of_heads(3, 11, 1)
    assert Heads().run(model).model is model
