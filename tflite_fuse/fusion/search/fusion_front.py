"""Which blocks: the whole Pareto front of a model, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tflite_fuse.errors import UsageError
from tflite_fuse.fusion.block.layer_graph import LayerGraph
from tflite_fuse.fusion.block.stages import BlockConfig
from tflite_fuse.fusion.estimate.block_costs import driven_tensor, price_block
from tflite_fuse.fusion.instructions.targets import Target, in_instructions
from tflite_fuse.fusion.search.cut_graph import Cuts, Options, Residency, Rules, cut_graph
from tflite_fuse.fusion.search.from_model import graph_from_model
from tflite_fuse.fusion.search.front import BlockChoice, Front, Point
from tflite_fuse.fusion.search.pareto_paths import Path, Step, search_paths
from tflite_fuse.fusion.search.schemes import Restriction, Scheme, restriction
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model

LEAST_GAIN = 1 / 1000
"""Share of predicted instructions that a point with more RAM must save to be on the front."""


@dataclass(frozen=True)
class SearchOptions:
    """What to search.

    Attributes:
        scheme: which blocks and tiles to allow.
        tiles: number of tiles along height and width of the scheme inverted-residual, None for its default.
        tile_size: their height and width in pixels instead, None where their number counts.
        chunks: output pixels per step to choose from. A larger chunk costs RAM, saves overhead and changes no
            arithmetic. Where MACs count, the search takes the smallest; a block below the peak then gets the largest
            that keeps it there.
        alignment: arena tensors are rounded up to a multiple of this many bytes.
        input_mode: where the network's inputs are. A streamed or external input takes no RAM.
        moved: the inputs for which that holds, the others being resident; None for all that are no outputs.
        overlap: whether a block may write its output over an input nobody needs afterwards.
        strips: whether the scheme auto may run a block in strips that compute some columns twice.
        bands: whether strips may run in bands, which share memory where ``overlap`` allows it. Shared memory wanders
            from block to block: the more there is, the more often an arena outgrows its largest working set.
        single_operators: whether an operator may be a block of its own: with ``overlap`` it then needs one buffer
            instead of two, with ``count_tail`` its tables leave the tail.
        count_tail: whether RAM is the whole arena, what the runtime keeps for itself on a 32-bit target included.
        target: the core whose predicted instructions count wherever points speak of MACs, those that gain less than a
            thousandth left out; None counts MACs.
    """

    scheme: Scheme = Scheme.AUTO
    tiles: tuple[int, int] | None = None
    tile_size: tuple[int, int] | None = None
    chunks: tuple[int, ...] = (1, 2, 4, 8)
    alignment: int = 1
    input_mode: InputMode = InputMode.RESIDENT
    moved: frozenset[int] | None = None
    overlap: bool = False
    strips: bool = True
    bands: bool = False
    single_operators: bool = False
    count_tail: bool = False
    target: Target | None = None

    @property
    def rules(self) -> Rules:
        return Rules(
            chunks=(min(self.chunks),) if self.target is None else self.chunks,
            alignment=self.alignment,
            input_mode=self.input_mode,
            moved=self.moved,
            overlap=self.overlap,
            single_operators=self.single_operators,
            count_tail=self.count_tail,
        )


def fusion_front(model: Model | LayerGraph, options: SearchOptions = SearchOptions()) -> Front:
    """The Pareto front of a model over all blocks and configurations a scheme allows.

    Args:
        model: a model (its first subgraph, operators in their order) or its geometry.
        options: what to search.

    Raises:
        UsageError: options that contradict each other.
        LimitError: no block of the scheme can read an input that is to be streamed or external.
    """
    if not options.chunks or min(options.chunks) < 1 or options.alignment < 1:
        raise UsageError("chunks and alignment count pixels and bytes; give numbers of at least 1")
    graph = model if isinstance(model, LayerGraph) else graph_from_model(model)
    if options.target is not None:
        graph = in_instructions(graph, options.target, max(options.chunks))
    cuts = cut_graph(graph, _restriction(graph, options), options.rules)
    builder = _PointBuilder(graph, cuts, options.chunks if options.target is None else ())
    points = tuple(builder.point(path) for path in search_paths(cuts.dag))
    if options.target is not None:
        points = tuple(_worth_having(points))
    return Front(points, unfused_point(graph, options), True, graph)


def _worth_having(points: Sequence[Point]) -> Iterator[Point]:
    """The points that take clearly less than the one before: predictions are not so exact."""
    last = None
    for point in points:
        if last is None or point.macs < (1 - LEAST_GAIN) * last.macs:
            yield (last := point)


def _restriction(graph: LayerGraph, options: SearchOptions) -> Restriction:
    bands = options.bands and options.overlap
    return restriction(graph, options.scheme, options.tiles, options.tile_size, options.strips, bands)


def unfused_point(graph: LayerGraph, options: SearchOptions) -> Point:
    """The model as it is, its inputs resident."""
    residency = Residency(graph, options.alignment)
    sets = [residency.outside(index, index) for index in range(len(graph.layers))]
    peak = max([residency.start, *sets])
    largest = (sets.index(peak),) if peak in sets else ()
    tail = graph.tail.total if options.count_tail else 0
    return Point(peak + tail, graph.macs, 1.0, (), largest, tail)


class _PointBuilder:
    """Turns paths into points; remembers what blocks cost under larger chunks, as many paths share blocks."""

    def __init__(self, graph: LayerGraph, cuts: Cuts, chunks: Sequence[int]) -> None:
        """Args: chunks: what to try for blocks below the peak; those larger than what a path was found with count."""
        self.graph, self.cuts, self.chunks = graph, cuts, sorted(chunks)
        self.priced: dict[tuple[int, int, BlockConfig], tuple[int, int]] = {}

    def point(self, path: Path) -> Point:
        blocks: list[BlockChoice] = []
        largest: tuple[int, ...] = ()
        for step in path.steps:
            edge = self.cuts.dag.edges[step.first, step.last + 1, step.key]
            if int(edge["options"].ram[step.option]) == path.peak and not largest:
                largest = tuple(range(step.first, step.last + 1))
            if edge["fused"]:
                blocks.append(self._block(step, edge["options"], path.peak))
        factor = path.macs / self.graph.macs if self.graph.macs else 1.0
        return Point(path.peak + path.tail, path.macs, factor, tuple(blocks), largest, path.tail)

    def _block(self, step: Step, options: Options, peak: int) -> BlockChoice:
        operators = tuple(range(step.first, step.last + 1))
        tile = int(options.tile_height[step.option]), int(options.tile_width[step.option])
        chunk = int(options.chunk[step.option])
        config, scratch = BlockConfig(*tile, chunk), int(options.scratch[step.option])
        for larger in (each for each in self.chunks if each > chunk):
            wider = BlockConfig(*tile, larger)
            ram, needed = self._price(step.first, step.last, wider)
            if ram > peak:
                break
            config, scratch = wider, needed
        macs = int(options.macs[step.option])
        extra = macs - sum(self.graph.layers[index].macs for index in operators)
        return BlockChoice(operators, config, scratch, macs, extra, self._scheme(operators, config))

    def _price(self, first: int, last: int, config: BlockConfig) -> tuple[int, int]:
        """RAM while the block runs, and its scratch."""
        key = (first, last, config)
        if key not in self.priced:
            costs = price_block(self.cuts.graph, first, last, config, self.cuts.pricing)
            self.priced[key] = int(self.cuts.residency.while_running(costs)[0]), int(costs.scratch[0])
        return self.priced[key]

    def _scheme(self, operators: tuple[int, ...], config: BlockConfig) -> str:
        driven = self.graph.tensors[driven_tensor(self.graph, operators[0], operators[-1])]
        if config.tile_height < driven.height:
            return "tiles"
        return "strips" if config.tile_width < driven.width else "line-buffers"
