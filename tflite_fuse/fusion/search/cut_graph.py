"""The cut graph: where a model can be cut, and what may stand between two cuts.

Nodes are the places between two operators of the given order, 0 (before the first) to n (after the last). An edge from
a to b runs the operators a … b − 1, as they are or as one fused block, and carries its options: bytes of RAM while it
runs against multiply-accumulates, one pair per configuration worth having. RAM is everything live at cut a (the block's
inputs, residuals held for later, network inputs not yet consumed, outputs already there), plus what the edge leaves
behind, plus the block's scratch. A path from 0 to n is a way to run the model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import networkx as nx
import numpy as np

from tflite_fuse.errors import BudgetError, LimitError
from tflite_fuse.fusion.block.axes import IntArray
from tflite_fuse.fusion.block.layer_graph import LayerGraph
from tflite_fuse.fusion.estimate.block_costs import block_costs
from tflite_fuse.fusion.estimate.growing_block import BlockCosts, Pricing
from tflite_fuse.fusion.search.schemes import Restriction, Scheme
from tflite_fuse.model.outside import InputMode
from tflite_fuse.units import round_up


@dataclass(frozen=True)
class Rules:
    """What counts and what is allowed beside the scheme.

    Attributes:
        chunks: output pixels per step to price blocks with.
        alignment: arena tensors (the blocks' scratch among them) are rounded up to a multiple of this many bytes.
        input_mode: where the network's inputs are.
        moved: the inputs for which that holds, the others being resident; None for all that are no outputs.
        overlap: whether a block may write its output over an input nobody needs afterwards.
        single_operators: whether an operator may be a block of its own.
        count_tail: whether what the runtime keeps for operators and tensors counts.
        ranges: the only blocks to look at, as (first, last) layer; None for all.
        floor: working sets of up to so many bytes count as equal, so that among them the tail decides.
    """

    chunks: tuple[int, ...] = (1,)
    alignment: int = 1
    input_mode: InputMode = InputMode.RESIDENT
    moved: frozenset[int] | None = None
    overlap: bool = False
    single_operators: bool = False
    count_tail: bool = False
    ranges: frozenset[tuple[int, int]] | None = None
    floor: int = 0


@dataclass(frozen=True)
class Offers:
    """What an edge offers, each field [options], RAM ascending, MACs descending.

    Attributes:
        ram: bytes live while the edge runs.
        macs: multiply-accumulates executed.
        scratch: bytes of the block's scratch, 0 for an operator that runs as it is.
        tile_height, tile_width, chunk: the block's configuration, 0 for an operator that runs as it is.
    """

    ram: IntArray
    macs: IntArray
    scratch: IntArray
    tile_height: IntArray
    tile_width: IntArray
    chunk: IntArray

    def __len__(self) -> int:
        return len(self.ram)

    def pick(self, indices: IntArray) -> Offers:
        return Offers(*(column[indices] for column in self._columns()))

    def _columns(self) -> tuple[IntArray, ...]:
        return self.ram, self.macs, self.scratch, self.tile_height, self.tile_width, self.chunk

    def best(self) -> Offers:
        """Those no other is below in both RAM and multiply-accumulates."""
        return self.pick(pareto(self.ram, self.macs))


@dataclass(frozen=True)
class Cuts:
    """The cut graph of a layer graph.

    Attributes:
        dag: nodes and edges as the module says. Every edge has the attributes ``options``, an ``Offers``, ``fused``,
            and ``tail``, bytes it adds to the tail of the arena. Attributes of the graph: ``start``, bytes live before
            the first operator (the network's inputs) or the rules' floor, and ``tail``, bytes of the tail no edge can
            change.
        graph: the layers, inputs that need no RAM counted with 0 bytes.
        residency: bytes live at its cuts.
        pricing: the conditions its blocks were priced under, but for the chunk.
    """

    dag: nx.MultiDiGraph
    graph: LayerGraph
    residency: Residency
    pricing: Pricing


class Residency:
    """Bytes live at the cuts of a graph, and bytes an edge leaves behind."""

    def __init__(self, graph: LayerGraph, alignment: int) -> None:
        """Args: graph: sizes of its tensors are rounded up to ``alignment`` bytes, as the arena planner does."""
        count = len(graph.layers)
        self.alignment = alignment
        self.start = sum(round_up(graph.sizes[tensor], alignment) for tensor in graph.inputs)
        self._held = np.zeros(count + 1, dtype=np.int64)
        self._left = np.zeros((count, count), dtype=np.int64)
        self._results = np.zeros((count, count), dtype=np.int64)
        for tensor, size in enumerate(graph.sizes):
            producer, end, size = graph.producer[tensor], self._end(graph, tensor), round_up(size, alignment)
            self._held[producer + 1 : end + 1] += size
            if producer >= 0:
                self._results[: producer + 1, producer : max(end, producer + 1)] += 1
                self._left[: producer + 1, producer:end] += size
                self._left[: producer + 1, producer] += size if end == producer else 0

    @staticmethod
    def _end(graph: LayerGraph, tensor: int) -> int:
        """The last layer a tensor is live at; past the end for network outputs."""
        if tensor in graph.outputs:
            return len(graph.layers)
        readers = graph.consumers[tensor]
        return readers[-1] if readers else graph.producer[tensor]

    def held(self, cut: int) -> int:
        """Bytes of all tensors written before the cut and needed after it."""
        return int(self._held[cut])

    def left(self, first: int, last: int) -> int:
        """Bytes of the tensors the layers ``first … last`` write that outlive them (or that nothing reads)."""
        return int(self._left[first, last])

    def results(self, first: int, last: int) -> int:
        """Number of tensors the layers ``first … last`` write that outlive them (or that nothing reads)."""
        return int(self._results[first, last])

    def outside(self, first: int, last: int) -> int:
        """Bytes live while ``first … last`` run, but for the scratch of a block."""
        return self.held(first) + self.left(first, last)

    def while_running(self, costs: BlockCosts) -> IntArray:
        """Bytes live while a block runs, under every tiling."""
        scratch = round_up(costs.scratch, self.alignment)
        return self.outside(costs.first, costs.last) + scratch - costs.shared


def cut_graph(graph: LayerGraph, restriction: Restriction, rules: Rules = Rules()) -> Cuts:
    """Builds the cut graph.

    Args:
        graph: operators in the order they will run.
        restriction: which blocks and configurations a scheme allows.
        rules: what counts, and what else is allowed.

    Raises:
        BudgetError: there are more operators, or more work, than is searched.
        LimitError: inputs are to be streamed or external, but no block of the scheme can read them; names the inputs
            and what is in the way.
    """
    _refuse_beyond_budget(graph)
    moved = frozenset(graph.inputs) - {*graph.outputs} if rules.moved is None else rules.moved
    moved = frozenset() if rules.input_mode is InputMode.RESIDENT else moved
    graph = replace(graph, sizes=tuple(0 if index in moved else size for index, size in enumerate(graph.sizes)))
    residency = Residency(graph, rules.alignment)
    dag = nx.MultiDiGraph(start=max(residency.start, rules.floor), tail=graph.tail.fixed if rules.count_tail else 0)
    dag.add_nodes_from(range(len(graph.layers) + 1))
    for index, layer in enumerate(graph.layers):
        if moved.isdisjoint(layer.inputs):
            tail = graph.tail.of_operator(index) if rules.count_tail else 0
            dag.add_edge(index, index + 1, options=_as_it_is(residency, index, layer.macs), fused=False, tail=tail)
        elif not layer.fusable:
            name = next(graph.tensors[tensor].name for tensor in layer.inputs if tensor in moved)
            why = f"{layer.name} reads it and cannot be part of a block: {layer.reason}"
            raise LimitError(f"input {name} cannot be {rules.input_mode.value}: {why}")
    pricing = Pricing(
        chunks=rules.chunks,
        streamed=moved if rules.input_mode is InputMode.STREAMED else frozenset(),
        sharing=rules.alignment if rules.overlap else None,
    )
    for last in range(len(graph.layers)):
        alone = rules.single_operators or not moved.isdisjoint(graph.layers[last].inputs)
        firsts = None if rules.ranges is None else [first for first, end in rules.ranges if end == last]
        for costs in _blocks(graph, restriction, pricing, last, alone, firsts):
            paired = len(rules.chunks) if restriction.paired else 0
            if len(options := _block_options(costs, residency, paired, most_work(len(graph.layers)))):
                tail = graph.tail.of_block(residency.results(costs.first, last)) if rules.count_tail else 0
                dag.add_edge(costs.first, last + 1, options=options, fused=True, tail=tail)
    if not nx.has_path(dag, 0, len(graph.layers)):
        raise LimitError(_why_inside(graph, restriction.scheme, rules.input_mode, sorted(moved)))
    return Cuts(dag, graph, residency, pricing)


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


def _refuse_beyond_budget(graph: LayerGraph) -> None:
    count = len(graph.layers)
    if count > MOST_LAYERS:
        raise BudgetError(f"blocks are searched for models of up to {MOST_LAYERS:,} operators, not of {count:,}")
    for layer in graph.layers:
        if layer.macs > most_work(count):
            raise BudgetError(f"{layer.name} takes {layer.macs:,} steps, more than can be weighed")


def _why_inside(graph: LayerGraph, scheme: Scheme, mode: InputMode, moved: Sequence[int]) -> str:
    """Why no way to run the model leaves these inputs out of the arena."""
    names = ", ".join(graph.tensors[tensor].name for tensor in moved)
    readers = sorted({reader for tensor in moved for reader in graph.consumers[tensor]})
    what, which = ("inputs", "one") if len(moved) > 1 else ("input", "it")
    return (
        f"{what} {names} cannot be {mode.value} with the scheme {scheme.value}: no block holds all operators that read "
        f"{which}, {', '.join(graph.layers[index].name for index in readers)}"
        + ("" if scheme is Scheme.AUTO else "; try the scheme auto")
    )


def _as_it_is(residency: Residency, index: int, macs: int) -> Offers:
    nothing = np.zeros(1, dtype=np.int64)
    return Offers(np.array([residency.outside(index, index)]), np.array([macs]), nothing, nothing, nothing, nothing)


def _blocks(
    graph: LayerGraph,
    restriction: Restriction,
    pricing: Pricing,
    last: int,
    alone: bool,
    firsts: Collection[int] | None,
) -> Iterator[BlockCosts]:
    """The blocks that end at a layer and are worth offering; that of the layer alone only if ``alone``."""
    if graph.layers[last].absorbed:
        return
    longest = longest_block(len(graph.layers))
    for costs in block_costs(graph, last, restriction.tile_sizes, pricing, firsts):
        if last - costs.first >= longest:
            return
        if (
            (costs.first < last or alone)
            and restriction.allows(costs.first, last)
            and not splits_padding(graph, costs.first)
        ):
            yield costs


def splits_padding(graph: LayerGraph, first: int) -> bool:
    """Whether a block would start right behind a PAD it could absorb; starting with the PAD is never worse."""
    return (
        first > 0 and graph.layers[first - 1].absorbed and first in graph.consumers[graph.layers[first - 1].outputs[0]]
    )


def _block_options(costs: BlockCosts, residency: Residency, paired: int, most: int) -> Offers:
    """Args: paired: for how many chunks each height goes with one width alone, 0 if with all; most: work."""
    configurations = costs.tile_height, costs.tile_width, costs.chunk
    everything = Offers(residency.while_running(costs), costs.macs, costs.scratch, *configurations)
    usable = costs.usable & (costs.macs <= most)
    if paired:
        pairs = np.eye(math.isqrt(len(usable) // paired), dtype=np.bool_)
        usable = usable & np.tile(pairs.ravel(), paired)
    if not usable.all():
        everything = everything.pick(np.flatnonzero(usable))
    return everything.best()


def pareto(ram: IntArray, cost: IntArray) -> IntArray:
    """Indices of the pairs no other pair is below in both, RAM ascending; of equal pairs one."""
    order = np.lexsort((cost, ram))
    cheapest = np.minimum.accumulate(cost[order])
    keep = np.ones(len(order), dtype=np.bool_)
    keep[1:] = cost[order][1:] < cheapest[:-1]
    kept: IntArray = order[keep]
    return kept
