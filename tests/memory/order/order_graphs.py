"""Graphs for the tests of the operator order, and a slow reference result."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from hypothesis import strategies as st

from tflite_fuse.ir.liveness import peak
from tflite_fuse.ir.program import Program, Step

SHARED = Path(__file__).resolve().parents[4] / "shared"


def chain(count: int, seed: int = 0) -> Program:
    """Operators in a row."""
    return branches(1, count - 1, seed)


def branches(count: int, length: int, seed: int = 0, sizes: tuple[int, ...] | None = None) -> Program:
    """Parallel chains from one input, joined by a last operator."""
    generator = random.Random(seed)
    drawn = [generator.randrange(1, 1000) for _ in range(count * length + 2)]
    if sizes is not None:
        drawn = [sizes[0], *[sizes[1 + i % length] for i in range(count * length)], sizes[-1]]
    ops = []
    ends = []
    for branch in range(count):
        last = 0
        for step in range(length):
            made = 1 + branch * length + step
            ops.append(Step(f"op_{branch}_{step}", (last,), (made,)))
            last = made
        ends.append(last)
    ops.append(Step("join", tuple(ends), (len(drawn) - 1,)))
    return Program(tuple(drawn), tuple(ops), (0,), (len(drawn) - 1,))


@st.composite
def small_graphs(draw: st.DrawFn, most_ops: int = 6, in_place: bool = False) -> Program:
    """Any shape of graph: several outputs, unread ones, order flags, rewritten and resident tensors, shared inputs."""
    size = st.one_of(st.integers(0, 9), st.integers(0, 60))
    sizes = [draw(size) for _ in range(draw(st.integers(1, 3)))]
    inputs = tuple(range(len(sizes)))
    resident = draw(st.sampled_from([(), (), (), (len(sizes),)]))
    sizes += [draw(size) for _ in resident]
    written = [*inputs, *resident]
    ops: list[Step] = []
    for index in range(draw(st.integers(1, most_ops))):
        reads = tuple(draw(st.lists(st.sampled_from(written), max_size=3)))
        made = tuple(range(len(sizes), len(sizes) + draw(st.sampled_from([1, 1, 1, 2, 3]))))
        sizes += [draw(size) for _ in made]
        again = tuple(draw(st.lists(st.sampled_from(written), max_size=1)) if draw(st.integers(0, 19)) == 0 else ())
        pairs = [(a, b) for a in dict.fromkeys(reads) for b in made] if in_place else []
        chosen = tuple(pair for pair in pairs if draw(st.booleans()))
        ops.append(Step(f"op_{index}", reads, made + again, draw(st.integers(0, 5)) == 0, chosen))
        written += made
    outputs = draw(st.lists(st.sampled_from(written), unique=True, max_size=3))
    return Program(tuple(sizes), tuple(ops), inputs, tuple(outputs), resident)


def must_precede(graph: Program) -> list[set[int]]:
    """For each operator those that have to run before it, straight from the definition."""
    before: list[set[int]] = [set() for _ in graph.steps]
    writes: list[int] = [tensor for op in graph.steps for tensor in set(op.outputs)]
    kept_in_order = {t for t in writes if writes.count(t) > 1 or t in graph.inputs} | set(graph.resident)
    for late, second in enumerate(graph.steps):
        for early, first in enumerate(graph.steps[:late]):
            touch_both = {*first.inputs, *first.outputs} & {*second.inputs, *second.outputs}
            if (
                set(first.outputs) & set(second.inputs)
                or touch_both & kept_in_order
                or (first.ordered and second.ordered)
            ):
                before[late].add(early)
    return before


def all_orders(graph: Program) -> Iterator[tuple[int, ...]]:
    """Every topological order."""
    before = must_precede(graph)
    unfinished: list[tuple[int, ...]] = [()]
    while unfinished:
        order = unfinished.pop()
        if len(order) == len(graph.steps):
            yield order
        for op in range(len(graph.steps)):
            if op not in order and before[op] <= set(order):
                unfinished.append((*order, op))


def least_peak(graph: Program, *, in_place: bool = False) -> int:
    """The least peak over all orders, by trying them."""
    return min(peak(graph.reordered(order), in_place=in_place) for order in all_orders(graph))


def is_valid(graph: Program, order: tuple[int, ...]) -> bool:
    """Whether an order runs every operator once, after those that must precede it."""
    place = {op: index for index, op in enumerate(order)}
    complete = sorted(order) == list(range(len(graph.steps)))
    return complete and all(place[a] < place[b] for b, before in enumerate(must_precede(graph)) for a in before)


@st.composite
def twin_graphs(draw: st.DrawFn) -> Program:
    """Copies of a short chain between two operators, interleaved at random, and something else beside them."""
    size = st.integers(0, 30)
    copies, length = draw(st.sampled_from([(2, 1), (2, 2), (3, 1), (3, 2), (2, 3)]))
    sizes = [draw(size)]
    splits = draw(st.booleans())
    heads = [0] * copies
    ops: list[Step] = []
    if splits:
        part = draw(size)
        heads = list(range(1, 1 + copies))
        sizes += [part] * copies
        ops.append(Step("split", (0,), tuple(heads)))
    steps = [(draw(size), draw(st.integers(0, 20)), draw(st.booleans())) for _ in range(length)]
    turns = draw(st.permutations([copy for copy in range(copies) for _ in range(length)]))
    done = [0] * copies
    odd_copy = draw(st.sampled_from([-1, -1, 0]))
    for copy in turns:
        made, scratch, in_place = steps[done[copy]]
        sizes += [made + (copy == odd_copy), scratch]
        output = len(sizes) - 2
        pairs = ((heads[copy], output),) if in_place else ()
        ops.append(Step(f"copy_{copy}_{done[copy]}", (heads[copy],), (output, output + 1), in_place=pairs))
        heads[copy] = output
        done[copy] += 1
    joined = draw(st.integers(1, copies))
    sizes += [draw(size), draw(size)]
    ops.append(Step("join", tuple(heads[:joined]), (len(sizes) - 2,)))
    ops.append(Step("other", (draw(st.sampled_from([0, *heads])),), (len(sizes) - 1,)))
    outputs = tuple(draw(st.lists(st.sampled_from([len(sizes) - 2, len(sizes) - 1, *heads]), unique=True)))
    return Program(tuple(sizes), tuple(ops), (0,), outputs)


def least_peak_by_sets(graph: Program) -> int:
    """The least peak by going through every set of operators that can have run; plain graphs only."""
    before = must_precede(graph)
    readers = {t: {i for i, op in enumerate(graph.steps) if t in op.inputs} for t in range(len(graph.sizes))}
    reached: dict[frozenset[int], int] = {frozenset(): 0}
    for _ in graph.steps:
        following: dict[frozenset[int], int] = {}
        for done, so_far in reached.items():
            made = {*graph.inputs, *(t for op in done for t in graph.steps[op].outputs)}
            live = {t for t in made if t in graph.outputs or not readers[t] <= done}
            for op in range(len(graph.steps)):
                if op not in done and before[op] <= done:
                    needed = sum(graph.sizes[t] for t in live.union(graph.steps[op].outputs))
                    after = done | {op}
                    following[after] = min(following.get(after, needed + so_far), max(so_far, needed))
        reached = following
    (least,) = reached.values()
    return max(least, peak(Program(graph.sizes, (), graph.inputs, ())))
