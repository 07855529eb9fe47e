#!/usr/bin/env python3
"""Results of rewrite on small random networks beside an exhaustive search.

bench_small_networks.py [--count 40] [--first 0]: one line per network, input mode and goal with a better result.
Networks have three to eight operators and branch. For each, all orders of operators are tried, for each order all ways
to cut it into single operators and blocks, for each block all tiles that are not dominated in RAM and work. Candidates
whose estimate is below or slightly above rewrite's result are placed by the same recipe as that result.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.zoo import ModelBuilder, networks
from scripts.zoo.recording import Ref
from tflite_fuse import Goal, LimitError
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.order.by_branch import other_orders
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_main, replace_operators
from tflite_fuse.passes.fusing.candidate import Site
from tflite_fuse.passes.fusing.fuse import Fuse
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.search.cut_graph import CutGraph, Edge
from tflite_fuse.search.fusion_front import searched_cuts
from tflite_fuse.search.paths import Leg
from tflite_fuse.search.paths import Path as Way

NEAR = 1.1
"""Ways are placed whose estimate is below this many times the answer: estimates are up to a tenth too high."""
MOST_ORDERS, MOST_PLACED = 60, 400
"""Orders of operators that are tried, and ways that are placed for each."""
GOALS = {"F = 1": Goal(max_compute=1.0), "least RAM": Goal(least_ram=True)}

Choose = Callable[[int, int], int]


def small_network(choose: Choose) -> Model:
    """Return a network of one of the zoo's families with random sizes."""
    family, seed = choose(0, 4), choose(0, 1 << 16)
    if family == 0:
        return networks.inverted_residual_network(
            8 * choose(1, 5), 4 * choose(1, 4), choose(2, 6), choose(1, 4), choose(2, 10), seed
        )
    if family == 1:
        return networks.one_dimensional_network(
            16 * choose(1, 8), 4 * choose(1, 6), choose(1, 4), 4, bool(choose(0, 1)), seed
        )
    if family == 2:
        return networks.branching_network(8 * choose(1, 4), 4 * choose(1, 4), choose(2, 4), choose(1, 3), seed)
    if family == 3:
        return networks.cell_network(8 * choose(1, 5), 4 * choose(1, 3), choose(1, 2), 4, seed)
    return networks.pyramid_network(16 * choose(1, 4), 4 * choose(1, 3), seed)


def tiny_network(choose: Choose) -> Model:
    """Return three to eight operators on random earlier results; unread results are outputs."""
    b = ModelBuilder(choose(0, 1 << 16))
    side = choose(8, 28)
    tensors: list[Ref] = [b.input((1, side, side, choose(1, 4)))]
    for _ in range(choose(3, 8)):
        x = tensors[-1] if choose(0, 3) else tensors[choose(0, len(tensors) - 1)]
        stride = choose(1, 2) if x.shape[1] >= 4 else 1
        alike = [(p, q) for at, p in enumerate(tensors) for q in tensors[at + 1 :] if p.shape == q.shape]
        beside = [(p, q) for at, p in enumerate(tensors) for q in tensors[at + 1 :] if p.shape[1:3] == q.shape[1:3]]
        kind = choose(0, 9)
        if kind == 0 and alike:
            tensors.append(b.add(*alike[choose(0, len(alike) - 1)]))
        elif kind == 1 and beside:
            tensors.append(b.concat(beside[choose(0, len(beside) - 1)]))
        elif kind == 2 and x.shape[1] >= 4:
            tensors.append(b.max_pool(x, 2, 2))
        elif kind < 5:
            tensors.append(b.depthwise(x, 2 * choose(1, 2) + 1, stride, "SAME", "RELU"))
        else:
            kernel = (1, 3)[choose(0, 1)]
            tensors.append(b.conv(x, 4 * choose(1, 5), kernel, stride if kernel > 1 else 1, activation="RELU"))
    model = b.build([tensors[-1]])
    read = {tensor for operator in model.main.operators for tensor in operator.inputs or ()}
    written = (tensor for operator in model.main.operators for tensor in operator.outputs or ())
    return replace_main(model, replace(model.main, outputs=tuple(tensor for tensor in written if tensor not in read)))


