"""QUANTIZE in the C library, which estimates the result first: every number next to a change of the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.drawing.witness import Operands, plan, reference, run
from tflite_fuse.emit.encode import encode
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, ElementType, Stage, StageKind, Storage
from tflite_fuse.ops.kinds.real import quantize_parameters
from tflite_fuse.runtime.library.host import host_library, load_library

_SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38, 1e-30, 1e30)


def _numbers(steps: bytes) -> npt.NDArray[Any]:
    """Those at which answers change, their neighbours, and any others, as a row of pixels."""
    keys = np.frombuffer(steps, "<i4").astype(np.int64)
    near = np.concatenate([keys + by for by in (-2, -1, 0, 1, 2)])
    near = np.clip(near, -(2**31), 2**31 - 1)
    edges = np.where(near < 0, near ^ 0x7FFFFFFF, near).astype(np.int32).view(np.float32)
    noise = np.random.default_rng(1).integers(-(2**31), 2**31, 1000).astype(np.int32).view(np.float32)
    return np.concatenate([edges, noise, np.array(_SPECIAL, np.float32)])[None, :, None]


@pytest.mark.parametrize("scale", [1 / 127, 0.5, 0.0123, 0.003921569, 1e-40, 1e30, 3.0])
def test_numbers_next_to_where_the_answer_changes(scale: float) -> None:
    library = load_library(host_library())
    for zero_point in (-128, -1, 0, 77, 127):
        parameters = quantize_parameters(float(np.float32(scale)), zero_point)
        numbers = _numbers(parameters.steps)
        shape = (1, numbers.shape[1], 1)
        block = Block(
            (
                BlockTensor("real", *shape, 0, Storage.INPUT, element_type=ElementType.FLOAT32),
                BlockTensor("int8", *shape, zero_point, Storage.OUTPUT),
            ),
            (Stage(StageKind.QUANTIZE, (0,), 1, parameters=parameters),),
            (0,),
            (1,),
        )
        operands: Operands = ([numbers], [], [])
        found = run(library, encode(block, plan(block, BlockConfig(1, shape[1], 8))), operands)
        for got, expected in zip(found, reference(block, operands), strict=True):
            np.testing.assert_array_equal(got.view(np.int8), expected.view(np.int8))
