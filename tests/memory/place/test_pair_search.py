from __future__ import annotations

import random

from hypothesis import given, settings

from tests.memory.place.brute_force import least_height
from tests.memory.place.placement_graphs import sharing_graphs
from tflite_fuse.ir.program import Overlap, Program, Step
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.place.fit import Offsets, fit, height
from tflite_fuse.memory.place.pair_search import settle
from tflite_fuse.memory.place.problem import Problem, build_problem


@given(sharing_graphs(most_ops=3, most_bytes=4))
@settings(max_examples=60)
def test_the_least_height_is_found_from_the_worst_placement(problem: tuple[Program, tuple[Overlap, ...]]) -> None:
    graph, overlaps = problem
    items = build_problem(graph, overlaps, alignment=1)
    offsets, proven = settle(items, stacked(items), Budget())
    assert proven
    assert height(items, offsets) == least_height(graph, overlaps)
    assert keeps_rules(items, offsets)


def test_few_decisions_are_enough_where_most_pairs_have_one_way_left() -> None:
    items = build_problem(in_place_graph(seed=2, operators=60), (), alignment=16)
    order = sorted(range(len(items.sizes)), key=lambda item: (-items.sizes[item], item))
    offsets, proven = settle(items, fit(items, order), Budget(), nodes=1_000)
    assert proven
    assert height(items, offsets) == items.lower_bound < height(items, fit(items, order))
    assert keeps_rules(items, offsets)


def test_a_chain_of_decisions_longer_than_the_stack_ends_the_search() -> None:
    items = build_problem(all_alive(40), (), alignment=16)
    offsets, proven = settle(items, stacked(items), Budget(), nodes=5_000)
    assert keeps_rules(items, offsets)
    assert not proven


def stacked(items: Problem) -> Offsets:
    """Every item above all others, with a gap that no placement of least height has."""
    tops = [sum(items.sizes[:item]) + item for item in range(len(items.sizes))]
    return [top + 1 for top in tops]


def keeps_rules(items: Problem, offsets: Offsets) -> bool:
    return not any(
        below < offsets[item] - offsets[other] < above and not (rule.same_start and offsets[item] == offsets[other])
        for item, other, below, above, rule in items.each_pair
    )


def all_alive(operators: int) -> Program:
    """Tensors of different sizes that one operator reads together, and one it writes in place."""
    sizes = tuple(16 * (1 + number % 7) for number in range(operators))
    ops = [Step(f"op{number}", (0,), (number,)) for number in range(1, operators - 1)]
    last = Step("last", tuple(range(operators - 1)), (operators - 1,), in_place=((0, operators - 1),))
    return Program(sizes, (*ops, last), (0,), (operators - 1,))


def in_place_graph(seed: int, operators: int) -> Program:
    """Operators that read one or two of the last ten tensors, half of them in place."""
    generator = random.Random(seed)
    sizes, ops = [generator.randrange(1, 60) * 16], list[Step]()
    for number in range(operators):
        count, oldest = generator.choice((1, 1, 2)), max(0, len(sizes) - 10)
        read = tuple(sorted({generator.randrange(oldest, len(sizes)) for _ in range(count)}))
        sizes.append(generator.randrange(1, 60) * 16)
        in_place = ((read[0], len(sizes) - 1),) if generator.random() < 0.5 else ()
        ops.append(Step(f"op{number}", read, (len(sizes) - 1,), in_place=in_place))
    return Program(tuple(sizes), tuple(ops), (0,), (len(sizes) - 1,))
