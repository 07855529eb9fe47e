"""Forged files that pass another model off as a rewrite: none of them is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.drawing.raw_models import RawModel
from tests.model.rich_model import rich_model
from tflite_fuse.check import validate
from tflite_fuse.memory.tflm.offline_plan import write_plan
from tflite_fuse.model.edit import replace_main, replace_operators
from tflite_fuse.model.operators import make_options
from tflite_fuse.model.schema import Model, OperatorCode, OptionsTable, TensorMap
from tflite_fuse.model.types import BUILTIN_CODES, TensorType

RNG = np.random.default_rng(1)


def findings(before: Model, after: Model) -> list[str]:
    assert validate(before, before).proven
    return [str(finding) for finding in validate(before, after).findings]


def with_tensor(model: Model, index: int, **changes: Any) -> Model:
    tensors = list(model.main.tensors)
    tensors[index] = replace(tensors[index], **changes)
    return replace_main(model, replace(model.main, tensors=tuple(tensors)))


def weights(model: RawModel, *shape: int) -> int:
    return model.constant(RNG.integers(-127, 128, shape).astype(np.int8), [0.01])


# ---- The same bytes are not the same tensor ----


def behind_a_reshape(shape: Sequence[int], scale: float) -> tuple[RawModel, int, int]:
    model = RawModel()
    x, y = model.tensor((1, 4, 4, 2), 0.05, 3), model.tensor(shape, scale, 3)
    model.operator("RESHAPE", [x, model.constant(np.array(shape, np.int32))], [y], None)
    return model, x, y


def without_the_reshape(model: Model) -> Model:
    """The model whose second operator reads what the first one reads."""
    first, second = model.main.operators
    (result,) = first.outputs or ()
    (source, *_) = first.inputs or ()
    reads = tuple(source if tensor == result else tensor for tensor in second.inputs or ())
    return replace_operators(model, [replace(second, inputs=reads)])


def test_a_convolution_of_other_rows_and_columns_is_another() -> None:
    model, x, y = behind_a_reshape((1, 2, 8, 2), 0.05)
    z = model.tensor((1, 2, 8, 3), 0.1, 0)
    options = make_options("Conv2DOptions", stride_w=1, stride_h=1)
    model.operator("CONV_2D", [y, weights(model, 3, 3, 3, 2), -1], [z], options)
    original = model.build([x], [z])
    assert any("CONV_2D_0" in each for each in findings(original, without_the_reshape(original)))


def test_a_sum_of_other_scales_is_another() -> None:
    model, x, y = behind_a_reshape((1, 4, 4, 2), 0.2)
    z = model.tensor((1, 4, 4, 2), 0.1, 0)
    model.operator("ADD", [y, y], [z], make_options("AddOptions"))
    original = model.build([x], [z])
    assert any("ADD_0" in each for each in findings(original, without_the_reshape(original)))


def test_a_softmax_over_other_rows_is_another() -> None:
    model, x, y = behind_a_reshape((1, 32), 0.05)
    z = model.tensor((1, 32), 1 / 256, -128)
    model.operator("SOFTMAX", [y], [z], make_options("SoftmaxOptions", beta=1.0))
    original = model.build([x], [z])
    assert any("SOFTMAX_0" in each for each in findings(original, without_the_reshape(original)))


@pytest.mark.parametrize("name", ["RESHAPE", "SQUEEZE", "EXPAND_DIMS"])
def test_a_copy_does_not_turn_int8_into_uint8(name: str) -> None:
    """Both are one value to the proof, 128 apart."""
    model = RawModel()
    x = model.tensor((1, 4, 4, 2), 0.05, 3)
    y = model.tensor((1, 4, 4, 2), 0.05, 131, TensorType.UINT8)
    model.operator("QUANTIZE", [x], [y], None)
    original = model.build([x], [y])
    code = OperatorCode(min(BUILTIN_CODES[name], 127), None, 1, BUILTIN_CODES[name])
    assert findings(original, replace(original, operator_codes=(code,)))


# ---- Memory that is somebody else's ----


def two_convolutions() -> tuple[Model, dict[str, int]]:
    model = RawModel()
    at = {"x": model.tensor((1, 4, 4, 2), 0.05, 3), "y": model.tensor((1, 4, 4, 3), 0.1, 0)}
    at |= {"z": model.tensor((1, 4, 4, 3), 0.1, 0), "weights": weights(model, 3, 3, 3, 3)}
    options = make_options("Conv2DOptions", stride_w=1, stride_h=1)
    model.operator("CONV_2D", [at["x"], weights(model, 3, 3, 3, 2), -1], [at["y"]], options)
    model.operator("CONV_2D", [at["y"], at["weights"], -1], [at["z"]], options)
    return model.build([at["x"]], [at["z"]]), at


@pytest.mark.parametrize("tensor", ["x", "y", "z"])
def test_written_tensors_do_not_overlap_weights(tensor: str) -> None:
    """A tensor whose buffer has data lies in the file; the runtime lets operators and inputs write there."""
    original, at = two_convolutions()
    forged = with_tensor(original, at[tensor], buffer=original.main.tensors[at["weights"]].buffer)
    name = original.main.tensors[at[tensor]].name
    assert f"subgraph 0: tensor {name} is written and a constant at once" in findings(original, forged)


def test_an_original_that_overwrites_constants_or_inputs_proves_no_rewrite() -> None:
    model = RawModel()
    x, y = model.tensor((1, 4, 4, 2), 0.05, 3), model.tensor((1, 4, 4, 2), 0.1, 3)
    constant = model.constant(RNG.integers(-127, 128, (1, 4, 4, 2)).astype(np.int8), [0.05])
    for read, written in ((x, constant), (constant, y)):
        model.operator("ADD", [read, read], [written], make_options("AddOptions"))
    original = model.build([x], [y])
    for forged in (original, replace_operators(original, original.main.operators[1:])):
        assert any("constant at once" in str(finding) for finding in validate(original, forged).findings)
    tensor = original.main.tensors[constant]
    bare = with_tensor(original, constant, buffer=0)
    assert validate(bare, bare).proven
    given = replace_main(bare, replace(bare.main, inputs=(x, constant)))
    for forged in (given, replace_operators(given, given.main.operators[1:])):
        wrong = [str(finding) for finding in validate(given, forged).findings]
        assert f"subgraph 0 of the original: input {tensor.name} is written by an operator" in wrong


def test_one_tensor_is_not_two_inputs() -> None:
    model = RawModel()
    x, y, z = (model.tensor((1, 4), 0.05, 3) for _ in range(3))
    model.tensors = [replace(tensor, name="") for tensor in model.tensors]
    model.operator("ADD", [y, y], [z], make_options("AddOptions"))
    original = model.build([x, y], [z])
    forged = replace_main(original, replace(original.main, inputs=(y, y)))
    assert any("one tensor" in each for each in findings(original, forged))


def stateful() -> tuple[Model, int]:
    model = RawModel()
    x, y, z = model.tensor((1, 4), 0.05), model.tensor((1, 4), 0.1), model.tensor((1, 4), 0.1)
    state = model.tensor((1, 12), 0.05, is_variable=True)
    constants = [weights(model, 4, 4), weights(model, 4, 3), model.constant(np.zeros(4, np.int32), [0.0005])]
    rank = OptionsTable(6, ((0, (1).to_bytes(4, "little")),))
    model.operator("SVDF", [x, *constants, state], [y], rank)
    model.operator("ADD", [y, y], [z], make_options("AddOptions"))
    return model.build([x], [z]), state


def test_a_copy_of_a_variable_is_not_made_later() -> None:
    """Between the two an operator may write the variable."""
    model = RawModel()
    x, y, copy, z = (model.tensor(shape, 0.05) for shape in ((1, 4), (1, 4), (1, 12), (1, 12)))
    state = model.tensor((1, 12), 0.05, is_variable=True)
    constants = [weights(model, 4, 4), weights(model, 4, 3), model.constant(np.zeros(4, np.int32), [0.0005])]
    model.operator("RESHAPE", [state, model.constant(np.array((1, 12), np.int32))], [copy], None)
    rank = OptionsTable(6, ((0, (1).to_bytes(4, "little")),))
    model.operator("SVDF", [x, *constants, state], [y], rank)
    model.operator("ADD", [copy, copy], [z], make_options("AddOptions"))
    original = model.build([x], [y, z])
    reshape, svdf, add = original.main.operators
    late = len(original.main.tensors)
    graph = replace(
        original.main,
        tensors=(*original.main.tensors, original.main.tensors[copy]),
        operators=(reshape, svdf, replace(reshape, outputs=(late,)), replace(add, inputs=(late, late))),
    )
    assert any("RESHAPE_2" in each for each in findings(original, replace_main(original, graph)))


def test_a_plan_puts_nothing_over_a_variable() -> None:
    original, state = stateful()
    (x,), (z,) = original.main.inputs, original.main.outputs
    (y,) = original.main.operators[0].outputs or ()
    places = {x: 0, y: 16, z: 32, state: 48}
    offsets = [places.get(tensor, -1) for tensor in range(len(original.main.tensors))]
    assert not findings(original, write_plan(original, offsets))
    for other in (x, y, z):
        offsets[state] = places[other]
        assert any("arena plan" in each for each in findings(original, write_plan(original, offsets)))


# ---- Names ----


def test_a_signature_names_a_value_once() -> None:
    original = rich_model()
    (signature, *others) = original.signature_defs or ()
    twice = replace(signature, inputs=(TensorMap("x", 1), *(signature.inputs or ())))
    assert findings(original, replace(original, signature_defs=(twice, *others)))


# ---- Shapes that no operator makes ----


def test_a_transpose_to_another_shape_proves_no_rewrite() -> None:
    """By its shape alone it would move axes of one value, and so no byte."""
    model = RawModel()
    x, y, z = model.tensor((1, 2, 3, 4), 0.05, 3), model.tensor((1, 1, 1, 24), 0.05, 3), model.tensor((1, 5), 0.1, 0)
    model.operator("TRANSPOSE", [x, model.constant(np.array([0, 3, 1, 2], np.int32))], [y], None)
    model.operator("FULLY_CONNECTED", [y, weights(model, 5, 24), -1], [z], make_options("FullyConnectedOptions"))
    original = model.build([x], [z])
    assert any("FULLY_CONNECTED_0" in each for each in findings(original, without_the_reshape(original)))


def test_a_mean_to_another_shape_proves_no_rewrite() -> None:
    model = RawModel()
    x, y, z = model.tensor((1, 2, 3, 4), 0.05, 3), model.tensor((1, 4, 2, 3), 0.05, 3), model.tensor((1, 1, 8), 0.05, 3)
    model.operator("TRANSPOSE", [x, model.constant(np.array([0, 3, 1, 2], np.int32))], [y], None)
    options = make_options("ReducerOptions", keep_dims=False)
    model.operator("MEAN", [y, model.constant(np.array([3], np.int32))], [z], options)
    original = model.build([x], [z])
    (_, mean) = original.main.operators
    axes = original.main.tensors[(mean.inputs or ())[1]]
    buffers = list(original.buffers)
    buffers[axes.buffer] = replace(buffers[axes.buffer], data=(2).to_bytes(4, "little"))
    forged = with_tensor(without_the_reshape(original), z, shape=(1, 8, 1))
    forged = replace(forged, buffers=tuple(buffers))
    assert any("MEAN_0" in each for each in findings(original, forged))


@pytest.mark.parametrize("shape", [(-1, -1), (1, -1), (0, -1), (-1,), ()])
def test_empty_tensors_prove_no_rewrite(shape: tuple[int, ...]) -> None:
    model = RawModel()
    x, y, z = model.tensor((1, 1), 0.05, 3), model.tensor(shape, 0.05, 3), model.tensor((1, 1), 0.05, 3)
    for source, result in ((x, y), (y, z)):
        model.operator("RESHAPE", [source, model.constant(np.array(shape, np.int32))], [result], None)
    original = model.build([x], [z])
    assert validate(original, original).proven
