"""Operators as stages: equivalents of others, and every reason for a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.drawing.raw_models import SAME, VALID, RawModel, add_convolution, edgy_int8
from tflite_fuse import rewrite
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import StageKind
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model, Operator, OptionsTable, Quantization, Sparsity, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.extract import extract, fusability

RNG = np.random.default_rng(3)


def one_operator(
    name: str, inputs: Sequence[int], raw: RawModel, output: int, options: OptionsTable | None = None
) -> Model:
    raw.operator(name, inputs, [output], options)
    return raw.build([inputs[0]], [output])


# ---- stages that stand in for another operator


def test_global_pools_become_accumulators() -> None:
    raw = RawModel()
    x = raw.tensor((1, 4, 6, 3))
    y = raw.tensor((1, 1, 1, 3))
    options = make_options("Pool2DOptions", padding=VALID, stride_h=2, stride_w=3, filter_height=4, filter_width=6)
    (stage,) = extract(one_operator("AVERAGE_POOL_2D", [x], raw, y, options), [0]).block.stages
    assert stage.kind is StageKind.GLOBAL_AVERAGE
    assert stage.requantization is None


def test_a_mean_over_rows_alone_is_a_depthwise_sum() -> None:
    raw = RawModel()
    x = raw.tensor((1, 4, 6, 3))
    axes = raw.constant(np.array([1], np.int32))
    y = raw.tensor((1, 6, 3))
    model = one_operator("MEAN", [x, axes], raw, y, make_options("ReducerOptions"))
    (stage,) = extract(model, [0]).block.stages
    assert (stage.kind, stage.kernel_size) == (StageKind.DEPTHWISE, (4, 1))
    assert stage.weights is not None and (stage.weights == 1).all()


def test_one_channel_per_group_is_a_depthwise_convolution_and_more_are_refused() -> None:
    def grouped(depth: int) -> Model:
        raw = RawModel()
        x = raw.tensor((1, 4, 4, 4))
        weights = raw.constant(edgy_int8(RNG, (8, 3, 3, depth)), [0.01])
        options = make_options("Conv2DOptions", padding=SAME, stride_h=1, stride_w=1)
        return one_operator("CONV_2D", [x, weights], raw, raw.tensor((1, 4, 4, 8)), options)

    (stage,) = extract(grouped(1), [0]).block.stages
    assert (stage.kind, stage.depth_multiplier) == (StageKind.DEPTHWISE, 2)
    assert "grouped convolution" in (fusability(grouped(2))[0] or "")


# ---- reasons why not


def broken(change: str) -> Model:
    """A convolution with one thing wrong."""
    raw = RawModel()
    x = raw.tensor((1, 4, 4, 2))
    y = add_convolution(raw, x, (1, 4, 4, 3), kernel=3)
    bias = raw.constant(np.zeros(2, np.int32)) if change == "bias size" else raw.constant(np.zeros(3, np.int64))
    weights = x + 1
    changes: dict[str, tuple[int, Tensor]] = {
        "uint8": (x, replace(raw.tensors[x], type=TensorType.UINT8)),
        "dynamic": (x, replace(raw.tensors[x], shape_signature=(-1, -1, 4, 2))),
        "no shape": (x, replace(raw.tensors[x], shape=(1, -1, 4, 2))),
        "batch": (x, replace(raw.tensors[x], shape=(2, 4, 4, 2))),
        "rank": (x, replace(raw.tensors[x], shape=(1, 16, 2))),
        "plain": (x, replace(raw.tensors[x], quantization=None)),
        "channels": (x, replace(raw.tensors[x], quantization=Quantization(scale=(1.0, 2.0), zero_point=(0, 0)))),
        "zero point": (x, replace(raw.tensors[x], quantization=Quantization(scale=(1.0,), zero_point=(200,)))),
        "scale": (y, replace(raw.tensors[y], quantization=Quantization(scale=(-1.0,), zero_point=(0,)))),
        "nan": (y, replace(raw.tensors[y], quantization=Quantization(scale=(float("nan"),), zero_point=(0,)))),
        "variable": (x, replace(raw.tensors[x], is_variable=True)),
        "constant": (x, replace(raw.tensors[x], buffer=1)),
        "shape": (y, replace(raw.tensors[y], shape=(1, 3, 4, 3))),
        "weights zero point": (
            weights,
            replace(raw.tensors[weights], quantization=Quantization(scale=(1.0,), zero_point=(1,))),
        ),
        "weights axis": (
            weights,
            replace(
                raw.tensors[weights],
                quantization=Quantization(scale=(1.0,) * 3, zero_point=(0,) * 3, quantized_dimension=1),
            ),
        ),
        "int4": (weights, replace(raw.tensors[weights], type=TensorType.INT4)),
        "sparse": (weights, replace(raw.tensors[weights], sparsity=Sparsity())),
        "cut": (weights, replace(raw.tensors[weights], shape=(3, 3, 3, 4))),
        "kept": (weights, replace(raw.tensors[weights], is_variable=True)),
        "computed": (weights, replace(raw.tensors[weights], buffer=0)),
    }
    if change in changes:
        index, tensor = changes[change]
        raw.tensors[index] = tensor
    operator = raw.operators[0]
    options = {"padding": SAME, "stride_h": 1, "stride_w": 1}
    inputs = operator.inputs or ()
    if change.startswith("bias"):
        inputs = (*inputs, bias)
    if change == "stride":
        options["stride_w"] = 0
    if change == "activation":
        options["fused_activation_function"] = 4
    model = raw.build([x], [y])
    table = None if change == "options" else make_options("Conv2DOptions", **options)
    changed = Operator(operator.opcode_index, inputs, operator.outputs, table)
    return replace_main(model, replace(model.main, operators=(changed,)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("uint8", "t0 is uint8"),
        ("dynamic", "t0 has a dynamic shape"),
        ("no shape", "t0 has a dynamic shape"),
        ("batch", "t0 has a batch of 2"),
        ("rank", "t0 has 3 dimensions, not 4"),
        ("plain", "t0 is not quantized"),
        ("channels", "t0 is an activation with per-channel quantization"),
        ("zero point", "t0 has zero point 200"),
        ("scale", "t2 has scale -1"),
        ("nan", "t2 has a scale that is not a number"),
        ("variable", "t0 keeps its value between inferences"),
        ("constant", "t0 is a constant"),
        ("shape", "t2 has the shape [1, 3, 4, 3], its options give [4, 4]"),
        ("weights zero point", "zero points other than 0"),
        ("weights axis", "3 scales along dimension 1"),
        ("int4", "are int4, not int8"),
        ("sparse", "are sparse"),
        ("cut", "not stored plainly: 54 bytes for shape [3, 3, 3, 4]"),
        ("kept", "are a variable"),
        ("computed", "are not a constant"),
        ("bias size", "its bias has 2 values for 3 output channels"),
        ("bias type", "are int64, not int32"),
        ("stride", "its option stride_w is 0"),
        ("activation", "activation (number 4)"),
        ("options", "its option stride_h is missing"),
    ],
)
def test_reasons(change: str, reason: str) -> None:
    (found,) = fusability(broken(change))
    assert found is not None and reason in found
    with pytest.raises(BlockError, match=r"^CONV_2D_0 not fused: "):
        extract(broken(change), [0])


def test_a_batch_left_open_in_the_signature_alone_is_no_obstacle() -> None:
    model = broken("nothing")
    tensors = tuple(replace(t, shape_signature=(-1, *t.dims[1:])) for t in model.main.tensors)
    assert fusability(replace_main(model, replace(model.main, tensors=tensors))) == (None,)


def test_add_concatenation_mean_pool_and_fully_connected_are_refused_with_reasons() -> None:
    def reason(
        name: str, shapes: Sequence[Sequence[int]], out: Sequence[int], options: OptionsTable | None, *more: int
    ) -> str:
        raw = RawModel()
        inputs = [raw.tensor(shape, 0.5) for shape in shapes]
        constants = [raw.constant(np.array(more, np.int32))] if more else []
        output = raw.tensor(out, 0.5, 1 if name == "MAX_POOL_2D" else 0)
        (found,) = fusability(one_operator(name, [*inputs, *constants], raw, output, options))
        return found or ""

    image = (1, 4, 4, 2)
    assert "broadcasts [1, 4, 4, 2] and [1, 1, 4, 2]" in reason("ADD", [image, (1, 1, 4, 2)], image, None)
    axis = make_options("ConcatenationOptions", axis=1)
    assert "along axis 1, not along channels" in reason("CONCATENATION", [image, image], (1, 8, 4, 2), axis)
    assert "joins 1 tensors" in reason("CONCATENATION", [image], image, None)
    assert "channels together with rows" in reason("MEAN", [image], (1, 4, 1, 1), None, 2, 3)
    assert "quantized differently" in reason("MAX_POOL_2D", [image], image, None)
    assert "cuts its input" in reason("PAD", [image], (1, 3, 4, 2), None, 0, 0, -1, 0, 0, 0, 0, 0)
    assert "rows or columns besides" in reason("PAD", [image], (1, 5, 4, 3), None, 0, 0, 0, 1, 0, 0, 0, 1)
    assert "do not lead from" in reason("PAD", [image], image, None, 0, 0, 1, 0)
    assert "maps 32 to 16 values" in reason("RESHAPE", [image], (1, 16), None)
    assert "left out" in reason("FULLY_CONNECTED", [image], (1, 3), None)


def test_fully_connected_of_more_than_a_pixel_and_less_than_all_is_refused() -> None:
    raw = RawModel()
    x, y = raw.tensor((4, 2, 6)), raw.tensor((4, 3))
    weights = raw.constant(edgy_int8(RNG, (3, 12)), [0.01])
    options = make_options("FullyConnectedOptions")
    (reason,) = fusability(one_operator("FULLY_CONNECTED", [x, weights], raw, y, options))
    assert reason == "it maps [4, 2, 6] to [4, 3] with weights of 12 to 3"


@pytest.mark.parametrize("mode", ["resident", "streamed"])
@pytest.mark.parametrize("shape", [(1, 40, 6), (40, 6), (1, 8, 5, 6), (2, 20, 6)])
def test_fully_connected_of_each_pixel_runs_in_a_block_pixel_by_pixel(shape: tuple[int, ...], mode: str) -> None:
    """The wide tensor between the two layers is never whole."""
    raw = RawModel()
    x, wide, y = raw.tensor(shape), raw.tensor((*shape[:-1], 50), 0.1), raw.tensor((40, 6))
    options = make_options("FullyConnectedOptions")
    for source, result, units, depth in ((x, wide, 50, 6), (wide, y, 6, 50)):
        weights = raw.constant(edgy_int8(RNG, (units, depth)), [0.01])
        raw.operator("FULLY_CONNECTED", [source, weights], [result], options)
    report = rewrite(serialize_model(raw.build([x], [y])), input_mode=mode, verify=True).report
    assert report.before.head_bytes > 2000 > 600 > report.after.head_bytes
    assert (len(report.blocks), report.proven.blocks, report.proven.operators) == (1, 1, 0)


def test_a_softmax_between_tensors_of_different_rank_is_refused() -> None:
    """The runtime compares their dimensions one by one and reads behind those of the shorter shape."""
    raw = RawModel()
    x, y = raw.tensor((1, 1, 5, 4)), raw.tensor((5, 4), 1 / 256, -128)
    (reason,) = fusability(one_operator("SOFTMAX", [x], raw, y, make_options("SoftmaxOptions", beta=1.0)))
    assert reason == "it makes 2 dimensions of 4, for which the runtime reads sizes that are not there"
