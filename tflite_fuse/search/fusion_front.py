"""The Pareto front of a model over choices of blocks.

It is exact over the cuts, tilings and run lengths that a scheme allows, in the estimated RAM and work of blocks; other
run lengths, and the bytes that placed tensors need, are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tflite_fuse.cost.estimate.block_costs import driven_tensor, price_block
from tflite_fuse.cost.instructions import LEAST_GAIN, Core, in_instructions
from tflite_fuse.cost.priced_program import PricedProgram, WorkUnit
from tflite_fuse.errors import UsageError
from tflite_fuse.ir.block import BlockChoice, BlockConfig
from tflite_fuse.model.schema import Model
from tflite_fuse.search.cut_graph import Edge, Residency, Rules, Span
from tflite_fuse.search.from_model import graph_from_model
from tflite_fuse.search.front import Front, Point
from tflite_fuse.search.joint_orders import JointCuts, Order, joint_cuts
from tflite_fuse.search.paths import Path, paths_by_ram, search_paths
from tflite_fuse.search.schemes import Restriction, Scheme, refuse_contradictions, restriction

CHUNKS = (1, 2, 4, 8)
"""Output pixels per step to choose from by default."""


@dataclass(frozen=True)
class SearchOptions(Rules):
    """Options of the search: the rules of the cut graph, and the permitted blocks.

    Contradictions raise UsageError.

    Attributes:
        scheme: permitted blocks and tiles.
        tiles: number of tiles along height and width of the scheme inverted-residual, None for its default.
        tile_size: their height and width in pixels instead; None if the number counts.
        chunks: output pixels per step to choose from. A larger chunk costs RAM, saves overhead and does not change
            results. If MACs count, the search uses the smallest; a block below the peak then gets the largest with
            which it stays there.
        strips: whether the scheme auto may run a block in strips that compute some columns twice.
        bands: whether strips may run in bands, which share memory if ``overlap`` allows it. With more shared memory, an
            arena more often exceeds its largest working set, because the shared bytes move from block to block.
        target: core whose predicted instructions replace MACs in points, without those that gain less than a
            thousandth; None for MACs.
        most_compute: end of the front as a multiple of the unfused model's work, or the work of the cheapest point if
            that is more; None for the whole front.
    """

    scheme: Scheme = Scheme.AUTO
    tiles: tuple[int, int] | None = None
    tile_size: tuple[int, int] | None = None
    chunks: tuple[int, ...] = CHUNKS
    strips: bool = True
    bands: bool = False
    target: Core | None = None
    most_compute: float | None = None

    def __post_init__(self) -> None:
        if not self.chunks or min(self.chunks) < 1 or self.alignment < 1:
            raise UsageError("chunks and alignment count pixels and bytes; give numbers of at least 1")
        refuse_contradictions(self.scheme, self.tiles, self.tile_size, self.strips)


def fusion_front(
    model: Model | PricedProgram, options: SearchOptions = SearchOptions(), other_orders: Sequence[Order] = ()
) -> Front:
    """Return the Pareto front of a model over all blocks and configurations that a scheme allows.

    Args:
        model: a model (its first subgraph, operators in their order) or its geometry, in MACs or in instructions of the
            target.
        options: options of the search.
        other_orders: other orders of the operators, which paths may follow as well.

    Raises:
        LimitError: no block of the scheme can read an input that should be streamed or external.
    """
    graph = model if isinstance(model, PricedProgram) else graph_from_model(model)
    if options.target is not None and graph.unit is WorkUnit.MACS:
        graph = in_instructions(graph, options.target, max(options.chunks))
    priced = replace(options, every_block=False)
    if options.target is None:
        priced = replace(priced, chunks=(min(options.chunks),))
    if options.most_compute is not None:
        priced = replace(priced, most_work=int(max(options.most_compute, 1.0) * graph.work))
    cuts, builder = searched_cuts(graph, other_orders, priced, options.chunks if options.target is None else ())

    # Predictions are not more exact than the least gain.
    least_gain = 0.0 if options.target is None else LEAST_GAIN
    paths = search_paths(cuts.edges, priced.most_work, least_gain, options.most_ram)
    points = tuple(map(builder.point, paths))
    return Front(points, unfused_point(graph, options), graph)


def points_by_ram(
    graph: PricedProgram, options: SearchOptions, other_orders: Sequence[Order] = (), most_work: int | None = None
) -> Iterator[Point]:
    """Yield the points of all paths of a small model in ascending order of RAM, dominated ones too.

    Args:
        graph: the model in the first order, in MACs.
        options: options of the search; runs are the shortest.
        other_orders: the other orders.
        most_work: MACs of a path; None for no limit.

    Raises: as ``fusion_front``.
    """
    rules = replace(options, every_block=True, chunks=(min(options.chunks),), most_compute=None)
    cuts, builder = searched_cuts(graph, other_orders, rules)
    return map(builder.point, paths_by_ram(cuts.edges, most_work))


def searched_cuts(
    graph: PricedProgram, other_orders: Sequence[Order], options: SearchOptions, longer: Sequence[int] = ()
) -> tuple[JointCuts, PointBuilder]:
    """Return the cut graph of a model in some orders, and a builder of points from its paths.

    Args:
        graph: the model in the first order.
        other_orders: the other orders.
        options: options of the search; work is in the unit of the graph.
        longer: output pixels per step that a block below the peak may have.

    Raises: as ``fusion_front``.
    """
    bands = options.bands and options.overlap

    def restricted(ordered: PricedProgram) -> Restriction:
        return restriction(ordered, options.scheme, options.tiles, options.tile_size, options.strips, bands)

    cuts = joint_cuts(graph, other_orders, restricted, options)
    return cuts, PointBuilder(graph, cuts, longer)


def unfused_point(graph: PricedProgram, options: SearchOptions) -> Point:
    """Return the model without blocks and with resident inputs as a point."""
    residency = Residency(graph, options.alignment)
    sets = [residency.outside(index, index) for index in range(len(graph.steps))]
    peak = max([residency.start, *sets])
    largest = (sets.index(peak),) if peak in sets else ()
    tail = graph.tail.total if options.count_tail else 0
    return Point(peak + tail, graph.work, 1.0, (), largest, tail)


class PointBuilder:
    """Builder of points from paths; it caches blocks, and their RAM under larger chunks, which paths share."""

    def __init__(self, graph: PricedProgram, cuts: JointCuts, chunks: Sequence[int]) -> None:
        """Prepare for paths of a graph; blocks below the peak try ``chunks`` of pixels larger than the path's."""
        self.graph, self.cuts, self.chunks = graph, cuts, sorted(chunks)
        self.unfused = graph.work
        self.prices: dict[tuple[Span, BlockConfig], tuple[int, int]] = {}
        self.blocks: dict[tuple[Edge, int, int | None], BlockChoice] = {}

    def point(self, path: Path) -> Point:
        """Return the point of a path."""
        blocks: list[BlockChoice] = []
        largest: tuple[int, ...] = ()
        for leg in path.legs:
            edge = leg.edge
            if int(edge.options.ram[leg.option]) == path.peak and not largest:
                largest = self.cuts.run_by(edge)
            if edge.fused:
                key = edge, leg.option, path.peak if self.chunks else None
                if key not in self.blocks:
                    self.blocks[key] = self._block(edge, leg.option, path.peak)
                blocks.append(self.blocks[key])
        factor = path.work / self.unfused if self.unfused else 1.0
        order = tuple(operator for leg in path.legs for operator in self.cuts.run_by(leg.edge))
        return Point(path.peak + path.tail, path.work, factor, tuple(blocks), largest, path.tail, order)

    def _block(self, edge: Edge, option: int, peak: int) -> BlockChoice:
        operators, options = self.cuts.run_by(edge), edge.options
        tile = int(options.tile_height[option]), int(options.tile_width[option])
        chunk = int(options.chunk[option])
        config, scratch = BlockConfig(*tile, chunk), int(options.scratch[option])
        for larger in (each for each in self.chunks if each > chunk):
            wider = BlockConfig(*tile, larger)
            ram, needed = self._price(edge.span, wider)
            if ram > peak:
                break
            config, scratch = wider, needed
        work = int(options.work[option])
        extra = work - sum(self.graph.steps[index].work for index in operators)
        return BlockChoice(operators, config, scratch, work, extra, self._scheme(edge.span, config))

    def _price(self, span: Span, config: BlockConfig) -> tuple[int, int]:
        """Return the bytes of RAM while a block runs, and of its scratch."""
        key = (span, config)
        if key not in self.prices:
            cuts = self.cuts.orders[span.order]
            costs = price_block(cuts.graph, span.first, span.last, config, cuts.pricing)
            self.prices[key] = int(cuts.residency.while_running(costs)[0]), int(costs.scratch[0])
        return self.prices[key]

    def _scheme(self, span: Span, config: BlockConfig) -> str:
        graph = self.cuts.orders[span.order].graph
        driven = graph.tensors[driven_tensor(graph, span.first, span.last)]
        if config.tile_height < driven.height:
            return "tiles"
        return "strips" if config.tile_width < driven.width else "line-buffers"
