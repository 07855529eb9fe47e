from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.graphs import read_graph
from tests.memory.place.brute_force import least_height
from tests.memory.place.placement_graphs import chain, programs, sharing_graphs, without_sharing
from tflite_fuse.errors import PlanError
from tflite_fuse.ir.liveness import peak
from tflite_fuse.ir.program import Overlap, Program, Step, program_of
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.order.least_peak import minimal_peak_order
from tflite_fuse.memory.place.portfolio import place, rounded
from tflite_fuse.model import load_model


def assert_optimal(graph: Program) -> None:
    placement = place(graph)
    check_plan(graph, placement.offsets, height=placement.height)
    assert placement.height == placement.lower_bound == peak(rounded(graph))
    assert placement.optimal


def test_every_shared_model_meets_the_lower_bound(shared_model: Path) -> None:
    assert_optimal(program_of(load_model(shared_model)))


def test_every_shared_graph_meets_the_lower_bound(shared_graph: Path) -> None:
    assert_optimal(read_graph(shared_graph))


def test_optimal_orders_of_every_shared_graph_meet_the_lower_bound(shared_graph: Path) -> None:
    graph = read_graph(shared_graph)
    assert_optimal(graph.reordered(minimal_peak_order(graph).order))


def test_optimal_orders_of_every_shared_model_meet_the_lower_bound(shared_model: Path) -> None:
    graph = program_of(load_model(shared_model))
    assert_optimal(graph.reordered(minimal_peak_order(graph).order))


def test_other_orders_of_every_shared_graph_meet_the_lower_bound(shared_graph: Path) -> None:
    generator = random.Random(0)
    graph = read_graph(shared_graph)
    for _ in range(5):
        assert_optimal(graph.reordered(_random_order(graph, generator)))


def _random_order(graph: Program, generator: random.Random) -> list[int]:
    written, waiting, order = set(graph.inputs), list(range(len(graph.steps))), []
    while waiting:
        ready = [number for number in waiting if written.issuperset(graph.steps[number].inputs)]
        number = generator.choice((ready[0], ready[-1], generator.choice(ready)))
        waiting.remove(number)
        order.append(number)
        written.update(graph.steps[number].outputs)
    return order


def test_a_chain_of_two_thousand_operators_is_placed_optimally() -> None:
    generator = random.Random(1)
    assert_optimal(chain([generator.randrange(1, 5000) for _ in range(2001)]))


@given(programs())
@settings(max_examples=60)
def test_plans_are_valid_and_never_below_the_bound(graph: Program) -> None:
    placement = place(graph)
    check_plan(graph, placement.offsets, height=placement.height)
    assert placement.height >= placement.lower_bound >= peak(rounded(graph))
    assert all(offset == -1 or offset % 16 == 0 for offset in placement.offsets)


@given(programs(most_ops=4, most_bytes=4))
@settings(max_examples=60)
def test_small_plans_are_optimal_and_claimed_so(graph: Program) -> None:
    placement = place(graph, alignment=1)
    assert placement.height == least_height(graph)
    assert placement.optimal
    assert placement.lower_bound == placement.height


@given(sharing_graphs())
@settings(max_examples=60)
def test_plans_that_share_are_valid_and_no_worse(problem: tuple[Program, tuple[Overlap, ...]]) -> None:
    graph, overlaps = problem
    placement = place(graph, overlaps)
    check_plan(graph, placement.offsets, overlaps, height=placement.height)
    assert placement.lower_bound <= placement.height <= place(without_sharing(graph)).height
    assert placement.optimal == (placement.height == placement.lower_bound)


@given(sharing_graphs(most_ops=3, most_bytes=4))
@settings(max_examples=60)
def test_small_plans_that_share_are_optimal_and_claimed_so(problem: tuple[Program, tuple[Overlap, ...]]) -> None:
    graph, overlaps = problem
    placement = place(graph, overlaps, alignment=1)
    check_plan(graph, placement.offsets, overlaps, alignment=1, height=placement.height)
    assert placement.optimal
    assert placement.height == placement.lower_bound == least_height(graph, overlaps)


def test_in_place_reaches_the_smaller_bound() -> None:
    ops = tuple(Step(f"op{i}", (i,), (i + 1,), in_place=((i, i + 1),)) for i in range(3))
    graph = Program((160, 160, 160, 160), ops, (0,), (3,))
    assert place(graph).height == 160
    assert place(without_sharing(graph)).height == 320


def test_an_input_that_is_still_needed_is_not_written_over() -> None:
    ops = (Step("a", (0,), (1,), in_place=((0, 1),)), Step("b", (0, 1), (2,)))
    assert place(Program((160, 160, 16), ops, (0,), (2,))).height == 336
    returned = Program((160, 160), (Step("a", (0,), (1,), in_place=((0, 1),)),), (0,), (0, 1))
    assert place(returned).height == 320


@pytest.mark.parametrize(
    ("distance", "height"), [(0, 320), (16, 336), (17, 352), (160, 480), (400, 480), (-16, 320), (-1000, 320)]
)
def test_a_diagonal_overlap_costs_its_distance(distance: int, height: int) -> None:
    graph = Program((320, 160), (Step("block", (0,), (1,)),), (0,), (1,))
    overlaps = (Overlap(0, 1, distance),)
    placement = place(graph, overlaps)
    check_plan(graph, placement.offsets, overlaps, height=placement.height)
    assert (placement.height, placement.optimal) == (height, True)


def test_diagonal_overlaps_follow_one_another() -> None:
    graph = chain([320, 320, 320, 320])
    overlaps = tuple(Overlap(i, i + 1, 32) for i in range(3))
    placement = place(graph, overlaps)
    check_plan(graph, placement.offsets, overlaps, height=placement.height)
    assert placement.lower_bound == placement.height == 416


def test_overlaps_must_belong_to_an_operator() -> None:
    with pytest.raises(PlanError, match="no operator reads the one and writes the other"):
        place(chain([16, 16, 16]), (Overlap(0, 2, 0),))


def test_residents_and_empty_tensors_have_no_place() -> None:
    ops = (Step("op", (0, 1), (2, 3)),)
    graph = Program((10, 50, 20, 0, 99), ops, (0,), (2,), resident=(1,))
    placement = place(graph)
    assert placement.offsets[1] == placement.offsets[3] == placement.offsets[4] == -1
    assert placement.height == 48


def test_a_graph_without_tensors_needs_nothing() -> None:
    placement = place(Program((), (), (), ()))
    assert (placement.offsets, placement.height, placement.optimal) == ((), 0, True)


@given(programs(), st.integers(0, 3))
@settings(max_examples=20)
def test_the_same_seed_gives_the_same_plan(graph: Program, seed: int) -> None:
    assert place(graph, seed=seed) == place(graph, seed=seed)
