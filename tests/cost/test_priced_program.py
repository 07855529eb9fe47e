"""Progress of tensors when others begin a row, against following the windows row by row."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawing.small_graphs import GraphMaker
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.ir.block import StageKind


def come(graph: PricedProgram, layer: int, begins: int, row: int) -> int:
    """Up to which row a layer has come while another begins a row of its own."""
    scale, ahead, limit = (int(each[layer, begins]) for each in graph.row_progress)
    return min(row * scale + ahead, limit)


@settings(max_examples=60)
@given(st.integers(0, 1 << 30))
def test_rows_of_a_chain_are_those_under_its_windows(seed: int) -> None:
    random, maker, tensor = Random(seed), GraphMaker(17, 5, 2), 0
    for _ in range(random.randint(1, 7)):
        kernel = random.randint(1, min(5, maker.tensors[tensor].height))
        tensor = maker.window(tensor, 2, (kernel, 1), (random.randint(1, 2), 1))
    graph = maker.graph()
    for begins, layer in enumerate(graph.steps):
        for row in range(graph.tensors[layer.outputs[0]].height):
            reached = row
            for index in range(begins, -1, -1):
                assert come(graph, index, begins, row) == reached
                window, source = graph.windows[index][0], graph.tensors[graph.steps[index].inputs[0]]
                reached = min(window.end(reached + 1), source.height) - 1


def test_of_two_readers_the_one_further_ahead_counts() -> None:
    maker = GraphMaker(12, 12, 2)
    first = maker.window(0, 2)
    maker.join(StageKind.ADD, first, maker.window(maker.window(first, 2, (3, 3)), 2, (5, 5)))
    graph = maker.graph()
    assert [come(graph, 0, 3, row) for row in (0, 5, 11)] == [3, 8, 11]
    assert [come(graph, 1, 3, row) for row in (0, 5, 11)] == [2, 7, 11]


def test_a_tensor_without_readers_has_no_distance() -> None:
    maker = GraphMaker(8, 8, 2)
    maker.join(StageKind.CONCATENATION, maker.window(0, 2), maker.window(0, 2, (3, 3)))
    assert come(maker.graph(), 0, 1, 7) < 0
