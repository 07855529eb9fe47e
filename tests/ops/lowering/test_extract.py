"""Pieces of models as blocks: what becomes a stage, what folds away, and why something cannot be part of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawing.raw_models import SAME, VALID, RawModel, edgy_int8
from tests.drawing.raw_models import add_convolution as conv
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, StageKind, Storage
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.ops.lowering.extract import extract, fusability
from tflite_fuse.runtime.reference import run_block_reference, run_block_tensors

RNG = np.random.default_rng(3)


def add(raw: RawModel, first: int, second: int) -> int:
    output = raw.tensor(raw.tensors[first].shape or (), 0.4, 11)
    raw.operator("ADD", [first, second], [output], make_options("AddOptions"))
    return output


def reshape(raw: RawModel, source: int, shape: Sequence[int], zero_point: int | None = None) -> int:
    quantization = raw.tensors[source].quantization
    assert quantization and quantization.scale and quantization.zero_point
    point = quantization.zero_point[0] if zero_point is None else zero_point
    output = raw.tensor(shape, quantization.scale, point)
    raw.operator("RESHAPE", [source, raw.constant(np.array(shape, np.int32))], [output], None)
    return output


def pad(raw: RawModel, source: int, amounts: Sequence[int], zero_point: int = 0) -> int:
    top, bottom, left, right = amounts
    _, height, width, channels = raw.tensors[source].shape or ()
    output = raw.tensor((1, height + top + bottom, width + left + right, channels), 0.5, zero_point)
    paddings = raw.constant(np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32))
    raw.operator("PAD", [source, paddings], [output], None)
    return output


def max_pool(raw: RawModel, source: int) -> int:
    tensor = raw.tensors[source]
    raw.tensors.append(replace(tensor, name=f"t{len(raw.tensors)}"))
    options = make_options("Pool2DOptions", stride_h=1, stride_w=1, filter_height=2, filter_width=2)
    raw.operator("MAX_POOL_2D", [source], [len(raw.tensors) - 1], options)
    return len(raw.tensors) - 1


def log_softmax(raw: RawModel, source: int) -> int:
    output = raw.tensor(raw.tensors[source].shape or (), 1 / 16, 127)
    raw.operator("LOG_SOFTMAX", [source], [output], None)
    return output


def kinds(block: Block) -> list[StageKind]:
    return [stage.kind for stage in block.stages]


# ---- blocks and their operands


def test_a_residual_piece_has_its_stages_in_order_and_names_of_the_model() -> None:
    raw = RawModel()
    x = raw.tensor((1, 6, 5, 4), zero_point=-3)
    y = add(raw, conv(raw, conv(raw, x, (1, 6, 5, 9), kernel=3), (1, 6, 5, 4)), x)
    z = log_softmax(raw, y)
    extraction = extract(raw.build([x], [z]), [0, 1, 2, 2])
    block = extraction.block
    assert extraction.operators == (0, 1, 2)
    assert (extraction.inputs, extraction.outputs) == ((x,), (y,))
    assert kinds(block) == [StageKind.CONV, StageKind.CONV, StageKind.ADD]
    assert [stage.operator for stage in block.stages] == [0, 1, 2]
    assert [block.tensors[i].name for i in (*block.inputs, *block.outputs)] == [f"t{x}", f"t{y}"]
    assert block.stages[2].inputs == (block.stages[1].output, block.inputs[0])
    source = block.tensors[block.inputs[0]]
    assert (source.height, source.width, source.channels, source.zero_point) == (6, 5, 4, -3)
    storages = [block.tensors[stage.output].storage for stage in block.stages]
    assert storages == [Storage.SCRATCH, Storage.SCRATCH, Storage.OUTPUT]


def test_a_skip_from_outside_is_a_second_input_and_a_tensor_read_outside_an_output() -> None:
    raw = RawModel()
    x = raw.tensor((1, 4, 4, 2))
    a = conv(raw, x, (1, 4, 4, 2))
    b = conv(raw, a, (1, 4, 4, 2))
    c = add(raw, b, a)
    d = log_softmax(raw, b)
    model = raw.build([x], [c, d])
    extraction = extract(model, [1, 2])
    assert (extraction.inputs, extraction.outputs) == ((a,), (b, c))
    lone = extract(model, [2])
    assert (lone.inputs, lone.outputs) == ((b, a), (c,))


def test_a_stage_without_readers_is_left_out() -> None:
    raw = RawModel()
    x = raw.tensor((1, 4, 4, 2))
    a = conv(raw, x, (1, 4, 4, 2))
    conv(raw, a, (1, 4, 4, 8))
    assert len(extract(raw.build([x], [a]), [0, 1]).block.stages) == 1


# ---- the order of things


def test_a_piece_that_waits_for_an_operator_outside_is_refused() -> None:
    raw = RawModel()
    x = raw.tensor((1, 4, 4, 2))
    a = conv(raw, x, (1, 4, 4, 2))
    b = log_softmax(raw, a)
    c = log_softmax(raw, b)
    d = add(raw, a, c)
    with pytest.raises(BlockError, match=r"^ADD_3 not fused: it waits for LOG_SOFTMAX_2 outside the block"):
        extract(raw.build([x], [d]), [0, 3])


def test_pieces_that_are_apart_are_refused() -> None:
    raw = RawModel()
    x, y = raw.tensor((1, 4, 4, 2)), raw.tensor((1, 4, 4, 2))
    a, b, c = conv(raw, x, (1, 4, 4, 2)), conv(raw, y, (1, 4, 4, 3)), conv(raw, x, (1, 4, 4, 5))
    model = raw.build([x, y], [a, b, c])
    assert len(extract(model, [0, 2]).block.stages) == 2
    with pytest.raises(BlockError, match=r"^CONV_2D_1 not fused: it is not connected"):
        extract(model, [0, 1, 2])


@pytest.mark.parametrize("operators", [[], [-1], [1]])
def test_operators_that_do_not_exist_are_refused(operators: list[int]) -> None:
    raw = RawModel()
    x = raw.tensor((1, 4, 4, 2))
    with pytest.raises(BlockError, match=r"between 0 and 0"):
        extract(raw.build([x], [conv(raw, x, (1, 4, 4, 2))]), operators)


def test_an_operator_that_no_block_holds_is_named() -> None:
    raw = RawModel()
    x = raw.tensor((1, 4))
    model = raw.build([x], [log_softmax(raw, x)])
    assert fusability(model) == ("LOG_SOFTMAX is not a fusable operator",)
    with pytest.raises(BlockError, match=r"^LOG_SOFTMAX_0 not fused: LOG_SOFTMAX is not a fusable operator$"):
        extract(model, [0])


# ---- renaming


def test_a_reshape_between_pooling_and_fully_connected_costs_no_stage() -> None:
    raw = RawModel()
    x = raw.tensor((1, 3, 4, 2))
    flat = reshape(raw, x, (1, 24))
    weights = raw.constant(edgy_int8(RNG, (5, 24)), [0.01])
    y = raw.tensor((1, 5), 0.3)
    raw.operator("FULLY_CONNECTED", [flat, weights], [y], make_options("FullyConnectedOptions"))
    z = reshape(raw, y, (1, 1, 5))
    extraction = extract(raw.build([x], [z]), range(3))
    (stage,) = extraction.block.stages
    assert (extraction.inputs, extraction.outputs) == ((x,), (z,))
    assert stage.operator == 1
    assert extraction.block.tensors[0].channels == 24  # nothing but the reader sees the input, so its view counts


def test_an_input_is_seen_as_its_pickiest_reader_sees_it() -> None:
    raw = RawModel()
    x = raw.tensor((1, 12, 2))
    image = reshape(raw, x, (1, 3, 4, 2))
    y = conv(raw, image, (1, 3, 4, 5), kernel=3)
    block = extract(raw.build([x], [y]), [0, 1]).block
    assert (block.tensors[0].height, block.tensors[0].width) == (3, 4)
    assert block.tensors[0].name == f"t{x}"


def test_fully_connected_reads_tensors_that_are_no_image() -> None:
    raw = RawModel()
    x = raw.tensor((2, 3, 1, 2, 2))
    weights = raw.constant(edgy_int8(RNG, (5, 24)), [0.01])
    y = raw.tensor((1, 5), 0.3)
    raw.operator("FULLY_CONNECTED", [x, weights], [y], make_options("FullyConnectedOptions"))
    block = extract(raw.build([x], [y]), [0]).block
    assert (block.tensors[0].height, block.tensors[0].width, block.tensors[0].channels) == (1, 1, 24)


def test_pixelwise_operators_accept_reshaped_maps_and_others_do_not() -> None:
    raw = RawModel()
    x = raw.tensor((1, 4, 6, 2))
    y = reshape(raw, conv(raw, x, (1, 4, 6, 3), kernel=3), (1, 24, 3))
    mean = raw.tensor((1, 3), 0.3)
    axes = raw.constant(np.array([1], np.int32))
    raw.operator("MEAN", [add(raw, y, y), axes], [mean], make_options("ReducerOptions"))
    model = raw.build([x], [mean])
    assert kinds(extract(model, range(4)).block) == [StageKind.CONV, StageKind.LOOKUP, StageKind.GLOBAL_AVERAGE]

    raw = RawModel()
    x = raw.tensor((1, 4, 6, 2))
    y = conv(raw, reshape(raw, conv(raw, x, (1, 4, 6, 3)), (1, 6, 4, 3)), (1, 6, 4, 2), kernel=3)
    with pytest.raises(BlockError, match=r"^CONV_2D_2 not fused: it reads its input t3 in another shape"):
        extract(raw.build([x], [y]), range(3))


def test_maps_reshaped_differently_cannot_be_added() -> None:
    raw = RawModel()
    wide, tall = raw.tensor((1, 4, 6, 2)), raw.tensor((1, 6, 4, 2))
    a = reshape(raw, conv(raw, wide, (1, 4, 6, 2), kernel=3), (1, 24, 2))
    b = reshape(raw, conv(raw, tall, (1, 6, 4, 2), kernel=3), (1, 24, 2))
    with pytest.raises(BlockError, match=r"^ADD_4 not fused: its inputs were reshaped differently"):
        extract(raw.build([wide, tall], [add(raw, a, b)]), range(5))


def test_a_tensor_under_two_names_is_refused() -> None:
    raw = RawModel()
    x = raw.tensor((1, 4, 4, 2))
    a = conv(raw, x, (1, 4, 4, 2))
    b = reshape(raw, a, (1, 32))
    with pytest.raises(BlockError, match=r"^RESHAPE_1 not fused: outside the block both t2 and its renamed form"):
        extract(raw.build([x], [a, b]), [0, 1])


def test_a_renamed_block_input_cannot_be_a_block_output() -> None:
    raw = RawModel()
    x = raw.tensor((1, 4, 4, 2))
    a = reshape(raw, x, (1, 16, 1, 2))
    b = conv(raw, a, (1, 16, 1, 2))
    with pytest.raises(BlockError, match=r"^RESHAPE_0 not fused: what it renames is not computed"):
        extract(raw.build([x], [a, b]), [0, 1])
    with pytest.raises(BlockError, match=r"^RESHAPE_0 not fused: the operators of its block compute nothing"):
        extract(raw.build([x], [a, b]), [0])


def test_a_reshape_that_changes_the_zero_point_stays_outside() -> None:
    raw = RawModel()
    x = raw.tensor((1, 4, 4, 2))
    a = conv(raw, x, (1, 4, 4, 2))
    b = reshape(raw, a, (1, 16, 1, 2), zero_point=44)
    c = conv(raw, b, (1, 16, 1, 2))
    model = raw.build([x], [c])
    assert fusability(model) == (None, "it keeps its bytes and changes their zero point", None)
    with pytest.raises(BlockError, match=r"^RESHAPE_1 not fused: it keeps its bytes and changes their zero point"):
        extract(model, [0, 1, 2])
    data = serialize_model(model)
    assert validate(load_model(data), load_model(rewrite(data, verify=False).model)).proven


# ---- PAD


def test_a_pad_before_convolutions_becomes_their_padding() -> None:
    raw = RawModel()
    x = raw.tensor((1, 8, 7, 2))
    p = pad(raw, x, (1, 0, 2, 1))
    y = conv(raw, p, (1, 7, 8, 3), kernel=3, padding=VALID)
    z = conv(raw, p, (1, 5, 5, 3), kernel=4, stride=2, padding=SAME)
    block = extract(raw.build([x], [y, z]), range(3)).block
    assert kinds(block) == [StageKind.CONV, StageKind.CONV]
    assert block.stages[0].padding == (1, 2)
    assert block.stages[1].padding == (2, 3)  # its own SAME padding of one row and column on top
    assert block.stages[0].inputs == block.inputs


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_folding_a_pad_changes_no_byte(data: st.DataObject) -> None:
    raw = RawModel()
    height, width = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    zero_point = data.draw(st.sampled_from([0, -128, 5]))
    amounts = [data.draw(st.integers(0, 3)) for _ in range(4)]
    amounts[0] += not any(amounts)  # a PAD of nothing is no stage
    x = raw.tensor((1, height, width, 2), 0.5, zero_point)
    p = pad(raw, x, amounts, zero_point=zero_point)
    _, rows, columns, _ = raw.tensors[p].shape or ()
    kernel = data.draw(st.integers(1, min(4, rows, columns)))
    stride, mode = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([SAME, VALID]))

    def out(size: int) -> int:
        return -(-size // stride) if mode == SAME else (size - kernel) // stride + 1

    y = conv(raw, p, (1, out(rows), out(columns), 3), kernel=kernel, stride=stride, padding=mode)
    image = edgy_int8(np.random.default_rng(data.draw(st.integers(0, 99))), (1, height, width, 2))
    folded = extract(raw.build([x], [y]), [0, 1]).block
    kept = extract(raw.build([x], [y, p]), [0, 1]).block  # as an output of the model the PAD has to stay
    assert kinds(kept) == [StageKind.PAD, StageKind.CONV]
    expected = run_block_tensors(kept, [image])[kept.stages[1].output]
    np.testing.assert_array_equal(run_block_reference(folded, [image])[0], expected)


@pytest.mark.parametrize("why", ["pool", "outside", "value", "far"])
def test_a_pad_that_is_more_than_padding_stays_a_stage(why: str) -> None:
    raw = RawModel()
    x = raw.tensor((1, 6, 6, 2), zero_point=9 if why == "value" else 0)
    amount = 3 if why == "far" else 1
    p = pad(raw, x, [amount] * 4)
    size = 6 + 2 * amount
    outputs = [conv(raw, p, (1, size - 2, size - 2, 2), kernel=3, padding=VALID)]
    if why == "pool":
        outputs.append(max_pool(raw, p))
    if why == "outside":
        outputs.append(log_softmax(raw, p))
    model = raw.build([x], outputs)
    block = extract(model, [i for i in range(len(model.main.operators)) if not (why == "outside" and i == 2)]).block
    assert kinds(block)[:2] == [StageKind.PAD, StageKind.CONV]
    assert block.stages[1].padding == (0, 0)
    assert (block.tensors[block.stages[0].output].storage is Storage.OUTPUT) == (why == "outside")


def test_a_pad_of_nothing_only_renames() -> None:
    raw = RawModel()
    x = raw.tensor((1, 6, 6, 2))
    y = max_pool(raw, pad(raw, x, [0] * 4))
    assert kinds(extract(raw.build([x], [y]), [0, 1]).block) == [StageKind.MAX_POOL]
