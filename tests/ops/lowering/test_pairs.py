"""Functions of two int8 values through float32: one stage with the runtime's bytes, wherever its parts are."""

from __future__ import annotations

import pytest

import tflite_fuse
from tests.drawing.raw_models import RawModel
from tests.drawing.raw_models import add_convolution as conv
from tflite_fuse.check import validate
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.ir.block import StageKind
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.extract import extract, fusability
from tflite_fuse.ops.lowering.lower import lower_model
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

OPERATIONS = ("ADD", "SUB", "MUL", "DIV")
SCALES = ((0.05, 0.02, 0.04), (1e-3, 30.0, 1.0), (0.5, 1e-38, 1e-40), (1e20, 1e-20, 3.0))


def model_of(
    name: str,
    activation: int = 0,
    scales: tuple[float, float, float] = SCALES[0],
    dims: tuple[int, ...] = (1, 6, 7, 8),
    before: str | None = None,
    early: bool = False,
    extra: int | None = None,
) -> Model:
    """Two int8 inputs as float32, an operation, and what a QUANTIZE makes of it.

    Args:
        name, activation: of the operation.
        scales: of both inputs and of the output.
        dims: of all tensors.
        before: an operator on float32 on the second side.
        early: whether the first DEQUANTIZE stands before operators that have nothing to do with it.
        extra: which float32 tensor is an output, too: of a side (0, 1) or the result (2).
    """
    m = RawModel()
    x, y = m.tensor(dims, scales[0], 3), m.tensor(dims, scales[1], -7)
    real = [m.tensor(dims, type_=TensorType.FLOAT32, quantization=None) for _ in range(4)]
    m.operator("DEQUANTIZE", [x], [real[0]], None)
    if early:
        squashed = m.tensor(dims, 1 / 16, 127)
        m.operator("LOG_SOFTMAX", [y], [squashed], None)
        y = squashed
    m.operator("DEQUANTIZE", [y], [real[1]], None)
    if before is not None:
        m.operator(before, [real[1]], [real[3]], None)
    second = real[1] if before is None else real[3]
    options = make_options(f"{name.capitalize()}Options", fused_activation_function=activation)
    m.operator(name, [real[0], second], [real[2]], options)
    output = m.tensor(dims, scales[2], 9)
    m.operator("QUANTIZE", [real[2]], [output], None)
    return m.build([0, 1], [output] if extra is None else [output, real[extra]])


def stages(model: Model) -> list[StageKind]:
    return [stage.kind for plan in blocks_in(model).values() for stage in plan.block.stages]


@needs_tflm
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("activation", [0, 1, 3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_outputs_equal_the_runtime(name: str, activation: int, scales: tuple[float, float, float]) -> None:
    """Zeros among the divisors, quotients beyond int32, and subnormal numbers too."""
    model = model_of(name, activation, scales)
    result = tflite_fuse.rewrite(serialize_model(model), inputs=12)
    assert result.report.verified is not None and result.report.verified.bit_exact
    assert stages(load_model(result.model)) == [StageKind.REAL_PAIR]


@needs_tflm
@pytest.mark.parametrize("mode", ["resident", "streamed", "external"])
@pytest.mark.parametrize("dims", [(5, 6, 7), (2, 3, 4, 8), (2, 2, 3, 4, 5), (1, 40)])
def test_dimensions_do_not_matter_and_inputs_may_lie_anywhere(dims: tuple[int, ...], mode: str) -> None:
    result = tflite_fuse.rewrite(serialize_model(model_of("DIV", dims=dims, before="ABS")), input_mode=mode, inputs=6)
    assert result.report.verified is not None and result.report.verified.bit_exact
    kinds = stages(load_model(result.model))
    assert kinds[-1] is StageKind.REAL_PAIR and kinds.count(StageKind.SOURCE) == (2 if mode == "streamed" else 0)


@needs_tflm
def test_a_part_that_stands_far_before_the_others_is_brought_to_them() -> None:
    result = tflite_fuse.rewrite(serialize_model(model_of("MUL", early=True)), inputs=6)
    assert result.report.verified is not None and result.report.verified.bit_exact
    assert stages(load_model(result.model)) == [StageKind.REAL_PAIR]


@needs_tflm
def test_between_convolutions_it_reads_and_writes_rings() -> None:
    m = RawModel()
    x = m.tensor((1, 12, 12, 4), 0.05, 3)
    a, b = conv(m, x, (1, 12, 12, 4), 3), conv(m, x, (1, 12, 12, 4))
    real = [m.tensor((1, 12, 12, 4), type_=TensorType.FLOAT32, quantization=None) for _ in range(3)]
    m.operator("DEQUANTIZE", [a], [real[0]], None)
    m.operator("DEQUANTIZE", [b], [real[1]], None)
    m.operator("SUB", real[:2], [real[2]], make_options("SubOptions"))
    output = m.tensor((1, 12, 12, 4), 0.1, 1)
    m.operator("QUANTIZE", [real[2]], [output], None)
    model = serialize_model(m.build([x], [conv(m, output, (1, 6, 6, 4), 3, 2)]))
    report = tflite_fuse.rewrite(model, inputs=6, goal=tflite_fuse.Goal(least_ram=True)).report
    assert report.verified is not None and report.verified.bit_exact and len(report.blocks) == 1


@pytest.mark.parametrize("extra", [0, 1, 2])
def test_float32_with_other_readers_keeps_the_parts_apart(extra: int) -> None:
    model = model_of("ADD", extra=extra)
    found = lower_model(model)
    assert all(isinstance(each, str) or each.table is None for each in found)
    assert fusability(model)[2] is None  # it is a stage on float32 of its own


def test_numbers_that_are_not_finite_keep_the_parts_apart() -> None:
    model = model_of("MUL", scales=(3e37, 1.0, 1.0))
    assert all(isinstance(each, str) or each.table is None for each in lower_model(model))


def test_all_of_them_are_one_stage_of_two_inputs() -> None:
    block = extract(model_of("DIV", before="ABS"), range(5)).block
    (stage,) = block.stages
    assert stage.kind is StageKind.REAL_PAIR and len(set(stage.inputs)) == 2


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_proof_distinguishes_the_operations(name: str) -> None:
    before = serialize_model(model_of(name))
    after = load_model(tflite_fuse.rewrite(before, verify=False).model)
    assert validate(before, after).proven
    others = [model_of(other) for other in OPERATIONS if other != name]
    others += [model_of(name, activation=1), model_of(name, scales=(0.05, 0.0200001, 0.04))]
    assert not any(validate(serialize_model(other), after).proven for other in others)
