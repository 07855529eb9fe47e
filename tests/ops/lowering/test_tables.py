"""Operators that become one table: which ones, its start, and reasons for separate tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo.float_twin import float_twin
from tests.drawing.raw_models import RawModel, add_convolution
from tflite_fuse.cost.estimate.block_costs import block_costs
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, StageKind
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.extract import extract, fusability
from tflite_fuse.runtime import tflm
from tflite_fuse.search.from_model import graph_from_model

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

SHAPE = (1, 4, 6, 8)


def add(raw: RawModel, first: int, second: int, name: str = "ADD", activation: int = 0) -> int:
    output = raw.tensor(SHAPE, 0.1, 3)
    options = make_options(name.title() + "Options", fused_activation_function=activation)
    raw.operator(name, [first, second], [output], options)
    return output


def number(raw: RawModel, value: int, dims: tuple[int, ...] = ()) -> int:
    return raw.constant(np.full(dims, value, np.int8), [0.05])


def apply(raw: RawModel, name: str, source: int, type_: int = TensorType.INT8) -> int:
    output = raw.tensor(SHAPE, 0.1, type_=type_)
    raw.operator(name, [source], [output], None)
    return output


def kinds(block: Block) -> list[StageKind]:
    return [stage.kind for stage in block.stages]


def whole(model: Model) -> Block:
    return extract(model, range(len(model.main.operators))).block


def test_a_hard_swish_of_three_operators_is_one_table() -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.05)
    gate = add(raw, x, number(raw, 60), activation=3)
    model = raw.build([x], [add(raw, add(raw, gate, x, "MUL"), number(raw, 3, (1, 1, 1, 8)), "MUL")])
    assert kinds(whole(model)) == [StageKind.LOOKUP]


def test_two_functions_of_one_tensor_that_meet_again_are_one_table() -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.05)
    model = raw.build([x], [add(raw, apply(raw, "RELU", x), apply(raw, "ELU", add(raw, x, x, "MUL")))])
    assert kinds(whole(model)) == [StageKind.LOOKUP]


def test_a_table_starts_at_the_nearest_tensor_that_is_kept() -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.05)
    kept = apply(raw, "RELU", apply(raw, "ELU", x))
    model = raw.build([x], [kept, apply(raw, "TANH", apply(raw, "RELU", kept))])
    block = whole(model)
    assert kinds(block) == [StageKind.LOOKUP, StageKind.LOOKUP]
    assert block.stages[1].inputs == (block.stages[0].output,)


def test_functions_of_two_tensors_stay_two_tables_and_a_sum() -> None:
    raw = RawModel()
    x, y = raw.tensor(SHAPE, 0.05), raw.tensor(SHAPE, 0.05)
    model = raw.build([x, y], [add(raw, apply(raw, "RELU", x), apply(raw, "ELU", y))])
    assert kinds(whole(model)) == [StageKind.LOOKUP, StageKind.LOOKUP, StageKind.ADD]


def real_chain(raw: RawModel, x: int, name: str = "TANH") -> tuple[int, int]:
    """A function in float32: the last float32 tensor and the int8 one."""
    real = apply(raw, name, apply(raw, "DEQUANTIZE", x, TensorType.FLOAT32), TensorType.FLOAT32)
    return real, apply(raw, "QUANTIZE", real)


def test_float32_between_int8_is_a_table() -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.05)
    model = raw.build([x], [real_chain(raw, x)[1]])
    assert fusability(model) == (None, None, None)
    assert kinds(whole(model)) == [StageKind.LOOKUP]


def test_float32_that_is_read_elsewhere_stays_as_it_is() -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.05)
    real, result = real_chain(raw, x, "CEIL")
    model = raw.build([x], [result, real])
    dequantize, ceiling, quantize = fusability(model)
    assert (dequantize, quantize) == (None, None) and "float32" in str(ceiling)


@pytest.mark.parametrize("name", ["LOG", "SQRT", "RSQRT"])
def test_a_function_undefined_for_some_value_is_no_table(name: str) -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.05)
    block = whole(raw.build([x], [real_chain(raw, x, name)[1]]))
    assert kinds(block) == [StageKind.DEQUANTIZE, StageKind.FLOAT_LIBRARY_CURVE, StageKind.QUANTIZE]


def test_constants_that_differ_from_pixel_to_pixel_are_operands() -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.05)
    other = raw.constant((np.arange(192) % 100).astype(np.int8).reshape(SHAPE), [0.05])
    model = raw.build([x], [add(raw, x, other)])
    assert kinds(whole(model)) == [StageKind.ADD]
    assert extract(model, [0]).inputs == (x, other)


def test_constants_of_one_row_are_refused() -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.05)
    row = raw.constant(np.arange(48, dtype=np.int8).reshape(1, 1, 6, 8), [0.05])
    assert "fits no output pixel" in str(fusability(raw.build([x], [add(raw, x, row)]))[0])


@pytest.mark.parametrize(
    ("name", "kind"), [("ADD", StageKind.OFFSET), ("SUB", StageKind.OFFSET), ("MUL", StageKind.SCALE)]
)
def test_a_constant_for_every_channel_is_a_stage_and_one_for_all_a_table(name: str, kind: StageKind) -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.05)
    each = raw.constant(np.arange(8, dtype=np.int8), [0.05])
    first = add(raw, x, each, name)
    model = raw.build([x], [first, add(raw, first, number(raw, 3, (8,)), name)])
    assert kinds(whole(model)) == [kind, StageKind.LOOKUP]


@pytest.mark.parametrize("name", ["MAXIMUM", "MINIMUM"])
def test_a_bound_is_a_table_if_it_is_one_constant(name: str) -> None:
    raw = RawModel()
    x, y = raw.tensor(SHAPE, 0.05), raw.tensor(SHAPE, 0.05)
    outputs = [raw.tensor(SHAPE, 0.05) for _ in range(3)]
    for other, output in zip(
        (number(raw, 7), y, raw.constant(np.arange(8, dtype=np.int8), [0.05])), outputs, strict=True
    ):
        raw.operator(name, [x, other], [output], None)
    model = raw.build([x, y], outputs)
    assert kinds(whole(model)) == [StageKind.LOOKUP, StageKind[name], StageKind[name]]


@pytest.mark.parametrize(("name", "kind"), [("ADD", StageKind.OFFSET), ("MUL", StageKind.SCALE)])
def test_one_channel_and_a_constant_for_several_are_a_stage_even_if_the_constants_are_equal(
    name: str, kind: StageKind
) -> None:
    raw = RawModel()
    x = raw.tensor((1, 4, 6, 1), 0.05)
    outputs = [raw.tensor((1, 4, 6, 8), 0.05) for _ in range(2)]
    for values, output in zip((np.arange(8, dtype=np.int8), np.full(8, 3, np.int8)), outputs, strict=True):
        options = make_options(f"{name.capitalize()}Options")
        raw.operator(name, [x, raw.constant(values, [0.05])], [output], options)
    assert kinds(whole(raw.build([x], outputs))) == [kind, kind]


@pytest.mark.parametrize(
    ("name", "dims", "constant", "makes"),
    [
        ("MUL", (1, 4, 6, 1), (1,), (1, 4, 6, 8)),  # the file claims channels that neither has
        ("MUL", (1, 1, 1, 1), (8,), (1, 4, 6, 8)),
        ("MUL", (1, 1, 1, 8), (8,), (1, 4, 6, 8)),
        ("MUL", (1, 4, 6, 1), (1, 6, 8), (1, 4, 6, 8)),
        ("MAXIMUM", (1, 4, 6, 1), (8,), (1, 4, 6, 8)),
        ("PRELU", (1, 4, 6, 1), (1, 1, 8), (1, 4, 6, 8)),
        ("SQUARED_DIFFERENCE", (1, 4, 6, 1), (8,), (1, 4, 6, 8)),
    ],
)
def test_one_channel_and_a_constant_are_refused_where_no_kind_computes_their_result(
    name: str, dims: tuple[int, ...], constant: tuple[int, ...], makes: tuple[int, ...]
) -> None:
    raw = RawModel()
    x, output = raw.tensor(dims, 0.05), raw.tensor(makes, 0.05)
    options = make_options("MulOptions") if name == "MUL" else None
    raw.operator(name, [x, raw.constant(np.full(constant, 3, np.int8), [0.05])], [output], options)
    model = raw.build([x], [output])
    on_floats = ("SQUARED_DIFFERENCE", "MAXIMUM")  # any number for each channel
    for each in (model, float_twin(model)):
        held = each is not model and name in on_floats
        assert (fusability(each)[0] is None) == held


def test_a_prelu_whose_slope_is_computed_is_refused() -> None:
    raw = RawModel()
    x, alpha, output = raw.tensor(SHAPE, 0.05), raw.tensor(SHAPE, 0.05), raw.tensor(SHAPE, 0.05)
    raw.operator("PRELU", [x, alpha], [output], None)
    assert "computed" in str(fusability(raw.build([x, alpha], [output]))[0])


@pytest.mark.parametrize("scale", [0.0, -0.5, float("nan"), float("inf")])
def test_a_prelu_of_an_impossible_scale_is_refused(scale: float) -> None:
    raw = RawModel()
    x, output = raw.tensor(SHAPE, 0.05), raw.tensor(SHAPE, 0.05)
    raw.operator("PRELU", [x, raw.constant(np.arange(8, dtype=np.int8), [scale])], [output], None)
    assert "scale" in str(fusability(raw.build([x], [output]))[0])


def test_a_constant_that_makes_the_result_larger_is_refused() -> None:
    raw = RawModel()
    x = raw.tensor((1, 1, 1, 8), 0.05)
    reason = fusability(raw.build([x], [add(raw, x, number(raw, 1, SHAPE))]))[0]
    assert reason is not None and "broadcasts" in reason


@pytest.mark.parametrize("scale", [0.0, -0.5, float("nan"), float("inf")])
def test_a_constant_of_an_impossible_scale_is_refused(scale: float) -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.05)
    other = raw.constant(np.array(3, np.int8), [scale])
    assert "scale" in str(fusability(raw.build([x], [add(raw, x, other)]))[0])


def test_blocks_hold_all_operators_of_a_table_or_none() -> None:
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.05)
    first = add_convolution(raw, x, SHAPE)
    result = real_chain(raw, first, "CEIL")[1]
    model = raw.build([x], [add_convolution(raw, result, SHAPE)])
    graph = graph_from_model(model)

    def firsts(last: int) -> set[int]:
        return {costs.first for costs in block_costs(graph, last, lambda driven: ((4,), (6,)))}

    assert firsts(4) == {0, 1, 4}
    assert firsts(3) == {0, 1}
    assert firsts(2) == set()
    for part in (range(0, 3), range(2, 5)):
        with pytest.raises(BlockError, match="float32"):
            extract(model, part)


def test_a_chain_of_a_thousand_operators_is_one_table() -> None:
    raw = RawModel()
    x = newest = raw.tensor(SHAPE, 0.1)
    for _ in range(1000):
        newest = apply(raw, "RELU", newest)
    assert kinds(whole(raw.build([x], [newest]))) == [StageKind.LOOKUP]


# ---- CAST ----


def cast_model(kind: int, quantized: bool = True, spread: bool = False) -> Model:
    """Bytes as float32, less 127.5, over 127.5, and a convolution of what a QUANTIZE makes of it.

    Args:
        kind: of the input; an int8 one has 128 added as float32 where ``spread``.
        quantized: whether the input has a scale, which a CAST ignores.
        spread: whether to make int8 values those of uint8.
    """
    raw = RawModel()
    x = raw.tensor(SHAPE, 0.5, type_=kind, **({} if quantized else {"quantization": None}))
    real = [raw.tensor(SHAPE, type_=TensorType.FLOAT32, quantization=None) for _ in range(4)]
    types = {"in_data_type": int(kind), "out_data_type": int(TensorType.FLOAT32)}
    raw.operator("CAST", [x], [real[0]], make_options("CastOptions", **types))
    steps = [("ADD", 128.0 if spread else 0.0), ("SUB", 127.5), ("MUL", 1 / 127.5)]
    for source, target, (name, value) in zip(
        real, real[1:], [*steps, ("SUB", 127.5), ("MUL", 1 / 127.5)], strict=False
    ):
        options = make_options(f"{name.capitalize()}Options")
        raw.operator(name, [source, raw.constant(np.array(value, np.float32))], [target], options)
    integer = raw.tensor(SHAPE, 0.0078, 3)
    raw.operator("QUANTIZE", [real[3]], [integer], None)
    return raw.build([x], [add_convolution(raw, integer, (*SHAPE[:3], 4))])


@needs_tflm
@pytest.mark.parametrize("mode", ["resident", "streamed", "external"])
@pytest.mark.parametrize("quantized", [True, False])
def test_a_cast_starts_a_table(mode: str, quantized: bool) -> None:
    """TFLM casts no uint8: what it should be is what int8 values of 128 less give, with 128 added."""
    unsigned = tflite_fuse.rewrite(serialize_model(cast_model(TensorType.UINT8, quantized)), input_mode=mode)
    assert unsigned.report.verified is None and len(load_model(unsigned.model).main.operators) == 1
    signed = serialize_model(cast_model(TensorType.INT8, quantized, spread=True))
    same = tflite_fuse.rewrite(signed, input_mode=mode, inputs=6)
    assert same.report.verified is not None and len(load_model(same.model).main.operators) == 1
    image = np.random.default_rng(1).integers(0, 256, SHAPE).astype(np.uint8)
    (expected,) = tflite_fuse.run(signed, [(image.astype(np.int16) - 128).astype(np.int8)])
    (found,) = tflite_fuse.run(unsigned.model, [image])
    np.testing.assert_array_equal(found, expected)


def test_a_cast_of_uint8_that_others_read_is_refused() -> None:
    model = cast_model(TensorType.UINT8)
    (x,) = model.main.inputs
    both = replace_main(model, replace(model.main, outputs=(*model.main.outputs, x)))
    assert "read by others, too" in str(fusability(both)[0])


def test_intermediates_of_a_table_are_computed_for_their_other_readers() -> None:
    """ELU, then ADD with its input, is a table; a third operator reads what ELU wrote."""
    raw = RawModel()
    x = raw.tensor(SHAPE, 1.0, -128)
    source = add_convolution(raw, x, SHAPE)
    curved, doubled, output = (raw.tensor(SHAPE, 1.0, -128) for _ in range(3))
    raw.operator("ELU", [source], [curved], None)
    raw.operator("ADD", [curved, source], [doubled], make_options("AddOptions"))
    convolved = add_convolution(raw, doubled, SHAPE)
    raw.operator("ADD", [convolved, curved], [output], make_options("AddOptions"))
    model = raw.build([x], [output])
    block = extract(model, range(len(model.main.operators))).block
    assert len(block.inputs) == 1
    assert [stage.kind for stage in block.stages].count(StageKind.LOOKUP) == 2


def test_roots_of_negative_values_and_of_large_scales_are_refused() -> None:
    for scale, point, reason in [(0.1, -127, "has zero point -127"), (2.0**14, -128, "leave nothing")]:
        raw = RawModel()
        x, output = raw.tensor(SHAPE, scale, point), raw.tensor(SHAPE, 64.0)
        raw.operator("RSQRT", [x], [output], None)
        assert reason in str(fusability(raw.build([x], [output]))[0])


@pytest.mark.parametrize("name", ["FLOOR_DIV", "FLOOR_MOD"])
def test_a_division_by_0_for_some_value_is_no_table(name: str) -> None:
    raw = RawModel()
    x, output = raw.tensor(SHAPE, 0.1), raw.tensor(SHAPE, 0.1)
    divisor, quotient = (raw.tensor(SHAPE, type_=TensorType.FLOAT32, quantization=None) for _ in range(2))
    raw.operator("DEQUANTIZE", [x], [divisor], None)
    raw.operator(name, [raw.constant(np.array(3.0, np.float32)), divisor], [quotient], None)
    raw.operator("QUANTIZE", [quotient], [output], None)
    assert fusability(raw.build([x], [output]))[1] is not None
