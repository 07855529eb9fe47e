#!/usr/bin/env python3
"""Small random networks: what rewrite finds next to what plain line buffers reach by trying cuts one by one.

bench_small_networks.py [--count 120] [--first 0]: one line per seed. ``plain`` is the least arena of blocks over the
full width that a hill climb over the places to cut finds, every step of it placed by the same recipe as a rewrite's
candidates. ``F = 1`` is what --max-compute 1 gives, ``default`` what no goal gives: that may take up to 1/24 of the
arena, at least 512 bytes, more for fewer predicted instructions, so plain blocks get runs as long as its longest. Where
these need less all the same, both are asked for their instructions: the default is beaten by what is smaller and not
slower.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.zoo import networks
from tflite_fuse import Goal
from tflite_fuse.cost.estimate.block_costs import driven_tensor, price_block
from tflite_fuse.cost.estimate.growing_block import Pricing
from tflite_fuse.cost.instructions import LONGEST, Target, block_instructions, in_instructions
from tflite_fuse.emit.in_model import block_overlaps, blocks_in
from tflite_fuse.emit.insert_blocks import InsertedBlock, insert_blocks
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockChoice, BlockConfig
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.arena import realise
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.passes.reorder import Reorder
from tflite_fuse.search.cut_graph import Residency
from tflite_fuse.search.from_model import graph_from_model

NEVER = 1 << 60
SLACK = 1.1
"""Cuts are placed if their estimate is below this many times the least arena so far."""
MOST_PLACED = 60
"""Ways to cut that are placed for one network."""

Choose = Callable[[int, int], int]
Segment = tuple[int, int, bool]
"""First and last operator, and whether they are a block."""
Cuts = tuple[Segment, ...]


def small_network(choose: Choose) -> Model:
    """A network of one of the zoo's families, all its sizes drawn."""
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


def needed(model: Model) -> int:
    """The arena of a model as the recipe gives it, the moment of loading included."""
    arena = realise(program_of(model), block_overlaps(model))
    return arena.needed


@dataclass(frozen=True)
class Plain:
    """The least arena found, the blocks that reach it, as (first, last) operator, and their predicted instructions."""

    arena: int
    blocks: tuple[tuple[int, int], ...]
    instructions: int


class PlainCuts:
    """Blocks over the full width of a model's operators in their order."""

    def __init__(self, model: Model, chunk: int = 1) -> None:
        self.model, self.chunk = model, chunk
        self.graph = graph_from_model(model)
        self.residency = Residency(self.graph, 16)
        self.priced: dict[tuple[int, int], tuple[BlockChoice, int] | None] = {}
        self.placed: dict[Cuts, int] = {}

    def search(self) -> Plain:
        """Climbs from no blocks and from the longest ones."""
        count = len(self.graph.steps)
        longest: list[Segment] = []
        while (first := longest[-1][1] + 1 if longest else 0) < count:
            last = next((last for last in range(count - 1, first, -1) if self.block(first, last)), first)
            longest.append((first, last, self.block(first, last) is not None))
        starts: list[Cuts] = [tuple((index, index, False) for index in range(count)), tuple(longest)]
        best = min(map(self.climb, starts), key=lambda found: found[0])
        blocks = tuple((first, last) for first, last, fused in best[1] if fused)
        return Plain(best[0], blocks, self.instructions(best[1]))

    def climb(self, cuts: Cuts) -> tuple[int, Cuts]:
        """The least arena that single moves lead to."""
        best, moved = self.arena(cuts), True
        while moved:
            moved = False
            for other in sorted(self.moves(cuts), key=self.estimate):
                if self.estimate(other) > SLACK * best or len(self.placed) >= MOST_PLACED:
                    break
                if self.arena(other) < best:
                    best, cuts, moved = self.arena(other), other, True
                    break
        return best, cuts

    def moves(self, cuts: Cuts) -> Iterator[Cuts]:
        """Block or not, split, joined with the next, or the cut between the two elsewhere."""
        for at, (first, last, fused) in enumerate(cuts):
            before, behind = cuts[:at], cuts[at + 1 :]
            if first == last and (fused or self.block(first, last)):
                yield (*before, (first, last, not fused), *behind)
            for cut in range(first, last):
                yield (*before, self.segment(first, cut), self.segment(cut + 1, last), *behind)
            if behind:
                end = behind[0][1]
                if self.block(first, end):
                    yield (*before, (first, end, True), *behind[1:])
                for cut in range(first, end):
                    yield (*before, self.segment(first, cut), self.segment(cut + 1, end), *behind[1:])

    def segment(self, first: int, last: int) -> Segment:
        return first, last, first < last or self.block(first, last) is not None

    def block(self, first: int, last: int) -> tuple[BlockChoice, int] | None:
        """A block and the bytes live while it runs, or None where these operators are none."""
        if (first, last) not in self.priced:
            self.priced[first, last] = self._price(first, last)
        return self.priced[first, last]

    def _price(self, first: int, last: int) -> tuple[BlockChoice, int] | None:
        try:
            driven = self.graph.tensors[driven_tensor(self.graph, first, last)]
            config = BlockConfig(driven.height, driven.width, self.chunk)
            costs = price_block(self.graph, first, last, config, Pricing(sharing=16))
        except BlockError:
            return None
        choice = BlockChoice(tuple(range(first, last + 1)), config, 0, 0, 0, "line-buffers")
        return (choice, int(self.residency.while_running(costs)[0])) if costs.usable[0] else None

    def estimate(self, cuts: Cuts) -> int:
        """What working sets and shares of the tail come to."""
        peak, tail = self.residency.start, self.graph.tail.fixed
        for first, last, fused in cuts:
            block = self.block(first, last) if fused else None
            if block is None and first < last:
                return NEVER
            peak = max(peak, self.residency.outside(first, last) if block is None else block[1])
            results = self.residency.results(first, last)
            tail += self.graph.tail.of_operator(first) if block is None else self.graph.tail.of_block(results)
        return peak + tail

    def arena(self, cuts: Cuts) -> int:
        """What the blocks really need, in this order of operators or in that of least peak."""
        if cuts not in self.placed:
            self.placed[cuts] = self._place(cuts)
        return self.placed[cuts]

    def instructions(self, cuts: Cuts) -> int:
        """What the blocks are predicted to take on a generic core, operators outside as if the library ran them."""
        _, inserted = self._insert(cuts)
        blocks = block_instructions([(each.plan.block, each.plan.schedule) for each in inserted], Target.GENERIC)
        inside = {operator for each in inserted for operator in each.choice.operators}
        alone = in_instructions(self.graph, Target.GENERIC, LONGEST).steps
        return blocks + sum(layer.work for index, layer in enumerate(alone) if index not in inside)

    def _insert(self, cuts: Cuts) -> tuple[Model, tuple[InsertedBlock, ...]]:
        """Raises BlockError: operators are no block."""
        chosen = [self.block(first, last) for first, last, fused in cuts if fused]
        if None in chosen:
            raise BlockError("These operators are no block.")
        return insert_blocks(self.model, [block[0] for block in chosen if block is not None])

    def _place(self, cuts: Cuts) -> int:
        try:
            fused, _ = self._insert(cuts)
        except BlockError:
            return NEVER
        reordered = Reorder().run(fused)
        return min(needed(model) for model in ([fused, reordered.model] if reordered.changed else [fused]))


