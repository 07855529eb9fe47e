from __future__ import annotations

from tflite_fuse.ir.liveness import covered_bytes, lifetimes, peak, working_sets
from tflite_fuse.ir.program import Program, Step


def op(inputs: tuple[int, ...], outputs: tuple[int, ...], in_place: tuple[tuple[int, int], ...] = ()) -> Step:
    return Step("op", inputs, outputs, in_place=in_place)


def test_a_chain_holds_input_and_output_of_the_running_operator() -> None:
    graph = Program((10, 20, 5), (op((0,), (1,)), op((1,), (2,))), (0,), (2,))
    assert working_sets(graph) == [30, 25]
    assert peak(graph) == 30
    assert lifetimes(graph) == [(-1, 0), (0, 1), (1, 1)]


def test_network_inputs_wait_and_network_outputs_stay() -> None:
    graph = Program((1, 2, 4, 8), (op((0,), (2,)), op((1,), (3,))), (0, 1), (2, 3))
    assert working_sets(graph) == [1 + 2 + 4, 2 + 4 + 8]


def test_an_input_without_readers_counts_before_the_first_operator_only() -> None:
    graph = Program((1, 100, 4), (op((0,), (2,)),), (0, 1), (2,))
    assert working_sets(graph) == [5]
    assert peak(graph) == 101


def test_an_output_without_readers_lives_during_its_operator_only() -> None:
    graph = Program((1, 2, 50, 4), (op((0,), (1, 2)), op((1,), (3,))), (0,), (3,))
    assert working_sets(graph) == [53, 6]


def test_resident_tensors_count_always() -> None:
    graph = Program((1, 2, 4, 7), (op((0,), (1,)), op((1, 3), (2,))), (0,), (2,), resident=(3,))
    assert working_sets(graph) == [10, 13]


def test_a_tensor_read_twice_by_one_operator_counts_once() -> None:
    graph = Program((3, 4), (op((0, 0), (1,)),), (0,), (1,))
    assert working_sets(graph) == [7]


def test_in_place_shares_with_an_input_that_dies() -> None:
    pairs = ((0, 2), (1, 2))
    dies = Program((8, 8, 6), (op((0, 1), (2,), pairs),), (0, 1), (2,))
    assert working_sets(dies, in_place=True) == [16]
    kept = Program((8, 8, 6), (op((0, 1), (2,), pairs),), (0, 1), (2, 0, 1))
    assert working_sets(kept, in_place=True) == [22]


def test_in_place_needs_the_last_reader() -> None:
    ops = (op((0,), (1,), ((0, 1),)), op((0, 1), (2,), ((1, 2),)))
    graph = Program((4, 4, 4), ops, (0,), (2,))
    assert working_sets(graph, in_place=True) == [8, 8]
    assert working_sets(graph) == [8, 12]


def test_a_graph_without_operators() -> None:
    assert peak(Program((9,), (), (0,), (0,))) == 9


def test_overlapping_tensors_are_counted_once() -> None:
    graph = Program((100, 60, 30), (op((0,), (1,)), op((1,), (2,))), (0,), (2,))
    assert covered_bytes(graph, (0, 40, -1)) == [100, 90]
    assert covered_bytes(graph, (0, 64, 0)) == [124, 90]
    assert covered_bytes(graph, (0, 64, 80)) == [124, 60]
    assert covered_bytes(graph, (-1, -1, -1)) == working_sets(graph)
