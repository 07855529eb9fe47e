"""Shares of the tail add up to the tail, of the whole model and of any part of it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings

from scripts.zoo.networks import inverted_residual_network
from tests.builders import random_models
from tests.memory.one_operator import MODELS
from tests.memory.tflm.wheel_build import HOST
from tests.runtime.fused_models import fuse
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.struct_sizes import ARM, WIDE_ENUMS
from tflite_fuse.memory.tflm.tail import predict_tail
from tflite_fuse.memory.tflm.tail_by_operator import least_shares, least_tail, tail_shares
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import prune

SLACK = 32
"""What rounding can add once for a model, …"""

PER_OPERATOR = 64
"""… and for each of its operators: gaps behind options, structs of constants that others read too."""


def check(model: Model) -> None:
    for build in (ARM, WIDE_ENUMS, HOST):
        whole, shares = predict_tail(program_of(model), build).total, tail_shares(program_of(model), build)
        assert whole <= shares.total <= whole + SLACK + PER_OPERATOR * len(model.main.operators)
    assert (
        least_tail(program_of(model), program_of(model), least_shares(program_of(model), program_of(model)).total)
        <= predict_tail(program_of(model)).total
    )


@settings(max_examples=60)
@given(random_models(variables=True))
def test_shares_of_random_models_add_up(model: Model) -> None:
    check(prune(model))


@pytest.mark.parametrize("name", MODELS)
def test_shares_of_every_kind_of_operator_add_up(name: str) -> None:
    check(MODELS[name])


def test_shares_of_public_models_are_close(shared_model: Path) -> None:
    model = load_model(shared_model)
    check(model)
    assert tail_shares(program_of(model)).total <= 1.05 * predict_tail(program_of(model)).total + SLACK


@pytest.mark.parametrize("seed", range(8))
def test_a_model_with_blocks_needs_the_shares_of_its_remaining_operators(seed: int) -> None:
    random, model = Random(seed), inverted_residual_network(size=16, seed=seed)
    shares, count = tail_shares(program_of(model)), len(model.main.operators)
    first = random.randrange(count - 2)
    last = random.randrange(first + 1, count - 1)
    try:
        fused = load_model(fuse(serialize_model(model), range(first, last + 1)))
    except BlockError:
        pytest.skip("no block")
    results = len(fused.main.operators[first].outputs or ()) - 1
    left = sum(share for index, share in enumerate(shares.operators) if not first <= index <= last)
    estimate = shares.fixed + left + shares.block + results * shares.tensor
    assert (
        predict_tail(program_of(fused)).total <= estimate <= predict_tail(program_of(fused)).total + SLACK + 8 * count
    )
    least = least_shares(program_of(model), program_of(fused))
    left = sum(share for index, share in enumerate(least.operators) if not first <= index <= last)
    bound = least_tail(program_of(model), program_of(fused), least.fixed + left + least.block + results * least.tensor)
    assert predict_tail(program_of(fused)).total - 16 <= bound <= predict_tail(program_of(fused)).total
