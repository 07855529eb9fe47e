"""RESHAPEs behind blocks: the block writes the renamed tensor, and other readers keep their input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.drawing.raw_models import RawModel, add_convolution
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.emit.insert_blocks import BlockMaker, with_lone_blocks
from tflite_fuse.ir.block import BlockChoice, BlockConfig
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType
from tflite_fuse.runtime import tflm

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def _quantization(raw: RawModel, tensor: int) -> tuple[float, int]:
    found = raw.tensors[tensor].quantization
    assert found is not None and found.scale is not None and found.zero_point is not None
    return found.scale[0], found.zero_point[0]


def reshape(raw: RawModel, source: int, dims: Sequence[int]) -> int:
    output = raw.tensor(dims, *_quantization(raw, source))
    shape = raw.constant(np.array(dims, np.int32))
    raw.operator("RESHAPE", [source, shape], [output], make_options("ReshapeOptions", new_shape=tuple(dims)))
    return output


def rewritten(raw: RawModel, source: int, outputs: Sequence[int], mode: str) -> tuple[list[str], int]:
    """Names of the operators, and the arena; verified: bytes equal in the runtime, and proven."""
    result = rewrite(serialize_model(raw.build([source], outputs)), inputs=2, verify=True, input_mode=mode)
    assert result.report.proven is not None
    model = load_model(result.model)
    return [operator_name(model, operator) for operator in model.main.operators], result.report.after.arena_bytes


@pytest.mark.parametrize("mode", ["resident", "streamed"])
@pytest.mark.parametrize("dims", [(1, 768, 4), (3072,), (2, 2, 2, 2, 192)])
def test_a_block_writes_the_output_of_a_reshape_at_its_end(dims: Sequence[int], mode: str) -> None:
    raw = RawModel()
    x = raw.tensor((1, 16, 16, 4), 0.1, 7)
    head = add_convolution(raw, add_convolution(raw, x, (1, 16, 16, 16)), (1, 16, 16, 12))
    names, arena = rewritten(raw, x, [reshape(raw, reshape(raw, head, (1, 3072)), dims)], mode)
    assert names == ["CUSTOM:TFLITE_FUSE"]
    assert arena < 3072 + 1024  # the output, and an input or its rows; not the output twice


def test_a_quantize_that_changes_no_byte_ends_a_block() -> None:
    raw = RawModel()
    x = raw.tensor((1, 16, 16, 4), 0.1, 7)
    head = reshape(raw, add_convolution(raw, add_convolution(raw, x, (1, 16, 16, 16)), (1, 16, 16, 12)), (1, 768, 4))
    scale, zero_point = _quantization(raw, head)
    unsigned = raw.tensor((1, 768, 4), scale, zero_point + 128, TensorType.UINT8)
    raw.operator("QUANTIZE", [head], [unsigned], None)
    assert rewritten(raw, x, [unsigned], "resident")[0] == ["CUSTOM:TFLITE_FUSE"]


def test_a_tensor_read_under_both_names_stays_two_tensors() -> None:
    raw = RawModel()
    x = raw.tensor((1, 16, 16, 4), 0.1, 7)
    head = add_convolution(raw, x, (1, 16, 16, 16))
    names, _ = rewritten(raw, x, [head, reshape(raw, head, (1, 4096))], "resident")
    assert names == ["CUSTOM:TFLITE_FUSE", "RESHAPE"]


def test_a_tensor_reshaped_between_blocks_is_read_in_its_shape() -> None:
    raw = RawModel()
    x = raw.tensor((1, 16, 16, 4), 0.1, 7)
    shared = add_convolution(raw, x, (1, 16, 16, 16))
    regrouped = reshape(raw, add_convolution(raw, shared, (1, 16, 16, 12)), (1, 48, 64, 1))
    other = reshape(raw, add_convolution(raw, shared, (1, 16, 16, 12)), (1, 768, 4))
    names, _ = rewritten(raw, x, [add_convolution(raw, regrouped, (1, 48, 64, 2)), other], "resident")
    assert "RESHAPE" not in names


def test_operators_that_become_blocks_one_by_one_take_their_reshapes_along() -> None:
    raw = RawModel()
    x = raw.tensor((1, 16, 16, 4), 0.1, 7)
    regrouped = reshape(raw, add_convolution(raw, x, (1, 16, 16, 12)), (1, 48, 64, 1))
    output = reshape(raw, add_convolution(raw, regrouped, (1, 48, 64, 2)), (1, 6144))
    model = load_model(serialize_model(raw.build([x], [output])))
    made, labels = with_lone_blocks(model)
    assert labels == ("CONV_2D_0", "CONV_2D_2")
    assert [operator_name(made, operator) for operator in made.main.operators] == ["CUSTOM:TFLITE_FUSE"] * 2
    assert validate(model, load_model(serialize_model(made))).proven


def test_a_block_stands_at_its_operators_not_at_the_reshape() -> None:
    """So an operator between the two comes behind it; a claim about the order of operators has to know."""
    raw = RawModel()
    x = raw.tensor((1, 4, 4, 4), 0.1, 7)
    y, z = add_convolution(raw, x, (1, 4, 4, 8)), add_convolution(raw, x, (1, 4, 4, 2))
    model = raw.build([x], [reshape(raw, y, (1, 128)), z])
    program, (block,) = BlockMaker(model).program([BlockChoice((0,), BlockConfig(99, 99), 0, 0, 0, "line-buffers")])
    assert block.choice.operators == (0, 2) and block.place == 0
    file, graph = program.origin
    assert [operator_name(file, each) for each in graph.operators] == ["CUSTOM:TFLITE_FUSE", "CONV_2D"]
