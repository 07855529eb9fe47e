"""Which inputs can lie outside the arena, and the reasons given for those that cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scripts.zoo import ModelBuilder
from tests.drawing.raw_models import RawModel, add_convolution
from tests.input_mode_models import int16_input
from tests.told import told
from tests.uint8_models import with_uint8_borders
from tflite_fuse.emit.outside import MOST_OUTSIDE, inputs_to_move, why_inside
from tflite_fuse.errors import LimitError
from tflite_fuse.model import Model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Quantization
from tflite_fuse.model.types import TensorType
from tflite_fuse.runtime.library.sources import library_directory


def plain() -> Model:
    b = ModelBuilder(1)
    return b.build([b.conv(b.input((1, 6, 6, 2)), 4, 3)])


def only_reason(model: Model) -> str:
    reason = why_inside(model, model.main.inputs[0])
    with pytest.raises(LimitError) as caught:
        inputs_to_move(model, InputMode.STREAMED)
    assert reason is not None and reason in str(caught.value) and "cannot be streamed" in str(caught.value)
    return reason


def test_an_image_that_convolutions_read_can_move() -> None:
    model = plain()
    assert why_inside(model, model.main.inputs[0]) is None
    assert inputs_to_move(model, InputMode.EXTERNAL) == (model.main.inputs, ())
    assert inputs_to_move(model, InputMode.RESIDENT) == ((), ())


def test_inputs_of_other_types_are_named_with_a_remedy() -> None:
    reason = only_reason(int16_input())
    assert "it is int16 and QUANTIZE_0 reads it" in reason and "inference_input_type=tf.int8" in reason


def test_float_inputs_can_move_where_a_quantize_alone_reads_them() -> None:
    b = ModelBuilder()
    model = b.build([b.conv(b.quantize(b.input((1, 6, 6, 2), type=TensorType.FLOAT32)), 4, 3)])
    assert why_inside(model, model.main.inputs[0]) is None
    raw = RawModel()
    x = raw.tensor((1, 6), type_=TensorType.FLOAT32, quantization=None)
    y = raw.tensor((1, 6), type_=TensorType.FLOAT32, quantization=None)
    raw.operator("L2_NORMALIZATION", [x], [y], None)
    why = only_reason(raw.build([x], [y]))
    assert "L2_NORMALIZATION_0 reads it and cannot be part of a block: L2_NORMALIZATION is not" in why


def test_uint8_inputs_too_unless_a_quantize_reads_them() -> None:
    model = plain()
    tensors = list(model.main.tensors)
    unsigned = replace(tensors[model.main.inputs[0]], type=TensorType.UINT8)
    tensors[model.main.inputs[0]] = replace(unsigned, quantization=Quantization(scale=(0.5,), zero_point=(128,)))
    reason = only_reason(replace_main(model, replace(model.main, tensors=tuple(tensors))))
    assert "CONV_2D_0 reads it" in reason and "is uint8, blocks compute in int8" in reason
    assert why_inside(with_uint8_borders(plain()), len(model.main.tensors)) is None


def test_an_operator_no_block_can_hold_keeps_its_input() -> None:
    b = ModelBuilder()
    x = b.input((1, 8))
    assert "LOG_SOFTMAX_0 reads it and cannot be part of a block" in only_reason(b.build([b.log_softmax(x)]))


def test_behind_a_reshape_its_readers_count() -> None:
    b = ModelBuilder()
    good = b.build([b.conv(b.reshape(b.input((1, 72)), (1, 6, 6, 2)), 4, 3)])
    assert why_inside(good, good.main.inputs[0]) is None
    b = ModelBuilder()
    assert "LOG_SOFTMAX_1 reads it" in only_reason(b.build([b.log_softmax(b.reshape(b.input((1, 2, 4)), (1, 8)))]))
    b = ModelBuilder()
    assert "RESHAPE_0 makes it an output" in only_reason(b.build([b.reshape(b.input((1, 2, 4)), (1, 8))]))


def test_inputs_that_are_outputs_or_listed_twice_or_unread_stay() -> None:
    model = plain()
    (number,) = model.main.inputs
    outputs = (*model.main.outputs, number)
    assert "output of the model as well" in only_reason(replace_main(model, replace(model.main, outputs=outputs)))
    assert "more than once" in only_reason(replace_main(model, replace(model.main, inputs=(number, number))))
    assert "no operator reads it" in only_reason(replace_main(model, replace(model.main, operators=())))


def test_without_inputs_there_is_a_sentence_too() -> None:
    model = plain()
    with pytest.raises(LimitError, match="the model has none in the arena"):
        inputs_to_move(replace_main(model, replace(model.main, inputs=())), InputMode.EXTERNAL)


def test_some_inputs_move_and_others_stay_with_a_reason() -> None:
    b = ModelBuilder(3)
    x, y = b.input((1, 6, 6, 2)), b.input((1, 4))
    model = b.build([b.conv(x, 4, 3), b.log_softmax(y)])
    moved, notes = inputs_to_move(model, InputMode.STREAMED)
    assert moved == model.main.inputs[:1]
    (stays,) = told(notes, "kept", "input in the arena")
    assert (stays.details["tensor"], stays.details["mode"]) == ("input_1", "streamed")
    assert str(stays.details["why"]).startswith("LOG_SOFTMAX_1 reads it")


def test_a_runtime_takes_only_so_many() -> None:
    header = (library_directory() / "tflite_fuse_outside.h").read_text()
    assert f"#define TFLITE_FUSE_MAX_OPERANDS {MOST_OUTSIDE}\n" in header
    model = RawModel()
    inputs = [model.tensor((1, 2, 2, 1)) for _ in range(MOST_OUTSIDE + 1)]
    outputs = [add_convolution(model, tensor, (1, 2, 2, 1)) for tensor in inputs]
    with pytest.raises(LimitError, match="17 inputs cannot be streamed: a runtime takes 16"):
        inputs_to_move(model.build(inputs, outputs), InputMode.STREAMED)


def test_per_channel_activations_stay() -> None:
    model = RawModel()
    source = model.tensor((1, 2, 2, 2), (0.5, 0.25))
    assert "per-channel quantization" in only_reason(
        model.build([source], [add_convolution(model, source, (1, 2, 2, 1))])
    )
