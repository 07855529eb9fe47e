"""What fused blocks in a model promise, and that a plan relying on one byte more than that is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.runtime.fused_models import fuse, whole
from tflite_fuse.errors import ModelError, PlanError
from tflite_fuse.fusion.block import BlockConfig
from tflite_fuse.fusion.extract import extract
from tflite_fuse.fusion.in_model import block_overlaps, blocks_in
from tflite_fuse.fusion.schedule import schedule
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.from_model import memory_graph
from tflite_fuse.memory.offline_plan import read_plan
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.passes.plan import Plan
from tflite_fuse.zoo import ModelBuilder


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
        wanted = [network().main.tensors[index].name for index in (*extraction.inputs, *extraction.outputs)]
        assert names == wanted


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
    graph = memory_graph(model)
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


def test_operands_that_do_not_fit_the_options_are_named() -> None:
    model = fused()
    operator = model.main.operators[0]
    inputs = operator.inputs or ()
    damaged = replace(operator, inputs=(inputs[0], *inputs))
    with pytest.raises(ModelError, match=r"TFLITE_FUSE_0 has 2 inputs and 1 outputs .* 1 and 1"):
        block_overlaps(replace_operators(model, [damaged, *model.main.operators[1:]]))
