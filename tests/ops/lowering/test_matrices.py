"""BATCH_MATMUL in blocks: the scores of attention are never whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo.float_twin import float_twin
from tests.drawing.raw_models import RawModel
from tests.drawing.steps.attention import attention, multiply
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockTensor, Stage, StageKind, Storage
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.ops.check import check_block
from tflite_fuse.ops.kinds.matrices import MatrixParameters
from tflite_fuse.ops.kinds.state import StateParameters
from tflite_fuse.ops.lowering.extract import fusability
from tflite_fuse.runtime import tflm


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("mode", ["resident", "streamed"])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("is_float", [False, True])
def test_attention_runs_token_by_token(is_float: bool, heads: int, mode: str) -> None:
    model, size = attention(tokens=64, channels=16, heads=heads), 1
    if is_float:
        model, size = float_twin(model), 4
    report = tflite_fuse.rewrite(serialize_model(model), input_mode=mode, inputs=4, verify=True).report
    names = [name.rsplit("_", 1)[0] for name in report.blocks[-1].operators]
    assert names[-5:] == ["BATCH_MATMUL", "SOFTMAX", "BATCH_MATMUL", "FULLY_CONNECTED", "ADD"]
    assert report.before.arena_bytes > 2 * heads * 64 * 64 * size  # scores and shares
    assert report.after.arena_bytes < heads * 64 * 64 * size


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_no_operator_of_a_layer_with_a_normalization_stands_outside() -> None:
    model = attention(tokens=32, channels=16, layers=2, norms=True)
    report = tflite_fuse.rewrite(serialize_model(model), inputs=4, verify=True).report
    assert sum(len(block.operators) for block in report.blocks) == len(model.main.operators)
    assert report.after.arena_bytes < report.before.arena_bytes / 2


def two(first: Sequence[int], second: Sequence[int], output: Sequence[int], **transposed: bool) -> Model:
    m = RawModel()
    x, y, z = (m.tensor(shape, 0.5) for shape in (first, second, output))
    m.operator("BATCH_MATMUL", [x, y], [z], make_options("BatchMatMulOptions", **transposed))
    return m.build([x, y], [z])


def square() -> Model:
    """A tensor times itself."""
    m = RawModel()
    x, z = m.tensor((1, 3, 3), 0.5), m.tensor((1, 3, 3), 0.5)
    multiply(m, x, x, z, by_column=True)
    return m.build([x], [z])


def by_constant() -> Model:
    m = RawModel()
    x, z = m.tensor((1, 3, 4), 0.5), m.tensor((1, 3, 5), 0.5)
    multiply(m, x, m.constant(np.ones((1, 5, 4), np.int8), [0.5]), z, by_column=True)
    return m.build([x], [z])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (two((1, 3, 4), (1, 3, 5), (1, 4, 5), adj_x=True), "it transposes its first operand"),
        (square(), "it multiplies t0 by itself"),
        (two((1, 3, 4), (2, 4, 5), (2, 3, 5)), "it makes [2, 3, 5] of [1, 3, 4] and [2, 4, 5]"),
        (two((1, 3, 4), (1, 5, 5), (1, 3, 5)), "it makes [1, 3, 5] of [1, 3, 4] and [1, 5, 5]"),
        (two((1, 1, 40_000), (1, 40_000, 2), (1, 1, 2)), "it adds 40000 products, more than 32768"),
        (two((1,) * 5 + (4,), (1,) * 4 + (4, 2), (1,) * 5 + (2,)), "TFLM multiplies tensors of 2 to 5 dimensions"),
        (float_twin(by_constant()), "tensor c2 is a constant where blocks read an activation"),
        (by_constant(), "tensor c2 is a constant where blocks read an activation"),
    ],
)
def test_others_run_outside_of_blocks(model: Model, reason: str) -> None:
    assert fusability(model) == (reason,)


def test_a_matrix_may_not_be_a_state() -> None:
    tensors = (
        BlockTensor("tokens", 1, 4, 3, 0, Storage.INPUT),
        BlockTensor("newest", 1, 1, 3, 0, Storage.INPUT),
        BlockTensor("matrix", 1, 4, 3, 0, Storage.PERSISTENT),
        BlockTensor("scores", 1, 4, 4, 0, Storage.OUTPUT),
    )
    state = Stage(StageKind.STATE, (1,), 2, padding=(0, 3), pad_value=0, parameters=StateParameters())
    product = Stage(StageKind.MATRIX_PRODUCT, (0, 2), 3, parameters=MatrixParameters(0, 2**30, -8, 1))
    with pytest.raises(BlockError, match="reads the state matrix as a matrix"):
        check_block(Block(tensors, (state, product), (0, 1), (3,)))
