"""Permitted overlaps of fused blocks in a model; a plan with one byte more is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.drawing import raw_elementwise
from tests.drawing import raw_models as raw
from tests.drawing.steps.recurrent import lstms
from tests.runtime.fused_models import fuse, whole
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.emit.in_model import block_overlaps, blocks_in, executed_macs
from tflite_fuse.errors import ModelError, PlanError
from tflite_fuse.ir.block import BlockConfig
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.tflm.offline_plan import read_plan
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.operators import labelled
from tflite_fuse.model.options import make_options
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.passes.plan import Plan


def network() -> Model:
    """Two convolutions that halve the image, two that keep it, a mean."""
    b = ModelBuilder(5)
    x = b.conv(b.input((1, 24, 20, 3)), 8, 3, 2, activation="RELU6")
    x = b.conv(b.conv(x, 8, 3, activation="RELU6"), 8, activation="RELU6")
    return b.build([b.mean(b.conv(x, 12, 3, activation="RELU6"))])


def fused(config: BlockConfig | None = None) -> Model:
    """Its first operator as a block in one tile, its second and third as another."""
    model = load_model(fuse(serialize_model(network()), [1, 2], config))
    return load_model(fuse(serialize_model(model), [0]))


def test_distances_are_those_of_the_schedule() -> None:
    model, found = fused(), block_overlaps(fused())
    assert len(found) == 2
    for overlap, operators in zip(found, ([0], [1, 2]), strict=True):
        extraction = extract(network(), operators)
        exact = schedule(extraction.block, whole(extraction.block)).overlaps
        assert [overlap.distance] == list(exact.values())
        names = [model.main.tensors[index].name for index in (overlap.input, overlap.output)]
        expected = [network().main.tensors[index].name for index in (*extraction.inputs, *extraction.outputs)]
        assert names == expected


def test_strips_promise_little_and_bands_of_strips_more() -> None:
    distances = []
    for config in (BlockConfig(12, 4), BlockConfig(3, 4)):
        model = fused(config)
        assert len(blocks_in(model)) == 2
        distances += [o.distance or 0 for o in block_overlaps(model) if o.input not in model.main.inputs]
    strips, bands = distances
    assert 0 < bands < strips < 12 * 10 * 8


def test_of_a_tensor_given_twice_the_most_demanding_place_counts() -> None:
    b = ModelBuilder(1)
    x, y = b.input((1, 8, 8, 4)), b.input((1, 8, 8, 4))
    model = load_model(fuse(serialize_model(b.build([b.add(b.conv(x, 4, 5), b.conv(y, 4))])), [0, 1, 2]))
    near, far = sorted(overlap.distance or 0 for overlap in block_overlaps(model))
    assert near < far
    (operator,) = model.main.operators
    for position in (0, 1):
        inputs = list(operator.inputs or ())
        inputs[1 - position] = inputs[position]
        (overlap,) = block_overlaps(replace_operators(model, [replace(operator, inputs=tuple(inputs))]))
        assert overlap.distance == far


def test_a_plan_that_overlaps_is_sound_and_short_by_one_step_is_not() -> None:
    model = fused()
    overlaps = block_overlaps(model)
    result = Plan(overlaps=block_overlaps).run(model)
    offsets = read_plan(result.model)
    assert result.changed and offsets is not None
    graph = program_of(model)
    check_plan(graph, offsets, overlaps)
    first = next(overlap for overlap in overlaps if overlap.input == graph.inputs[0])
    assert first.distance is not None and offsets[first.output] + first.distance <= offsets[first.input]
    assert offsets[first.output] + graph.sizes[first.output] > offsets[first.input], "nothing is shared"
    with pytest.raises(PlanError, match="overlaps its input"):
        check_plan(graph, offsets, ())
    room = offsets[first.input] - offsets[first.output]
    tight = tuple(replace(o, distance=room) if o == first else o for o in overlaps)
    check_plan(graph, offsets, tight)
    short = tuple(replace(o, distance=room + 1) if o == first else o for o in overlaps)
    with pytest.raises(PlanError, match="overlaps its input"):
        check_plan(graph, offsets, short)


ONE_OPERATOR = st.one_of(
    raw.convolutions(),
    raw.depthwise_convolutions(),
    raw.fully_connected(),
    *(raw_elementwise.pairs(name) for name in raw_elementwise.PAIR_OPTIONS),
    raw.pads(),
    raw.pools("AVERAGE_POOL_2D"),
    raw.reductions("MEAN"),
    raw.reductions("REDUCE_MAX"),
    raw.first_largest(),
    raw.concatenations(),
    raw_elementwise.softmaxes(),
    lstms(alone=True),
    *(raw_elementwise.elementwise(name) for name in raw_elementwise.ELEMENTWISE),
)


@settings(max_examples=100)
@given(ONE_OPERATOR)
def test_an_operator_run_whole_in_a_block_executes_its_own_macs(model: Model) -> None:
    assert executed_macs(load_model(fuse(serialize_model(model), [0]))) == executed_macs(model)


@pytest.mark.parametrize("name", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_weights_that_are_all_one_add_and_multiply_nothing_inside_a_block_and_outside(name: str) -> None:
    maker = raw.RawModel()
    x, y = maker.tensor((1, 6, 5, 4)), maker.tensor((1, 6, 5, 4))
    shape = (4, 3, 3, 1) if name == "CONV_2D" else (1, 3, 3, 4)
    table, depth = ("Conv2DOptions", {}) if name == "CONV_2D" else ("DepthwiseConv2DOptions", {"depth_multiplier": 1})
    options = make_options(table, padding=raw.SAME, stride_h=1, stride_w=1, **depth)
    maker.operator(name, [x, maker.constant(np.ones(shape, np.int8), [0.1])], [y], options)
    model = maker.build([x], [y])
    assert executed_macs(model) == executed_macs(load_model(fuse(serialize_model(model), [0]))) == (0,)


def test_operators_that_multiply_nothing_multiply_nothing_in_strips() -> None:
    b = ModelBuilder(3)
    model = b.build([b.conv(b.quantize(b.conv(b.input((1, 12, 12, 3)), 4, 3)), 4)])
    whole_macs, strips = executed_macs(model), load_model(fuse(serialize_model(model), [1, 2], BlockConfig(12, 5)))
    assert executed_macs(strips) == (whole_macs[0], whole_macs[2])


def test_operands_that_do_not_fit_the_options_are_named() -> None:
    model = fused()
    operator = model.main.operators[0]
    inputs = operator.inputs or ()
    damaged = replace(operator, inputs=(inputs[0], *inputs))
    with pytest.raises(ModelError, match=r"TFLITE_FUSE_0 has 2 inputs and 1 outputs .* 1 and 1"):
        block_overlaps(replace_operators(model, [damaged, *model.main.operators[1:]]))


def test_two_blocks_that_read_one_source_are_refused() -> None:
    result = tflite_fuse.rewrite(serialize_model(network()), input_mode="streamed", verify=False)
    model = load_model(result.model)
    (reader, *others) = model.main.operators
    assert blocks_in(model)[0].outside
    with pytest.raises(ModelError, match="TFLITE_FUSE_0 and TFLITE_FUSE_1 both read source 0"):
        blocks_in(labelled(replace_operators(model, [reader, reader, *others])))