def least_of_all(model: Model, mode: str, goal: Goal, answer: int) -> int:
    """Return the least arena in bytes of all orders and blocks within a goal's compute, at most an answer.

    Args:
        model: a small one.
        mode: where its inputs are.
        goal: limits compute or nothing.
        answer: bytes of the arena that is to be beaten.
    """
    operators, best = model.main.operators, answer
    for order in (tuple(range(len(operators))), *other_orders(program_of(model), MOST_ORDERS)):
        ordered = replace_operators(model, [operators[index] for index in order])
        options = FuseOptions(input_mode=mode, goal=Goal(least_ram=True), passes=("fuse", "plan"))
        try:
            site = Fuse(options).site(ordered)
        except LimitError:
            continue
        best = min(best, _least_of_order(site, goal, best))
    return best


def _least_of_order(site: Site, goal: Goal, best: int) -> int:
    options = replace(site.options, every_block=True, chunks=(1,), most_compute=None)
    cuts, builder = searched_cuts(site.graph, (), options)
    most = None if goal.max_compute is None else int(goal.max_compute * site.own_macs)
    candidates = _paths(cuts.edges, int(NEAR * best), most)
    for way in sorted(candidates, key=lambda way: way.peak + way.tail)[:MOST_PLACED]:
        try:
            placed = site.realise(builder.point(way))
        except BlockError:
            continue
        if most is None or placed.macs <= most:
            best = min(best, placed.arena)
    return best


def _paths(cuts: CutGraph, most_ram: int, most_work: int | None) -> Iterator[Way]:
    """Yield all ways through a cut graph within some bytes and some work."""
    out: list[list[Edge]] = [[] for _ in cuts.into]
    for edge in (edge for into in cuts.into for edge in into):
        out[edge.source].append(edge)
    waiting: list[tuple[int, Way]] = [(0, Way(cuts.start, cuts.tail, 0, ()))]
    while waiting:
        cut, way = waiting.pop()
        if cut == len(cuts.into) - 1:
            yield way
        for edge in out[cut]:
            for option in range(len(edge.options)):
                peak, tail = max(way.peak, int(edge.options.ram[option])), way.tail + edge.tail
                work = way.work + int(edge.options.work[option])
                if peak + tail <= most_ram and (most_work is None or work <= most_work):
                    waiting.append((edge.target, Way(peak, tail, work, (*way.legs, Leg(edge, option)))))


@dataclass(frozen=True)
class Case:
    """One network, input mode and goal: arenas in bytes of rewrite and of everything."""

    mode: str
    goal: str
    answer: int
    least: int


def cases(model: Model) -> Iterator[Case]:
    """Yield the arena of a rewrite and the least arena of a small network, in bytes."""
    data = serialize_model(model)
    model = load_model(data)
    for mode in ("resident", "streamed"):
        for name, goal in GOALS.items():
            try:
                answer = tflite_fuse.rewrite(data, verify=False, goal=goal, input_mode=mode).report.after.arena_bytes
            except LimitError:
                continue
            yield Case(mode, name, answer, least_of_all(model, mode, goal, answer))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="networks to draw")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    options = parser.parse_args()
    print("| seed | input | goal | rewrite | least of all | more |\n|---:|---|---|---:|---:|---:|")
    tried = beaten = 0
    for seed in range(options.first, options.first + options.count):
        for case in cases(tiny_network(Random(seed).randint)):
            tried, beaten = tried + 1, beaten + (case.least < case.answer)
            if case.least < case.answer:
                more = case.answer / case.least - 1
                print(
                    f"| {seed} | {case.mode} | {case.goal} | {case.answer:,} | {case.least:,} | {more:.1%} |",
                    flush=True,
                )
    print(f"\nbeaten: {beaten} of {tried}")


if __name__ == "__main__":
    main()
