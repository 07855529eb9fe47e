"""Models in the search: its blocks can be extracted, with the costs of extraction and schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings

from scripts.papers.layers import graph_from_layers
from scripts.points import least_ram
from scripts.zoo import networks
from scripts.zoo.architectures import build_architecture
from scripts.zoo.builder import ModelBuilder
from tests.builders import random_models
from tests.drawing.cut_dag import cut_dag
from tests.drawing.weightless import scheduled
from tests.told import told
from tflite_fuse.cost.estimate.block_costs import block_costs
from tflite_fuse.ir.block import BlockConfig
from tflite_fuse.ir.liveness import peak
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.tail import predict_tail
from tflite_fuse.model import Model, load_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.macs import operator_macs
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.search.cut_graph import Rules, cut_graph
from tflite_fuse.search.from_model import graph_from_model
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front
from tflite_fuse.search.schemes import Scheme, restriction, whole_tile

LAYERS = {
    "input": [17, 13, 3],
    "layers": [
        {"op": "conv", "kernel": 3, "stride": 2, "pad": [1, 1, 1, 1], "cout": 8, "out": [9, 7, 8]},
        {"op": "pw", "kernel": 1, "stride": 1, "pad": [0, 0, 0, 0], "cout": 24, "out": [9, 7, 24]},
        {"op": "dw", "kernel": 5, "stride": 1, "pad": [2, 2, 2, 2], "cout": 24, "out": [9, 7, 24]},
        {"op": "pw", "kernel": 1, "stride": 1, "pad": [0, 0, 0, 0], "cout": 8, "out": [9, 7, 8]},
        {"op": "add", "kernel": 1, "stride": 1, "pad": [0, 0, 0, 0], "residual_from": 0, "out": [9, 7, 8]},
        {"op": "pw", "kernel": 1, "stride": 1, "pad": [0, 0, 0, 0], "cout": 32, "out": [9, 7, 32]},
        {"op": "avgpool", "kernel": [9, 7], "stride": [9, 7], "pad": [0, 0, 0, 0], "out": [1, 1, 32]},
    ],
}


def padded_network() -> Model:
    """Explicit PAD before every convolution, as some converters write them; one that pads nothing; a residual."""
    builder = ModelBuilder(3)
    x = builder.conv(builder.pad(builder.input((1, 16, 12, 3)), (1, 1, 1, 1)), 8, 3, 2, "VALID", "RELU6")
    y = builder.conv(builder.pad(x, (0, 0, 0, 0)), 24, activation="RELU6")
    y = builder.depthwise(builder.pad(y, (2, 2, 2, 2)), 5, 1, "VALID", "RELU6")
    y = builder.add(builder.conv(y, 8), x)
    return builder.build([builder.log_softmax(builder.fully_connected(builder.mean(y), 4))])


def network_that_reads_padding_alone() -> Model:
    """What its last operator sees was padded, nothing of what was computed before."""
    builder = ModelBuilder(4)
    x = builder.conv(builder.conv(builder.input((1, 3, 3, 1)), 1), 1)
    return builder.build([builder.depthwise(builder.pad(x, (1, 0, 1, 0)), 1, 4, "VALID")])


def check_offered_blocks(model: Model, chunk: int, most: int = 40, branches: bool = False) -> int:
    graph = graph_from_model(model)
    cuts = cut_dag(cut_graph(graph, restriction(graph, Scheme.AUTO), Rules((chunk,))).edges)
    offered = [
        (source, target - 1, edge["options"], index)
        for source, target, edge in cuts.edges(data=True)
        for index in range(len(edge["options"]))
        if edge["fused"]
    ]
    for first, last, options, index in Random(0).sample(offered, min(most, len(offered))):
        config = BlockConfig(int(options.tile_height[index]), int(options.tile_width[index]), chunk)
        extraction = extract(model, range(first, last + 1))
        exact = scheduled(extraction.block, config)
        assert options.work[index] >= exact.macs
        if not branches:
            assert options.work[index] == exact.macs
        assert options.scratch[index] >= exact.scratch_bytes
        outside = sum(graph.sizes[tensor] for tensor in {*extraction.inputs, *extraction.outputs})
        assert options.ram[index] >= outside + options.scratch[index]
    return len(offered)


@pytest.mark.parametrize(
    "build",
    [
        networks.inverted_residual_network,
        networks.one_dimensional_network,
        networks.branching_network,
        networks.cell_network,
        networks.pyramid_network,
        padded_network,
        lambda: build_architecture(LAYERS),
    ],
)
def test_offered_blocks_can_be_extracted(build: Callable[[], Model]) -> None:
    model = build()
    for chunk in (1, 4):
        assert check_offered_blocks(model, chunk) > 10


def test_rings_behind_padding_have_room() -> None:
    assert check_offered_blocks(network_that_reads_padding_alone(), 1) > 3


@settings(max_examples=40)
@given(random_models(variables=True))
def test_offered_blocks_of_random_models_can_be_extracted(model: Model) -> None:
    check_offered_blocks(model, chunk=2, most=8, branches=True)


@pytest.mark.parametrize("size", [1, 6])
def test_blocks_hold_the_operators_of_a_table(size: int) -> None:
    """Without ADD_0, which the model has as an output, nobody knows that the others are functions of its input, too."""
    builder = ModelBuilder(5)
    x = builder.input((1, size, size, 1))
    kept = builder.add(x, x)
    model = builder.build([builder.conv(builder.add(builder.add(kept, x), x), 1), kept])
    assert graph_from_model(model).steps[2].unit == (0, 2)
    assert check_offered_blocks(model, chunk=2, branches=True) > 0


def test_offered_blocks_of_public_models_can_be_extracted(shared_model: Path) -> None:
    check_offered_blocks(load_model(shared_model), chunk=1, most=6)


def test_a_model_and_its_layer_list_have_the_same_front() -> None:
    options = SearchOptions(chunks=(2,))
    model = fusion_front(build_architecture(LAYERS), options)
    layers = fusion_front(graph_from_layers(LAYERS), options)
    assert model.points == layers.points
    assert model.unfused == layers.unfused


@settings(max_examples=40)
@given(random_models(variables=True))
def test_the_unfused_point_is_the_model_as_it_is(model: Model) -> None:
    front = fusion_front(model)
    assert front.unfused.work == sum(operator_macs(model))
    assert front.unfused.ram_bytes == peak(program_of(model))
    notes, layers = front.explain(front.unfused), front.graph.steps
    assert notes[0].operators[0] == layers[0].name and notes[-1].operators[-1] == layers[-1].name


def test_padding_vanishes_into_its_readers() -> None:
    graph = graph_from_model(padded_network())
    absorbed = [layer.name for layer in graph.steps if layer.absorbed]
    assert len(absorbed) == 2
    assert sum(layer.view for layer in graph.steps) >= 1


def test_no_block_starts_right_behind_padding_it_could_absorb() -> None:
    graph = graph_from_model(padded_network())
    firsts = {costs.first for last in range(len(graph.steps)) for costs in block_costs(graph, last, whole_tile)}
    padding = {index for index, layer in enumerate(graph.steps) if layer.absorbed}
    assert graph.inner_cuts == {index + 1 for index in padding}
    assert firsts >= padding and firsts.isdisjoint(graph.inner_cuts)


def test_models_of_other_types_pass_with_a_reason() -> None:
    builder = ModelBuilder(0)
    model = builder.build([builder.dequantize(builder.conv(builder.input((1, 8, 8, 3)), 4))])
    tensors, (leaving,) = list(model.main.tensors), model.main.outputs
    tensors[leaving] = replace(tensors[leaving], type=TensorType.FLOAT16)
    front = fusion_front(replace_main(model, replace(model.main, tensors=tuple(tensors))))
    assert least_ram(front, 1.0).blocks == ()
    unfused = told(front.explain(least_ram(front, 1.0)), "not fused", "operator")
    assert any(each.operators == ("DEQUANTIZE_1",) for each in unfused)


def test_counting_the_tail_moves_tables_to_flash() -> None:
    model = networks.inverted_residual_network()
    graph = graph_from_model(model)
    front = fusion_front(graph, SearchOptions(alignment=16, count_tail=True, single_operators=True))
    plain = fusion_front(graph, SearchOptions(alignment=16))
    assert front.unfused.ram_bytes - front.unfused.tail_bytes == plain.unfused.ram_bytes
    assert front.unfused.tail_bytes >= predict_tail(program_of(model)).total
    best, head_alone = least_ram(front, 1.0), least_ram(plain, 1.0)
    fused = {operator for block in head_alone.blocks for operator in block.operators}
    left = sum(share for index, share in enumerate(graph.tail.operators) if index not in fused)
    assert best.ram_bytes < head_alone.ram_bytes + left
    assert best.tail_bytes < 0.2 * front.unfused.tail_bytes