def plain_cuts(model: Model, chunk: int = 1) -> Plain:
    """The least of plain line buffers, in the file's order of operators and in that of least peak."""
    reordered = Reorder().run(model)
    orders = [model, reordered.model] if reordered.changed else [model]
    return min((PlainCuts(each, chunk).search() for each in orders), key=lambda found: found.arena)


@dataclass(frozen=True)
class Row:
    """One network: arenas in bytes, and what the default is predicted to take."""

    operators: int
    default: int
    default_instructions: int
    one: int
    plain: Plain
    plain_as_long: Plain

    @property
    def beaten(self) -> bool:
        """Whether plain line buffers need less than --max-compute 1 finds."""
        return self.plain.arena < self.one

    @property
    def default_beaten(self) -> bool:
        """Whether they need less than no goal gives, with runs as long, and take no more instructions."""
        return self.default_larger and self.plain_as_long.instructions <= self.default_instructions

    @property
    def default_larger(self) -> bool:
        """Whether they need less than no goal gives, with runs as long."""
        return self.plain_as_long.arena < self.default


def compare(model: Model) -> Row:
    """Everything about one network."""
    data = serialize_model(model)
    model = load_model(data)
    default = tflite_fuse.rewrite(data, verify=False)
    one = tflite_fuse.rewrite(data, verify=False, goal=Goal(max_compute=1.0))
    blocks = blocks_in(load_model(default.model)).values()
    chunk = max((block.config.chunk for block in blocks), default=1)
    plain = plain_cuts(model)
    as_long = plain if chunk == 1 else plain_cuts(model, chunk)
    least, whole = needed(load_model(one.model)), needed(load_model(default.model))
    predicted = default.report.prediction
    instructions = plain.instructions if predicted is None else predicted.instructions
    return Row(len(model.main.operators), whole, instructions, least, plain, as_long)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=120, help="networks to draw")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    options = parser.parse_args()
    print("| seed | operators | default | plain, runs as long | F = 1 | plain | |")
    print("|---:|---:|---:|---:|---:|---:|---|")
    rows = []
    for seed in range(options.first, options.first + options.count):
        row = compare(small_network(Random(seed).randint))
        rows.append(row)
        figures = (row.default, row.plain_as_long.arena, row.one, row.plain.arena)
        print(
            f"| {seed} | {row.operators} | {' | '.join(f'{each:,}' for each in figures)} | {_said(row)} |", flush=True
        )
    beaten, larger = sum(row.default_beaten for row in rows), sum(row.default_larger for row in rows)
    print(f"\nbeaten: {sum(row.beaten for row in rows)} of {len(rows)} at F = 1")
    print(f"without a goal: {beaten} by what is smaller and not slower, {larger - beaten} smaller but slower")


def _said(row: Row) -> str:
    said = ["beaten"] * row.beaten + ["default beaten"] * row.default_beaten
    if row.default_larger and not row.default_beaten:
        said.append(f"plain takes {row.plain_as_long.instructions / row.default_instructions:.2f} times as long")
    return ", ".join(said)


if __name__ == "__main__":
    main()
