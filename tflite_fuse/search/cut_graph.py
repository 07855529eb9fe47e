"""Cuts and the edges between them: what the search of paths works on.

Bytes live at the cuts of a graph, whatever runs between them.

The cut graph: where a model can be cut, and what may stand between two cuts.

Nodes are the places between two operators of the given order, 0 (before the first) to n (after the last). An edge from
a to b runs the operators a … b − 1, as they are or as one fused block, and carries its options: bytes of RAM while it
runs against multiply-accumulates, one pair per configuration worth having. RAM is everything live at cut a (the block's
inputs, residuals held for later, network inputs not yet consumed, outputs already there), plus what the edge leaves
behind, plus the block's scratch. A path from 0 to n is a way to run the model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tflite_fuse.cost.estimate.growing_block import BlockCosts, Pricing
from tflite_fuse.cost.estimate.least_work import work_limit
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.errors import BudgetError, LimitError
from tflite_fuse.ir.axes import IntArray
from tflite_fuse.ir.tail_shares import NO_TAIL, TailShares
from tflite_fuse.memory.budget import tell
from tflite_fuse.model.outside import InputMode
from tflite_fuse.search.schemes import Restriction, Scheme, whole_tile
from tflite_fuse.units import round_up

NEVER = 1 << 60
"""What it takes to reach a cut no path leads to."""


@dataclass(frozen=True)
class Offers:
    """What an edge offers, each field [options], RAM ascending, MACs descending.

    Attributes:
        ram: bytes live while the edge runs.
        work: in the graph's unit.
        scratch: bytes of the block's scratch, 0 for an operator that runs as it is.
        tile_height, tile_width, chunk: the block's configuration, 0 for an operator that runs as it is.
    """

    ram: IntArray
    work: IntArray
    scratch: IntArray
    tile_height: IntArray
    tile_width: IntArray
    chunk: IntArray

    def __len__(self) -> int:
        return len(self.ram)

    def pick(self, indices: IntArray) -> Offers:
        columns = self.ram, self.work, self.scratch, self.tile_height, self.tile_width, self.chunk
        return Offers(*(column[indices] for column in columns))

    def best(self) -> Offers:
        """Those no other is below in both RAM and multiply-accumulates."""
        larger, cheaper = self.ram[1:] > self.ram[:-1], self.work[1:] < self.work[:-1]
        if np.count_nonzero(larger & cheaper) == len(larger):  # Longer runs mostly take more RAM and less work.
            return self
        return self.pick(pareto(self.ram, self.work))


class Span(NamedTuple):
    """The layers ``first … last`` of a graph, or of one order of its operators if there are several."""

    first: int
    last: int
    order: int = 0

    @property
    def length(self) -> int:
        """How many layers these are."""
        return self.last - self.first + 1


@dataclass(frozen=True, eq=False)
class Edge:
    """From cut ``source`` to cut ``target``, as an operator that runs as it is or as one block.

    Attributes:
        options: what it takes.
        fused: whether it is a block.
        span: the layers between.
        tail: bytes it adds to the tail of the arena.
        unbanded: what it takes without bands; None for the same.
    """

    source: int
    target: int
    options: Offers
    fused: bool
    span: Span
    tail: int = 0
    unbanded: Offers | None = None


@dataclass(frozen=True)
class CutGraph:
    """All edges, and what no edge can change.

    Attributes:
        start: bytes live before the first operator (the network's inputs), or what counts as equal to that.
        tail: bytes of the tail.
        into: the edges into each cut, those of cut 0 (none) first.
    """

    start: int
    tail: int
    into: tuple[tuple[Edge, ...], ...]

    @property
    def without_bands(self) -> CutGraph:
        """Return the same without blocks in bands."""
        if not any(edge.unbanded is not None for edges in self.into for edge in edges):
            return self
        into = (
            (edge if edge.unbanded is None else replace(edge, options=edge.unbanded, unbanded=None) for edge in edges)
            for edges in self.into
        )
        return replace(self, into=tuple(tuple(edge for edge in edges if len(edge.options)) for edges in into))

    @cached_property
    def places(self) -> int:
        """Return the cuts on the way of an operator after the other from the first to the last."""
        passed = [1]
        for edges in self.into[1:]:
            passed.append(max((passed[edge.source] + edge.span.length for edge in edges), default=1))
        return passed[-1]

    @cached_property
    def reaches_its_end(self) -> bool:
        """Whether any path leads from the first cut to the last."""
        reached = [True]
        for edges in self.into[1:]:
            reached.append(any(reached[edge.source] for edge in edges))
        return reached[-1]


def least_ram(cuts: CutGraph) -> int:
    """What some path needs: the least peak of any, and of the paths with that peak to every cut the least tail."""
    best = [(cuts.start, cuts.tail)]
    for edges in cuts.into[1:]:
        reached = [(best[edge.source], int(edge.options.ram[0]), edge.tail) for edge in edges]
        best.append(min(((max(peak, ram), tail + more) for (peak, tail), ram, more in reached), default=(NEVER, 0)))
    return sum(best[-1])


def pareto(ram: IntArray, cost: IntArray) -> IntArray:
    """Indices of the pairs no other pair is below in both, RAM ascending; of equal pairs one."""
    order = np.lexsort((cost, ram))
    cheapest = np.minimum.accumulate(cost[order])
    keep = np.ones(len(order), dtype=np.bool_)
    keep[1:] = cost[order][1:] < cheapest[:-1]
    kept: IntArray = order[keep]
    return kept


class Residency:
    """Bytes live at the cuts of a graph, and bytes an edge leaves behind."""

    def __init__(self, graph: PricedProgram, alignment: int) -> None:
        """Args: graph: sizes of its tensors are rounded up to ``alignment`` bytes, as the arena planner does."""
        count = len(graph.steps)
        self.alignment = alignment
        self.start = sum(round_up(graph.sizes[tensor], alignment) for tensor in graph.inputs)
        held = np.zeros(count + 1, dtype=np.int64)
        left = np.zeros((count, count), dtype=np.int64)
        results = np.zeros((count, count), dtype=np.int64)
        for tensor, size in enumerate(graph.sizes):
            producer, end, size = graph.producer[tensor], self._end(graph, tensor), round_up(size, alignment)
            held[producer + 1 : end + 1] += size
            if producer >= 0:
                results[: producer + 1, producer : max(end, producer + 1)] += 1
                left[: producer + 1, producer:end] += size
                left[: producer + 1, producer] += size if end == producer else 0
        self._held: list[int] = held.tolist()
        self._left: list[list[int]] = left.tolist()
        self._results: list[list[int]] = results.tolist()

    @staticmethod
    def _end(graph: PricedProgram, tensor: int) -> int:
        """The last layer a tensor is live at; past the end for network outputs."""
        if tensor in graph.outputs:
            return len(graph.steps)
        readers = graph.consumers[tensor]
        return readers[-1] if readers else graph.producer[tensor]

    def held(self, cut: int) -> int:
        """Bytes of all tensors written before the cut and needed after it."""
        return self._held[cut]

    def left(self, first: int, last: int) -> int:
        """Bytes of the tensors the layers ``first … last`` write that outlive them (or that nothing reads)."""
        return self._left[first][last]

    def results(self, first: int, last: int) -> int:
        """Number of tensors the layers ``first … last`` write that outlive them (or that nothing reads)."""
        return self._results[first][last]

    def outside(self, first: int, last: int) -> int:
        """Bytes live while ``first … last`` run, but for the scratch of a block."""
        return self.held(first) + self.left(first, last)

    def spare(self, first: int, last: int) -> int:
        """Bytes of scratch with which a block needs no more than the network's inputs do before anything runs."""
        return self.start - self.outside(first, last)

    def while_running(self, costs: BlockCosts) -> IntArray:
        """Bytes live while a block runs, under every tiling."""
        scratch = round_up(costs.scratch, self.alignment)
        return self.outside(costs.first, costs.last) + scratch - costs.shared


@dataclass(frozen=True)
class Rules:
    """What counts and what is allowed beside the scheme.

    Attributes:
        chunks: output pixels per step to price blocks with.
        alignment: arena tensors (the blocks' scratch among them) are rounded up to a multiple of this many bytes.
        input_mode: where the network's inputs are.
        moved: the inputs for which that holds, the others being resident; None for all that are no outputs.
        overlap: whether a block may write its output over an input that has no later reader.
        single_operators: whether an operator may be a block of its own.
        count_tail: whether what the runtime keeps for operators and tensors counts.
        most_ram: blocks that surely need more bytes while they run may be left out; None for any.
        most_work: what ways to run the model count at most, to leave out blocks no such way can hold; None for any.
        every_block: whether blocks are there that no point of the front can hold; pricing them takes most of the time.
        floor: working sets of up to so many bytes count as equal, so that among them the tail decides.
    """

    chunks: tuple[int, ...] = (1,)
    alignment: int = 1
    input_mode: InputMode = InputMode.RESIDENT
    moved: frozenset[int] | None = None
    overlap: bool = False
    single_operators: bool = False
    count_tail: bool = False
    most_ram: int | None = None
    most_work: int | None = None
    every_block: bool = True
    floor: int = 0

    def leaving(self, graph: PricedProgram) -> frozenset[int]:
        """The inputs of a graph that need no RAM."""
        if self.input_mode is InputMode.RESIDENT:
            return frozenset()
        return frozenset(graph.inputs) - {*graph.outputs} if self.moved is None else self.moved


@dataclass(frozen=True)
class Cuts:
    """The cut graph of a layer graph.

    Attributes:
        edges: nodes and edges as the module says; ``start`` is at least the rules' floor.
        graph: the layers, inputs that need no RAM counted with 0 bytes.
        residency: bytes live at its cuts.
        pricing: the conditions its blocks were priced under, but for the chunk.
        most: bytes of RAM beyond which blocks were left out, None for none.
    """

    edges: CutGraph
    graph: PricedProgram
    residency: Residency
    pricing: Pricing
    most: int | None


def cut_graph(graph: PricedProgram, restriction: Restriction, rules: Rules = Rules()) -> Cuts:
    """Build the cut graph, with a way to its end.

    Args and raises: as ``some_cuts``; LimitError also where no block can hold all readers of a moved input.
    """
    cuts = some_cuts(graph, restriction, rules)
    require_end(cuts.edges, cuts.graph, restriction.scheme, rules)
    return cuts


def require_end(edges: CutGraph, graph: PricedProgram, scheme: Scheme, rules: Rules) -> None:
    """Raise LimitError where no path leads to the last cut, with the inputs that are in the way."""
    if not edges.reaches_its_end:
        raise LimitError(_why_inside(graph, scheme, rules.input_mode, sorted(rules.leaving(graph))))


def some_cuts(graph: PricedProgram, restriction: Restriction, rules: Rules = Rules()) -> Cuts:
    """Build a cut graph, whether or not a path leads to its end.

    Args:
        graph: operators in the order they will run.
        restriction: which blocks and configurations a scheme allows.
        rules: what counts, and what else is allowed.

    Raises:
        BudgetError: there are more operators, or more work, than is searched.
        LimitError: inputs are to be streamed or external, but an operator that no block can hold reads one.
    """
    _refuse_beyond_budget(graph)
    moved = rules.leaving(graph)
    graph = replace(graph, sizes=tuple(0 if index in moved else size for index, size in enumerate(graph.sizes)))
    residency = Residency(graph, rules.alignment)
    for layer in graph.steps:
        if not layer.fusable and not moved.isdisjoint(layer.inputs):
            name = next(graph.tensors[tensor].name for tensor in layer.inputs if tensor in moved)
            why = f"{layer.name} reads it and cannot be part of a block: {layer.reason}"
            raise LimitError(f"input {name} cannot be {rules.input_mode.value}: {why}")
    pricing = Pricing(
        chunks=rules.chunks,
        streamed=moved if rules.input_mode is InputMode.STREAMED else frozenset(),
        sharing=rules.alignment if rules.overlap else None,
        limit=None if rules.most_work is None or restriction.paired else work_limit(graph, rules.most_work),
        spare=residency.spare,
    )
    edges, most = _Edges(graph, restriction, rules, moved, residency, pricing).all()
    return Cuts(edges, graph, residency, pricing, most)


_NARROW = 3
"""Cuts to either side of a narrow place."""


@dataclass(frozen=True)
class _Edges:
    """What it takes to make the edges; fields as in ``Cuts`` and the arguments of ``cut_graph``."""

    graph: PricedProgram
    restriction: Restriction
    rules: Rules
    moved: frozenset[int]
    residency: Residency
    pricing: Pricing

    def all(self) -> tuple[CutGraph, int | None]:
        """Return the cut graph, and the bytes of RAM beyond which blocks were left out."""
        allowed, most = self._allowed(), self.rules.most_ram
        some = not self.rules.every_block and self.restriction.scheme is Scheme.AUTO
        if some and work_limit(self.graph, self.graph.work).spare == 0:
            # No path computes less than one without recompute does; with more RAM than such a one none is on the front.
            enough = self._enough(allowed)
            most = enough if most is None else min(most, enough)
        return self._cuts([self._blocks(last, firsts, most) for last, firsts in enumerate(allowed)]), most

    def _cuts(self, blocks: Sequence[Iterable[Edge]]) -> CutGraph:
        """Blocks by their last layer, and the operators as they are."""
        start, tail = max(self.residency.start, self.rules.floor), self._tail
        into: list[tuple[Edge, ...]] = [()]
        for index, made in enumerate(blocks):
            into.append(tuple(sorted((*self._as_it_is(index), *made), key=_nearest_first)))
            tell("operators searched", index + 1, len(blocks))
        return CutGraph(start, tail.fixed, tuple(into))

    @property
    def _tail(self) -> TailShares:
        return self.graph.tail if self.rules.count_tail else NO_TAIL

    def _as_it_is(self, index: int) -> Iterator[Edge]:
        """The operator at an index by itself, unless it reads what is not there."""
        layer, nothing = self.graph.steps[index], np.zeros(1, dtype=np.int64)
        if self.moved.isdisjoint(layer.inputs) and not layer.only_in_blocks:
            needs = np.array([self.residency.outside(index, index)]), np.array([layer.work])
            options = Offers(*needs, *(nothing,) * 4)
            yield Edge(index, index + 1, options, False, Span(index, index), self._tail.of_operator(index))

    def _blocks(self, last: int, firsts: Collection[int], most: int | None, whole: bool = False) -> Iterator[Edge]:
        """The blocks from some layers to ``last``, those left out that surely need more than ``most`` bytes.

        Args:
            whole: in one tile alone.
        """
        if not firsts:
            return
        paired = len(self.rules.chunks) if self.restriction.paired else 0
        sizes, pricing = self.restriction.tile_sizes, self.pricing
        if whole:
            sizes, pricing = whole_tile, replace(pricing, limit=None)
        rooms = None if most is None else {first: most - self._beside(first, last) for first in firsts}
        for costs in self.restriction.prices(self.graph, last, sizes, pricing, firsts if rooms is None else rooms):
            options, unbanded = self._offered(costs, paired)
            if len(options):
                tail = self._tail.of_block(self.residency.results(costs.first, last))
                yield Edge(costs.first, last + 1, options, True, Span(costs.first, last), tail, unbanded)

    def _offered(self, costs: BlockCosts, paired: int) -> tuple[Offers, Offers | None]:
        """Return what a block takes, and what it takes without bands unless that is the same."""
        most, whole = most_work(len(self.graph.steps)), costs.tile_height >= self.graph.tensors[costs.driven].height
        options = _block_options(costs, self.residency, paired, most)
        if self.restriction.scheme is not Scheme.AUTO or whole.all():
            return options, None
        return options, _block_options(costs._replace(usable=costs.usable & whole), self.residency, paired, most)

    def _beside(self, first: int, last: int) -> int:
        """Bytes that are needed beside a block's scratch at least: where that may lie over inputs, what outlives it."""
        held, left = self.residency.held(first), self.residency.left(first, last)
        if self.pricing.sharing is None:
            return self._tail.fixed + held + left
        if first <= self._last_reader:
            held = self.residency.held(last + 1)
        return self._tail.fixed + max(held, left)

    @cached_property
    def _last_reader(self) -> int:
        """The last layer that reads one of the network's inputs in the arena."""
        graph = self.graph
        return max(
            (reader for each in graph.inputs if graph.sizes[each] for reader in graph.consumers[each]), default=-1
        )

    def _allowed(self) -> list[Collection[int]]:
        """For each layer where the blocks may begin that end there."""
        graph, count = self.graph, len(self.graph.steps)
        found: list[Collection[int]] = []
        for last, layer in enumerate(graph.steps):
            alone = self.rules.single_operators or layer.only_in_blocks or not self.moved.isdisjoint(layer.inputs)
            firsts = range(max(0, last + 1 - longest_block(count)), 0 if layer.absorbed else last + alone)
            allows = self.restriction.allows
            found.append([first for first in firsts if first not in graph.behind_padding and allows(first, last)])
        return found

    def _enough(self, allowed: Sequence[Collection[int]]) -> int:
        """The least RAM of the paths over narrow places alone, without recompute: where less is live than around."""
        held = [self.residency.held(cut) for cut in range(len(allowed) + 1)]
        around = [min(held[max(0, cut - _NARROW) : cut + _NARROW + 1]) for cut in range(len(held))]
        narrow = {cut for cut in range(1, len(allowed)) if held[cut] == around[cut] < held[cut - 1]} | {0, len(allowed)}
        blocks = [
            self._blocks(last, narrow.intersection(firsts), None, whole=True) if last + 1 in narrow else ()
            for last, firsts in enumerate(allowed)
        ]
        return least_ram(self._cuts(blocks))


def _nearest_first(edge: Edge) -> int:
    return -edge.source


MOST_LAYERS = 1000
"""Operators of a model that blocks are searched for: memory grows with the square."""
_MOST_STEPS = 60_000
_SHORTEST_LIMIT = 32


def longest_block(layers: int) -> int:
    """Operators a block may have at most, views and PADs included: what is priced in all must not grow with the square.

    No limit up to 245 operators, where every range of them can be priced.
    """
    return max(_SHORTEST_LIMIT, _MOST_STEPS // max(layers, 1))


def most_work(layers: int) -> int:
    """What one operator or block may count: paths of as many, ranked by two more counts, add up to 64 bits."""
    return int(2**62 // (layers + 1) ** 3)


def _refuse_beyond_budget(graph: PricedProgram) -> None:
    count = len(graph.steps)
    if count > MOST_LAYERS:
        raise BudgetError(f"blocks are searched for models of up to {MOST_LAYERS:,} operators, not of {count:,}")
    for layer in graph.steps:
        if layer.work > most_work(count):
            raise BudgetError(f"{layer.name} takes {layer.work:,} steps, more than can be weighed")


def _why_inside(graph: PricedProgram, scheme: Scheme, mode: InputMode, moved: Sequence[int]) -> str:
    """Why no way to run the model leaves these inputs out of the arena."""
    names = ", ".join(graph.tensors[tensor].name for tensor in moved)
    readers = sorted({reader for tensor in moved for reader in graph.consumers[tensor]})
    what, which = ("inputs", "one") if len(moved) > 1 else ("input", "it")
    return (
        f"{what} {names} cannot be {mode.value} with the scheme {scheme.value}: no block holds all operators that read "
        f"{which}, {', '.join(graph.steps[index].name for index in readers)}"
        + ("" if scheme is Scheme.AUTO else "; try the scheme auto")
    )


def _block_options(costs: BlockCosts, residency: Residency, paired: int, most: int) -> Offers:
    """Args: paired: for how many chunks each height goes with one width alone, 0 if with all; most: work."""
    configurations = costs.tile_height, costs.tile_width, costs.chunk
    everything = Offers(residency.while_running(costs), costs.work, costs.scratch, *configurations)
    usable = costs.usable if int(costs.work.max()) <= most else costs.usable & (costs.work <= most)
    if paired:
        pairs = np.eye(math.isqrt(len(usable) // paired), dtype=np.bool_)
        usable = usable & np.tile(pairs.ravel(), paired)
    if not usable.all():
        everything = everything.pick(np.flatnonzero(usable))
    return everything.best()
