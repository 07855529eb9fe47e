"""TRANSPOSE before MEAN: removed where the means can absorb its order, bytes unchanged; else kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from scripts.zoo.float_twin import float_twin
from tests.drawing.raw_models import RawModel, edgy_int8
from tests.told import told
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import prune
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.ops.lowering.extract import extract, fusability
from tflite_fuse.passes.preparing.sink_transpose import SinkTranspose
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.reference import run_block_reference

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
    assert fusability(model)[0] is not None
    block = extract(SinkTranspose().run(model).model, [0, 1]).block
    (expected,) = tflm.run(serialize_model(model), [[image]]).outputs[0]
    np.testing.assert_array_equal(run_block_reference(block, [image])[0].ravel(), expected.ravel())


THEN = {
    "RESHAPE": make_options("ReshapeOptions", new_shape=(1, 60)),
    "UNPACK": make_options("UnpackOptions", num=1),
}


def transposed_dense(
    permutation: Sequence[int],
    heads: int = 1,
    flat: bool = True,
    zero_point: int = 7,
    rows: int = 1,
    keeps: bool = False,
    again: Sequence[int] = (),
    then: str = "",
) -> Model:
    """int8 [1, 3, 5, 4] → CONV_2D → TRANSPOSE, once or ``again`` → RESHAPE if ``flat`` → ``then`` → FULLY_CONNECTED."""
    raw, rng = RawModel(), np.random.default_rng(heads)
    x = raw.tensor((1, 3, 5, 4), 0.1, 7)
    filters, bias = rng.integers(-127, 128, (4, 1, 1, 4), np.int8), rng.integers(-99, 99, 4, np.int32)
    c = raw.tensor((1, 3, 5, 4), 0.9, 7)
    options = make_options("Conv2DOptions", stride_w=1, stride_h=1)
    raw.operator("CONV_2D", [x, raw.constant(filters, [0.01]), raw.constant(bias, [0.001])], [c], options)
    t = raw.tensor([(1, 3, 5, 4)[axis] for axis in permutation], 0.9, 7)
    raw.operator("TRANSPOSE", [c, raw.constant(np.array(permutation, np.int32))], [t], None)
    if again:
        twice = raw.tensor([raw.tensors[t].dims[axis] for axis in again], 0.9, 7)
        raw.operator("TRANSPOSE", [t, raw.constant(np.array(again, np.int32))], [twice], None)
        t = twice
    if flat:
        dims = (1, rows, 60 // rows) if then else (rows, 60 // rows)
        f = raw.tensor(dims, 0.9, zero_point)
        shape = raw.constant(np.array(dims, np.int32))
        raw.operator("RESHAPE", [t, shape], [f], make_options("ReshapeOptions", new_shape=dims))
        t = f
    if then:
        u = raw.tensor((rows, 60 // rows), 0.9, zero_point)
        raw.operator(then, [t], [u], THEN[then])
        t = u
    outputs = []
    for channels in range(2, 2 + heads):
        weights = rng.integers(-127, 128, (channels, 60 // rows), np.int8)
        outputs.append(raw.tensor((rows, channels), 30.0, 3))
        raw.operator(
            "FULLY_CONNECTED",
            [t, raw.constant(weights, [0.01]), raw.constant(rng.integers(-9, 9, channels, np.int32), [0.009])],
            [outputs[-1]],
            make_options("FullyConnectedOptions", keep_num_dims=keeps),
        )
    return raw.build([x], outputs)


DENSE = [
    transposed_dense((0, 3, 1, 2)),
    transposed_dense((0, 3, 2, 1), heads=3),
    transposed_dense((0, 2, 3, 1), flat=False),
    transposed_dense((0, 3, 1, 2), zero_point=-3),
    transposed_dense((0, 3, 1, 2), again=(0, 1, 3, 2)),
    transposed_dense((0, 3, 1, 2), then="RESHAPE"),
    transposed_dense((0, 3, 1, 2), keeps=True),  # of two dimensions two remain, as litert-torch writes it
]


@needs_tflm
@pytest.mark.parametrize("model", DENSE)
def test_weights_take_the_order_of_the_transposed_input(model: Model) -> None:
    data = serialize_model(model)
    rewritten = load_model(rewrite(data, inputs=6, verify=True).model)  # proven and compared in the runtime
    assert "CUSTOM:TFLITE_FUSE" in names(rewritten) and "TRANSPOSE" not in names(rewritten)
    result = SinkTranspose().run(model)
    assert result.changed and "TRANSPOSE" not in names(result.model)
    assert validate(model, prune(result.model)).proven
    assert told(result.notes, "removed", "transpose before weights")


@needs_tflm
def test_weights_take_that_order_through_an_unpack_of_one_step_of_a_recurrent_network() -> None:
    data = serialize_model(transposed_dense((0, 3, 1, 2), then="UNPACK"))
    rewritten = load_model(rewrite(data, inputs=6, verify=True).model)
    assert names(rewritten) == ["CUSTOM:TFLITE_FUSE"]


@pytest.mark.parametrize(
    "model",
    [
        transposed_dense((0, 3, 1, 2), rows=3),  # three rows, each of values from everywhere
        transposed_means((0, 3, 1, 2), ((3,),)),  # rows and channels stay exchanged
        transposed_means((0, 3, 1, 2), ()),
        transposed_means((0, 3, 1, 2), ((2, 3),), also_read=True),
    ],
    ids=["rows apart", "traces remain", "no mean", "an output of the model"],
)
def test_other_transposes_stay(model: Model) -> None:
    result = SinkTranspose().run(model)
    assert not result.changed
    assert result.model is model
    (note,) = told(result.notes, "kept", "transpose")
    assert note.operators in {("TRANSPOSE_0",), ("TRANSPOSE_1",)}


def test_a_model_without_transpose_has_no_note() -> None:
    raw = RawModel()
    x, y = raw.tensor((1, 4)), raw.tensor((1, 4))
    raw.operator("RELU", [x], [y], None)
    assert SinkTranspose().run(raw.build([x], [y])).notes == ()


def test_shared_models_lose_the_transposes_before_their_means(shared_model: Path) -> None:
    model = load_model(shared_model)
    result = SinkTranspose().run(model)
    assert names(result.model) == [name for name in names(model) if name != "TRANSPOSE"]


@needs_tflm
@pytest.mark.parametrize(("permutation", "axes", "keep"), CASES)
def test_of_float32_the_order_of_sums_stays(
    permutation: Sequence[int], axes: Sequence[Sequence[int]], keep: bool
) -> None:
    """All of these MEANs take rows before columns, with the TRANSPOSE and without."""
    data = serialize_model(float_twin(transposed_means(permutation, axes, keep)))
    result = SinkTranspose().run(load_model(data))
    assert result.changed and "TRANSPOSE" not in names(result.model)
    images = [[np.random.default_rng(seed).normal(0, 1, (1, 3, 5, 4)).astype(np.float32)] for seed in range(6)]
    before, after = (tflm.run(each, images).outputs for each in (data, serialize_model(result.model)))
    assert [each[0].tobytes() for each in before] == [each[0].tobytes() for each in after]
    rewritten = rewrite(data, inputs=3).report
    assert rewritten.verified is not None and rewritten.verified.bit_exact and rewritten.proven is not None


def test_of_float32_a_transpose_that_turns_rows_and_columns_before_their_mean_stays() -> None:
    assert not SinkTranspose().run(float_twin(transposed_means((0, 2, 1, 3), ((1, 2),)))).changed
    assert SinkTranspose().run(transposed_means((0, 2, 1, 3), ((1, 2),))).changed
