"""The cut graph: places where a model can be cut, and the operators and blocks between two cuts.

Nodes are the places between two operators of the given order, 0 (before the first) to n (after the last). An edge from
a to b runs the operators a … b − 1, as one operator or as one fused block. Its options are pairs of RAM while it runs
and work, one for each configuration on its front. RAM is the bytes live at cut a (the block's inputs, residuals held
for later, network inputs not yet consumed, outputs already written), plus the outputs of the edge that outlive it, plus
the block's scratch. A path from 0 to n is one execution of the model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tflite_fuse.cost.estimate.block_costs import block_costs
from tflite_fuse.cost.estimate.growing_block import BlockCosts, Pricing, TileSizes
from tflite_fuse.cost.estimate.least_work import work_limit
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.errors import BudgetError, LimitError
from tflite_fuse.ir.axes import IntArray
from tflite_fuse.ir.tail_shares import NO_TAIL, TailShares
from tflite_fuse.memory.budget import report_progress
from tflite_fuse.model.outside import InputMode
from tflite_fuse.search.schemes import Restriction, Scheme, whole_tile
from tflite_fuse.units import round_up

NEVER = 1 << 60
"""Cost of a cut that no path reaches."""


@dataclass(frozen=True)
class EdgeOptions:
    """Options of an edge, each field [options], RAM ascending, work descending.

    Attributes:
        ram: bytes live while the edge runs.
        work: in the graph's unit.
        scratch: bytes of the block's scratch, 0 for an operator.
        tile_height, tile_width, chunk: the block's configuration, 0 for an operator.
    """

    ram: IntArray
    work: IntArray
    scratch: IntArray
    tile_height: IntArray
    tile_width: IntArray
    chunk: IntArray

    def __len__(self) -> int:
        return len(self.ram)

    def pick(self, indices: IntArray) -> EdgeOptions:
        columns = self.ram, self.work, self.scratch, self.tile_height, self.tile_width, self.chunk
        return EdgeOptions(*(column[indices] for column in columns))

    def undominated(self) -> EdgeOptions:
        """Return the options that no other option dominates in RAM and work."""
        larger, cheaper = self.ram[1:] > self.ram[:-1], self.work[1:] < self.work[:-1]
        if np.count_nonzero(larger & cheaper) == len(larger):  # usually longer runs take more RAM and less work
            return self
        return self.pick(pareto(self.ram, self.work))


class Span(NamedTuple):
    """The layers ``first … last`` of a graph, or of one of several orders of its operators."""

    first: int
    last: int
    order: int = 0

    @property
    def length(self) -> int:
        """Return the number of layers."""
        return self.last - self.first + 1


@dataclass(frozen=True, eq=False)
class Edge:
    """An operator or block from cut ``source`` to cut ``target``.

    Attributes:
        options: RAM and work of its configurations.
        fused: whether it is a block.
        span: the layers between.
        tail: bytes that it adds to the tail of the arena.
    """

    source: int
    target: int
    options: EdgeOptions
    fused: bool
    span: Span
    tail: int = 0


@dataclass(frozen=True)
class CutGraph:
    """All edges, and the constant parts of RAM.

    Attributes:
        start: bytes live before the first operator (the network's inputs).
        tail: bytes of the tail without edges.
        into: the edges into each cut, those of cut 0 (none) first.
    """

    start: int
    tail: int
    into: tuple[tuple[Edge, ...], ...]

    @cached_property
    def most_cuts(self) -> int:
        """Number of cuts on the longest path, operator by operator."""
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
    """Return the least peak of any path plus the least tail among the paths with that peak to every cut, in bytes."""
    best = [(cuts.start, cuts.tail)]
    for edges in cuts.into[1:]:
        reached = [(best[edge.source], int(edge.options.ram[0]), edge.tail) for edge in edges]
        best.append(min(((max(peak, ram), tail + more) for (peak, tail), ram, more in reached), default=(NEVER, 0)))
    return sum(best[-1])


def pareto(ram: IntArray, cost: IntArray) -> IntArray:
    """Return the indices of the pairs that no other pair dominates, RAM ascending; of equal pairs one."""
    order = np.lexsort((cost, ram))
    cheapest = np.minimum.accumulate(cost[order])
    keep = np.ones(len(order), dtype=np.bool_)
    keep[1:] = cost[order][1:] < cheapest[:-1]
    kept: IntArray = order[keep]
    return kept


class Residency:
    """Bytes live at the cuts of a graph, and bytes of an edge's outputs that outlive it."""

    def __init__(self, graph: PricedProgram, alignment: int) -> None:
        """Count a graph's tensors, rounded up to ``alignment`` bytes as in the arena planner."""
        count = len(graph.steps)
        self.alignment = alignment
        self.start = sum(round_up(graph.sizes[tensor], alignment) for tensor in graph.inputs)
        live = np.zeros(count + 1, dtype=np.int64)
        outliving = np.zeros((count, count), dtype=np.int64)
        results = np.zeros((count, count), dtype=np.int64)
        for tensor, size in enumerate(graph.sizes):
            producer, end, size = graph.producer[tensor], self._end(graph, tensor), round_up(size, alignment)
            live[producer + 1 : end + 1] += size
            if producer >= 0:
                results[: producer + 1, producer : max(end, producer + 1)] += 1
                outliving[: producer + 1, producer:end] += size
                outliving[: producer + 1, producer] += size if end == producer else 0
        self._live, self._outliving = live, outliving
        self._outside: list[list[int]] = (live[:-1, None] + outliving).tolist()
        self._results: list[list[int]] = results.tolist()

    @staticmethod
    def _end(graph: PricedProgram, tensor: int) -> int:
        """Return the last layer at which a tensor is live; past the end for network outputs."""
        if tensor in graph.outputs:
            return len(graph.steps)
        readers = graph.consumers[tensor]
        return readers[-1] if readers else graph.producer[tensor]

    def live_at(self, cut: int) -> int:
        """Return the bytes of all tensors written before the cut and needed after it."""
        return int(self._live[cut])

    def outliving(self, first: int, last: int) -> int:
        """Return the bytes of tensors written by the layers ``first … last`` that outlive them or have no reader."""
        return int(self._outliving[first, last])

    def results(self, first: int, last: int) -> int:
        """Return the number of tensors written by the layers ``first … last`` that outlive them or have no reader."""
        return self._results[first][last]

    def outside(self, first: int, last: int) -> int:
        """Return the bytes live while ``first … last`` run, without the scratch of a block."""
        return self._outside[first][last]

    def free_scratch(self, first: int, last: int) -> int:
        """Return the bytes of scratch with which a block needs no more than the network's inputs at the start."""
        return self.start - self.outside(first, last)

    def least_besides_scratch(self, last: int, shares: bool, last_reader: int) -> IntArray:
        """Return the bytes needed at least besides the scratch of blocks that end at ``last``, by first layer.

        Args:
            last: the last layer.
            shares: whether outputs and scratch may lie over inputs.
            last_reader: last layer that reads a network input, over which scratch may lie.
        """
        live, outliving = self._live[: last + 1], self._outliving[: last + 1, last]
        if not shares:
            return live + outliving
        live = np.where(np.arange(last + 1) <= last_reader, self._live[last + 1], live)
        return np.maximum(live, outliving)

    def while_running(self, costs: BlockCosts) -> IntArray:
        """Return the bytes live while a block runs, under every tiling."""
        scratch = round_up(costs.scratch, self.alignment)
        return self.outside(costs.first, costs.last) + scratch - costs.shared


@dataclass(frozen=True)
class Rules:
    """Accounting and permissions of the search, besides the scheme.

    Attributes:
        chunks: output pixels per step with which blocks are priced.
        alignment: arena tensors, blocks' scratch included, are rounded up to a multiple of this many bytes.
        input_mode: place of the network's inputs.
        moved: inputs in that mode, the others being resident; None for all that are no outputs.
        overlap: whether a block may write its output over an input without later readers.
        single_operators: whether a single operator may be a block.
        count_tail: whether persistent data of operators and tensors counts.
        most_ram: blocks that certainly need more bytes while they run, and paths with them, may be skipped; None for no
            limit.
        most_work: largest work of a model's path, to skip blocks on no such path; None for no limit.
        every_block: whether blocks on no point of the front are included; pricing them takes most of the time.
        slow: tensors that lie in the slow memory wherever they pass from block to block.
        traffic: price of a byte read from the slow memory and of one written to it, in the graph's unit of work.
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
    slow: frozenset[int] = frozenset()
    traffic: tuple[float, float] = (1.0, 1.0)

    def leaving(self, graph: PricedProgram) -> frozenset[int]:
        """Return the inputs of a graph that need no RAM."""
        if self.input_mode is InputMode.RESIDENT:
            return frozenset()
        return frozenset(graph.inputs) - {*graph.outputs} if self.moved is None else self.moved


@dataclass(frozen=True)
class Cuts:
    """The cut graph of a layer graph.

    Attributes:
        edges: nodes and edges.
        graph: the layers; inputs that need no RAM have 0 bytes.
        residency: bytes live at its cuts.
        pricing: conditions under which its blocks were priced, except the chunk.
        most: bytes of RAM beyond which blocks were skipped, None for no limit.
    """

    edges: CutGraph
    graph: PricedProgram
    residency: Residency
    pricing: Pricing
    most: int | None


def require_end(edges: CutGraph, graph: PricedProgram, scheme: Scheme, rules: Rules) -> None:
    """Raise LimitError if no path leads to the last cut; the message names the inputs that prevent it."""
    if not edges.reaches_its_end:
        raise LimitError(_why_no_path(graph, scheme, rules.input_mode, sorted(rules.leaving(graph))))


def cut_graph(graph: PricedProgram, restriction: Restriction, rules: Rules = Rules()) -> Cuts:
    """Return a cut graph, with or without a path to its end.

    Args:
        graph: operators in execution order.
        restriction: blocks and configurations that a scheme allows.
        rules: accounting and permissions.

    Raises:
        BudgetError: there are more operators, or more work, than can be searched.
        LimitError: inputs should be streamed or external, but an operator that no block can contain reads one.
    """
    _refuse_beyond_budget(graph)
    moved = rules.leaving(graph)
    outside_arena = moved | rules.slow
    graph = replace(graph, sizes=tuple(0 if index in outside_arena else size for index, size in enumerate(graph.sizes)))
    residency = Residency(graph, rules.alignment)
    for layer in graph.steps:
        if not layer.fusable and not moved.isdisjoint(layer.inputs):
            name = next(graph.tensors[tensor].name for tensor in layer.inputs if tensor in moved)
            why = f"{layer.name} reads it and cannot be part of a block: {layer.reason}"
            raise LimitError(f"input {name} cannot be {rules.input_mode.value}: {why}")
    pricing = Pricing(
        chunks=rules.chunks,
        streamed=moved if rules.input_mode.streams else frozenset(),
        slow=rules.slow,
        overlap_alignment=rules.alignment if rules.overlap else None,
        limit=None if rules.most_work is None or restriction.paired else work_limit(graph, rules.most_work),
        free_scratch=residency.free_scratch,
    )
    edges, most = _Edges(graph, restriction, rules, moved, residency, pricing).all()
    return Cuts(edges, graph, residency, pricing, most)


_NARROW = 3
"""Number of cuts on each side with which a narrow cut is compared."""


@dataclass(frozen=True)
class _Edges:
    """Construction of the edges; fields as in ``Cuts`` and the arguments of ``cut_graph``."""

    graph: PricedProgram
    restriction: Restriction
    rules: Rules
    moved: frozenset[int]
    residency: Residency
    pricing: Pricing

    def all(self) -> tuple[CutGraph, int | None]:
        """Return the cut graph, and the bytes of RAM beyond which blocks were skipped."""
        allowed, most = self._allowed(), self.rules.most_ram
        if self._recompute_costs and most is None:
            most = self._narrow_path_ram(allowed)  # No path with more RAM than one of least work is on the front.
        return self._cuts([self._blocks(last, firsts, most) for last, firsts in enumerate(allowed)]), most

    @cached_property
    def _recompute_costs(self) -> bool:
        """Whether blocks in one tile have the least work, and only blocks on the front are searched."""
        some = not (self.rules.every_block or self.rules.slow) and self.restriction.scheme is Scheme.AUTO
        return some and work_limit(self.graph, self.graph.work).slack == 0

    def _cuts(self, blocks: Sequence[Iterable[Edge]]) -> CutGraph:
        """Return the cut graph of blocks by their last layer and of single operators."""
        start, tail = self.residency.start, self._tail
        into: list[tuple[Edge, ...]] = [()]
        for index, fused in enumerate(blocks):
            into.append(tuple(sorted((*self._unfused(index), *fused), key=lambda edge: -edge.source)))
            report_progress("operators searched", index + 1, len(blocks))
        return CutGraph(start, tail.fixed, tuple(into))

    @property
    def _tail(self) -> TailShares:
        return self.graph.tail if self.rules.count_tail else NO_TAIL

    def _unfused(self, index: int) -> Iterator[Edge]:
        """Yield the edge of a single operator, unless it reads a moved input or runs only in blocks."""
        layer, zeros = self.graph.steps[index], np.zeros(1, dtype=np.int64)
        outside_arena = self.moved.union(self.rules.slow)
        if outside_arena.isdisjoint((*layer.inputs, *layer.outputs)) and not layer.only_in_blocks:
            ram_and_work = np.array([self.residency.outside(index, index)]), np.array([layer.work])
            options = EdgeOptions(*ram_and_work, *(zeros,) * 4)
            yield Edge(index, index + 1, options, False, Span(index, index), self._tail.of_operator(index))

    def _blocks(self, last: int, firsts: Collection[int], most: int | None) -> Collection[Edge]:
        """Return the blocks from some layers to ``last``, without those that certainly exceed ``most`` bytes.

        Blocks whose RAM in one tile is at most the network's inputs are not divided into tiles if that adds work;
        with a limit on work, their growth ends before most others can be divided.
        """
        if not self._recompute_costs or self.pricing.limit is None:
            return self._tiled(last, firsts, most, self.restriction.tile_sizes, self.pricing).values()
        whole, start = self._in_one_tile(last, firsts, most), self.residency.start
        small = {first for (first, _), edge in whole.items() if int(edge.options.ram[-1]) <= start}
        large, pricing = [first for first in firsts if first not in small], replace(self.pricing, divided=True)
        return (whole | self._tiled(last, large, most, self.restriction.tile_sizes, pricing)).values()

    def _in_one_tile(self, last: int, firsts: Collection[int], most: int | None) -> dict[tuple[int, int], Edge]:
        """Return the blocks in one tile as ``_tiled`` does."""
        return self._tiled(last, firsts, most, whole_tile, replace(self.pricing, limit=None))

    def _tiled(
        self, last: int, firsts: Collection[int], most: int | None, sizes: TileSizes, pricing: Pricing
    ) -> dict[tuple[int, int], Edge]:
        """Return the blocks under some tilings by first layer and driven tensor; other arguments as in ``_blocks``."""
        edges: dict[tuple[int, int], Edge] = {}
        if not firsts:
            return edges
        paired = len(self.rules.chunks) if self.restriction.paired else 0
        budgets: Collection[int] = firsts
        if most is not None:
            shares = pricing.overlap_alignment is not None
            budget = most - self._tail.fixed - self.residency.least_besides_scratch(last, shares, self._last_reader)
            budgets = dict(zip(firsts, budget[[*firsts]].tolist(), strict=True))
        for costs in block_costs(self.graph, last, sizes, pricing, budgets):
            if self.rules.slow:
                costs = costs._replace(work=costs.work + self._traffic(costs.first, last))
            options = _block_options(costs, self.residency, paired, most_work(len(self.graph.steps)))
            if len(options):
                tail = self._tail.of_block(self.residency.results(costs.first, last))
                span = Span(costs.first, last)
                edges[costs.first, costs.driven] = Edge(costs.first, last + 1, options, True, span, tail)
        return edges

    def _traffic(self, first: int, last: int) -> int:
        """Return the price of a block's traffic with the slow memory, in the graph's unit of work."""
        graph, read, written = self.graph, 0, 0
        for index in range(first, last + 1):
            step = graph.steps[index]
            for tensor in self.rules.slow.intersection(step.inputs):
                is_first = not any(first <= reader < index for reader in graph.consumers[tensor])
                read += graph.tensors[tensor].nbytes if graph.producer[tensor] < first and is_first else 0
            for tensor in self.rules.slow.intersection(step.outputs):
                leaves = tensor in graph.outputs or graph.consumers[tensor][-1:] > (last,)
                written += graph.tensors[tensor].nbytes if leaves else 0
        return round(read * self.rules.traffic[0] + written * self.rules.traffic[1])

    @cached_property
    def _last_reader(self) -> int:
        """Last layer that reads one of the network's inputs in the arena."""
        graph = self.graph
        return max(
            (reader for each in graph.inputs if graph.sizes[each] for reader in graph.consumers[each]), default=-1
        )

    def _allowed(self) -> list[Collection[int]]:
        """Return for each layer the possible first layers of blocks that end there."""
        graph, count = self.graph, len(self.graph.steps)
        firsts_by_last: list[Collection[int]] = []
        for last, layer in enumerate(graph.steps):
            alone = self.rules.single_operators or layer.only_in_blocks or not self.moved.isdisjoint(layer.inputs)
            ends = not layer.absorbed and last + 1 not in graph.inner_cuts
            span = range(max(0, last + 1 - longest_block(count)), last + alone if ends else 0)
            allows = self.restriction.allows
            firsts_by_last.append([each for each in span if each not in graph.inner_cuts and allows(each, last)])
        return firsts_by_last

    def _narrow_path_ram(self, allowed: Sequence[Collection[int]]) -> int:
        """Return the least bytes of RAM of some paths without recompute.

        Their blocks begin and end at narrow cuts (fewer live bytes than around) and beside operators that no block
        contains.
        """
        live = [self.residency.live_at(cut) for cut in range(len(allowed) + 1)]
        around = [min(live[max(0, cut - _NARROW) : cut + _NARROW + 1]) for cut in range(len(live))]
        narrow = {cut for cut in range(1, len(allowed)) if live[cut] == around[cut] < live[cut - 1]} | {0, len(allowed)}
        fusable = (step.fusable for step in self.graph.steps)
        narrow |= {cut for cut, (one, other) in enumerate(pairwise(fusable), 1) if one != other}
        for most in (2 * max(live[cut] for cut in narrow), None):
            blocks = [
                self._in_one_tile(last, narrow.intersection(firsts), most).values() if last + 1 in narrow else ()
                for last, firsts in enumerate(allowed)
            ]
            least = least_ram(self._cuts(blocks))
            if most is not None and least <= most:  # Blocks that need more, which were skipped, would not lower it.
                break
        return least


MOST_LAYERS = 1000
"""Largest number of operators for which blocks are searched: memory grows with the square."""
_MOST_STEPS = 60_000
_SHORTEST_LIMIT = 32


def longest_block(layers: int) -> int:
    """Return the largest number of operators in a block, views and PADs included, which bounds the pricing work.

    There is no limit up to 245 operators, for which every range can be priced.
    """
    return max(_SHORTEST_LIMIT, _MOST_STEPS // max(layers, 1))


def most_work(layers: int) -> int:
    """Return the largest work of one operator or block: the sums over a path, with two more counts, fit 64 bits."""
    return int(2**62 // (layers + 1) ** 3)


def _refuse_beyond_budget(graph: PricedProgram) -> None:
    count = len(graph.steps)
    if count > MOST_LAYERS:
        raise BudgetError(f"blocks are searched for models of up to {MOST_LAYERS:,} operators, not of {count:,}")
    for layer in graph.steps:
        if layer.work > most_work(count):
            raise BudgetError(f"{layer.name} takes {layer.work:,} steps, more than the search can count")


def _why_no_path(graph: PricedProgram, scheme: Scheme, mode: InputMode, moved: Sequence[int]) -> str:
    """Return the reason why no path leaves these inputs out of the arena."""
    if not moved:
        return f"no blocks of the scheme {scheme.value} hold all operators that can run only in blocks"
    names = ", ".join(graph.tensors[tensor].name for tensor in moved)
    readers = sorted({reader for tensor in moved for reader in graph.consumers[tensor]})
    noun, pronoun = ("inputs", "one") if len(moved) > 1 else ("input", "it")
    return (
        f"{noun} {names} cannot be {mode.value} with the scheme {scheme.value}: no block holds all operators that read "
        f"{pronoun}, {', '.join(graph.steps[index].name for index in readers)}"
        + ("" if scheme is Scheme.AUTO else "; try the scheme auto")
    )


def _block_options(costs: BlockCosts, residency: Residency, paired: int, most: int) -> EdgeOptions:
    """Return a block's options.

    Args:
        paired: number of chunks if each height is combined with one width only; 0 for all combinations.
        most: largest work.
    """
    configurations = costs.tile_height, costs.tile_width, costs.chunk
    options = EdgeOptions(residency.while_running(costs), costs.work, costs.scratch, *configurations)
    usable = costs.usable if int(costs.work.max()) <= most else costs.usable & (costs.work <= most)
    if paired:
        pairs = np.eye(math.isqrt(len(usable) // paired), dtype=np.bool_)
        usable = usable & np.tile(pairs.ravel(), paired)
    if not usable.all():
        options = options.pick(np.flatnonzero(usable))
    return options.undominated()
