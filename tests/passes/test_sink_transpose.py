"""TRANSPOSE before MEAN: gone where the means can take over its order, bytes unchanged, kept everywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.fusion.raw_models import RawModel, edgy_int8
from tflite_fuse.fusion.lower.extract import extract, fusability
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.passes.sink_transpose import SinkTranspose
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.reference.stages import run_block_reference

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def transposed_means(
    permutation: Sequence[int], axes: Sequence[Sequence[int]], keep: bool = False, also_read: bool = False
) -> Model:
    """int8 [1, 3, 5, 4] → TRANSPOSE → one MEAN per entry of ``axes``."""
    raw = RawModel()
    x = raw.tensor((1, 3, 5, 4), 0.1, 7)
    dims = [(1, 3, 5, 4)[axis] for axis in permutation]
    t = raw.tensor(dims, 0.1, 7)
    raw.operator("TRANSPOSE", [x, raw.constant(np.array(permutation, np.int32))], [t], None)
    y = t
    for number, reduced in enumerate(axes):
        wanted = {axis % len(dims) for axis in reduced}
        dims = [1 if a in wanted else d for a, d in enumerate(dims) if keep or a not in wanted]
        source, y = y, raw.tensor(dims, 0.07 - 0.01 * number, -3 * number)
        options = make_options("ReducerOptions", keep_dims=keep)
        raw.operator("MEAN", [source, raw.constant(np.array(reduced, np.int32))], [y], options)
    return raw.build([x], [y, t] if also_read else [y])


def names(model: Model) -> list[str]:
    return [operator_name(model, operator) for operator in model.main.operators]


CASES = [
    ((0, 3, 1, 2), ((3,), (2,)), False),
    ((0, 3, 1, 2), ((2,), (2,)), False),
    ((0, 3, 1, 2), ((2, 3),), False),
    ((0, 3, 1, 2), ((-1, -2),), True),
    ((0, 3, 1, 2), ((3,), (2,)), True),
    ((0, 2, 1, 3), ((1,),), False),
    ((0, 1, 3, 2), ((1, 2),), False),
    ((0, 1, 2, 3), ((1,),), False),
]


@needs_tflm
@pytest.mark.parametrize(("permutation", "axes", "keep"), CASES)
def test_the_transpose_is_gone_and_the_bytes_are_the_same(
    permutation: Sequence[int], axes: Sequence[Sequence[int]], keep: bool
) -> None:
    model = transposed_means(permutation, axes, keep)
    result = SinkTranspose().run(model)
    assert result.changed
    assert "TRANSPOSE" not in names(result.model)
    assert len(result.model.main.operators) <= len(model.main.operators)
    assert result.model.main.tensors[result.model.main.outputs[0]].dims == model.main.tensors[
        model.main.outputs[0]
    ].dims  # fmt: skip
    images = [[edgy_int8(np.random.default_rng(seed), (1, 3, 5, 4))] for seed in range(6)]
    before = tflm.run(serialize_model(model), images).outputs
    after = tflm.run(serialize_model(result.model), images).outputs
    np.testing.assert_array_equal(before, after)


@needs_tflm
def test_the_means_become_stages_of_one_block() -> None:
    model = transposed_means((0, 3, 1, 2), ((3,), (2,)))
    image = edgy_int8(np.random.default_rng(0), (1, 3, 5, 4))
    assert fusability(model)[1] == "it averages over channels"
    block = extract(SinkTranspose().run(model).model, [0, 1]).block
    (expected,) = tflm.run(serialize_model(model), [[image]]).outputs[0]
    np.testing.assert_array_equal(run_block_reference(block, [image])[0].ravel(), expected.ravel())


@pytest.mark.parametrize(
    "model",
    [
        transposed_means((0, 3, 1, 2), ((3,),)),  # rows and channels stay exchanged
        transposed_means((0, 3, 1, 2), ()),
        transposed_means((0, 3, 1, 2), ((2, 3),), also_read=True),
    ],
    ids=["traces remain", "no mean", "an output of the model"],
)
def test_other_transposes_stay(model: Model) -> None:
    result = SinkTranspose().run(model)
    assert not result.changed
    assert result.model is model
    assert result.notes == ("TRANSPOSE_0 kept: what reads it is not a chain of int8 means that undoes its order",)


def test_a_model_without_transpose_gets_no_note() -> None:
    raw = RawModel()
    x, y = raw.tensor((1, 4)), raw.tensor((1, 4))
    raw.operator("RELU", [x], [y], None)
    assert SinkTranspose().run(raw.build([x], [y])).notes == ()


def test_shared_models_lose_the_transposes_before_their_means(shared_model: Path) -> None:
    model = load_model(shared_model)
    result = SinkTranspose().run(model)
    assert names(result.model) == [name for name in names(model) if name != "TRANSPOSE"]
