"""Files of somebody who wants another model to pass as a rewrite: none of them is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.fusion.raw_models import RawModel
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.operators import make_options
from tflite_fuse.model.schema import Model, OperatorCode
from tflite_fuse.model.types import BUILTIN_CODES, TensorType
from tflite_fuse.proof import validate

RNG = np.random.default_rng(1)


def findings(before: Model, after: Model) -> list[str]:
    assert validate(before, before).proven
    return [str(finding) for finding in validate(before, after).findings]


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
def test_what_copies_bytes_makes_no_uint8_of_int8(name: str) -> None:
    """Both are one value to the proof, 128 apart."""
    model = RawModel()
    x = model.tensor((1, 4, 4, 2), 0.05, 3)
    y = model.tensor((1, 4, 4, 2), 0.05, 131, TensorType.UINT8)
    model.operator("QUANTIZE", [x], [y], None)
    original = model.build([x], [y])
    code = OperatorCode(min(BUILTIN_CODES[name], 127), None, 1, BUILTIN_CODES[name])
    assert findings(original, replace(original, operator_codes=(code,)))
