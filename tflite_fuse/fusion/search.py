"""Which blocks: the whole Pareto front of a model, exactly."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx

from tflite_fuse.errors import UsageError
from tflite_fuse.fusion.block import BlockConfig
from tflite_fuse.fusion.candidates import Options, Residency, cut_graph
from tflite_fuse.fusion.cost import driven_tensor, price_block
from tflite_fuse.fusion.front import BlockChoice, Front, Point
from tflite_fuse.fusion.geometry import LayerGraph
from tflite_fuse.fusion.model_graph import graph_from_model
from tflite_fuse.fusion.paths import Path, Step, search_paths
from tflite_fuse.fusion.schemes import Scheme, restriction
from tflite_fuse.model.schema import Model


@dataclass(frozen=True)
class SearchOptions:
    """What to search.

    Attributes:
        scheme: which blocks and tiles to allow.
        tiles: tile height and width of the scheme inverted-residual, None for its default.
        chunks: output pixels per step to choose from. The search takes the smallest; a block below the peak then gets
            the largest that keeps it there (a larger chunk costs RAM, saves overhead and changes no arithmetic).
        alignment: arena tensors are rounded up to a multiple of this many bytes.
    """

    scheme: Scheme = Scheme.AUTO
    tiles: tuple[int, int] | None = None
    chunks: tuple[int, ...] = (1, 2, 4, 8)
    alignment: int = 1


def fusion_front(model: Model | LayerGraph, options: SearchOptions = SearchOptions()) -> Front:
    """The Pareto front of a model over all blocks and configurations a scheme allows.

    Args:
        model: a model (its first subgraph, operators in their order) or its geometry.
        options: what to search.

    Raises:
        UsageError: options that contradict each other.
    """
    if not options.chunks or min(options.chunks) < 1 or options.alignment < 1:
        raise UsageError("chunks and alignment count pixels and bytes; give numbers of at least 1")
    graph = model if isinstance(model, LayerGraph) else graph_from_model(model)
    allowed = restriction(graph, options.scheme, options.tiles)
    cuts = cut_graph(graph, allowed, min(options.chunks), options.alignment)
    builder = _PointBuilder(graph, cuts, options)
    points = tuple(builder.point(path) for path in search_paths(cuts))
    return Front(points, builder.point(_unfused(cuts)), True, graph)


def _unfused(cuts: nx.DiGraph) -> Path:
    """Every operator as it is."""
    steps, peak, macs = [], int(cuts.graph["start"]), 0
    for cut in range(cuts.number_of_nodes() - 1):
        edge: Options = cuts.edges[cut, cut + 1]["options"]
        index = int((edge.tile_height == 0).argmax())
        steps.append(Step(cut, cut, index))
        peak, macs = max(peak, int(edge.ram[index])), macs + int(edge.macs[index])
    return Path(peak, macs, tuple(steps))


class _PointBuilder:
    """Turns paths into points; remembers what blocks cost under larger chunks, as many paths share blocks."""

    def __init__(self, graph: LayerGraph, cuts: nx.DiGraph, options: SearchOptions) -> None:
        self.graph, self.cuts, self.options = graph, cuts, options
        self.residency = Residency(graph, options.alignment)
        self.scratch: dict[tuple[int, int, BlockConfig], int] = {}

    def point(self, path: Path) -> Point:
        blocks: list[BlockChoice] = []
        largest: tuple[int, ...] = ()
        for step in path.steps:
            edge: Options = self.cuts.edges[step.first, step.last + 1]["options"]
            operators = tuple(range(step.first, step.last + 1))
            if int(edge.ram[step.option]) == path.peak and not largest:
                largest = operators
            if edge.tile_height[step.option] > 0:
                blocks.append(self._block(operators, edge, step.option, path.peak))
        factor = path.macs / self.graph.macs if self.graph.macs else 1.0
        return Point(path.peak, path.macs, factor, tuple(blocks), largest)

    def _block(self, operators: tuple[int, ...], edge: Options, option: int, peak: int) -> BlockChoice:
        tile = int(edge.tile_height[option]), int(edge.tile_width[option])
        config = BlockConfig(*tile, min(self.options.chunks))
        room = peak - self.residency.outside(operators[0], operators[-1])
        scratch = int(edge.scratch[option])
        for chunk in sorted(self.options.chunks)[1:]:
            wider = BlockConfig(*tile, chunk)
            needed = self._scratch(operators[0], operators[-1], wider)
            if self.residency.rounded(needed) > room:
                break
            config, scratch = wider, needed
        macs = int(edge.macs[option])
        extra = macs - sum(self.graph.layers[index].macs for index in operators)
        return BlockChoice(operators, config, scratch, macs, extra, self._scheme(operators, config))

    def _scratch(self, first: int, last: int, config: BlockConfig) -> int:
        key = (first, last, config)
        if key not in self.scratch:
            self.scratch[key] = int(price_block(self.graph, first, last, config).scratch[0])
        return self.scratch[key]

    def _scheme(self, operators: tuple[int, ...], config: BlockConfig) -> str:
        driven = self.graph.tensors[driven_tensor(self.graph, operators[0], operators[-1])]
        if config.tile_height < driven.height:
            return "tiles"
        return "strips" if config.tile_width < driven.width else "line-buffers"
