"""Growing a block upwards, layer by layer, with the cost of every step under many tilings at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tflite_fuse.fusion.block.axes import (
    AxisWindow,
    IntArray,
    Ranges,
    covers,
    longest_and_total,
    make_tilings,
    needed,
    stage_windows,
    total_in_runs,
    union,
)
from tflite_fuse.fusion.block.layer_graph import LayerGraph
from tflite_fuse.fusion.block.stages import BlockTensor, Stage
from tflite_fuse.fusion.estimate.overlap_distance import Overlap, joint_fill, shared_bytes, tiled_distances, whole_fill
from tflite_fuse.fusion.estimate.ring_capacity import (
    Reach,
    Reaches,
    Reader,
    add_padding,
    fifo_pixels,
    joint_reaches,
    make_reader,
)
from tflite_fuse.fusion.estimate.run_lengths import row_cost, row_of_runs, rows_cost, whole_rows
from tflite_fuse.fusion.schedule.scratch_layout import accumulator_bytes, reserved_bytes, ring_bytes, window_pointers

TileSizes = Callable[[BlockTensor], tuple[Sequence[int], Sequence[int]]]
"""From the driven tensor to the tile heights and tile widths to price."""


@dataclass(frozen=True)
class Pricing:
    """Under which conditions blocks are priced.

    Attributes:
        chunk: output pixels per step.
        streamed: network inputs that have no memory: a block that reads one pulls its pixels, each once, into a FIFO.
        overlap: None, or a block may write its output over an input nobody needs afterwards, at a distance that is a
            multiple of this many bytes.
    """

    chunk: int = 1
    streamed: frozenset[int] = frozenset()
    overlap: int | None = None


PLAIN = Pricing()
"""Every tensor that enters or leaves a block lies whole in the arena, by itself."""


@dataclass(frozen=True)
class BlockCosts:
    """The block of layers ``first … last`` under every tiling.

    Attributes:
        driven: the tensor that is computed tile by tile.
        tile_height, tile_width: every height with every width, [tilings] like all that follow.
        scratch: bytes of FIFOs, accumulators and workspace.
        macs: multiply-accumulates executed, halos counted once per tile that computes them. Where a tensor has several
            readers that look at different corners of it, a few pixels more than that.
        usable: False where an output of the block would be left with holes, or a streamed input read twice.
        shared: bytes of output that lie over an input.
    """

    first: int
    last: int
    driven: int
    tile_height: IntArray
    tile_width: IntArray
    scratch: IntArray
    macs: IntArray
    usable: npt.NDArray[np.bool_]
    shared: IntArray


@dataclass
class _Demand:
    """What the layers visited so far ask of one tensor.

    ``extent`` is the tensor's, or that of the view under which a block reads its input.
    """

    extent: BlockTensor
    rows: Ranges
    columns: Ranges
    readers: list[Reader] = field(default_factory=list)


class Walk:
    """Grows a block upwards from its last layer, one layer at a time; the driven tensor is the last layer's output."""

    def __init__(
        self, graph: LayerGraph, last: int, tile_sizes: TileSizes, pricing: Pricing, driven: int | None = None
    ) -> None:
        self.graph, self.last, self.pricing = graph, last, pricing
        self.folded = driven is not None
        self.driven = graph.layers[last].outputs[0] if driven is None else driven
        tensor = graph.tensors[self.driven]
        heights, widths = tile_sizes(tensor)
        self.heights, self.widths = make_tilings(tensor.height, heights), make_tilings(tensor.width, widths)
        shape = (len(self.heights.sizes), len(self.widths.sizes))
        self.tiles = np.repeat(self.heights.sizes, shape[1]), np.tile(self.widths.sizes, shape[0])
        self.rings: IntArray = np.zeros(shape, dtype=np.int64)
        self.macs: IntArray = np.zeros(shape, dtype=np.int64)
        self.usable = np.ones(shape, dtype=np.bool_)
        self.stages = 0
        self.pointers = 0
        self.sums = 0
        self.tail_bytes = 0
        rows, columns = Ranges(self.heights.low, self.heights.high), Ranges(self.widths.low, self.widths.high)
        self.whole = (self.tiles[0] >= tensor.height) & (self.tiles[1] >= tensor.width)
        self.demands = {self.driven: _Demand(tensor, rows, columns)}
        self.meets: dict[int, int] = {last: last}
        self.reaches: dict[int, Reaches] = {last: (Reach(), Reach())}
        self.fills = {last: whole_fill(tensor)}
        self.overlaps: dict[tuple[int, int], IntArray] = {}
        self.row_runs = {last: [whole_rows(width, pricing.chunk) for width in self.widths.sizes.tolist()]}

    def run(self) -> Iterator[BlockCosts]:
        yield from self._climb(self.last)

    def _climb(self, index: int) -> Iterator[BlockCosts]:
        while index >= 0 and self._add(index):
            yield from self._price(index)
            index -= 1

    def _price(self, first: int) -> Iterator[BlockCosts]:
        """The costs of what has been visited so far, nothing if it reads only part of a streamed input."""
        sources = [tensor for tensor in self.demands if tensor in self.pricing.streamed]
        if any(not self._reads_all(tensor, first) for tensor in sources):
            return
        reserved = reserved_bytes(self.stages + len(sources), self.pointers)
        rings, usable = self.rings.ravel(), self.usable.ravel()
        for tensor in sources:
            rings, usable = rings + self._ring(self.demands[tensor]).ravel(), usable & self.whole
        scratch = np.maximum(rings, self.tail_bytes) + (reserved + self.sums)
        columns = (*self.tiles, scratch, self.macs.ravel(), usable, self._shared(first))
        yield BlockCosts(first, self.last, self.driven, *columns)

    def _reads_all(self, tensor: int, first: int) -> bool:
        readers = self.graph.consumers[tensor]
        return first <= readers[0] and readers[-1] <= self.last

    def _shared(self, first: int) -> IntArray:
        """Bytes of the output that may lie over an input, [tilings]."""
        best = np.zeros_like(self.tiles[0])
        if self.pricing.overlap is None or self.folded or not self.graph.sizes[self.driven]:
            return best
        for tensor, demand in self.demands.items():
            dies = self.graph.producer[tensor] < first and self._stays_inside(tensor)
            if dies and self.graph.sizes[tensor] == demand.extent.nbytes and demand.readers:
                known = (tensor, len(demand.readers))
                if known not in self.overlaps:
                    self.overlaps[known] = self._shared_with(demand, self.pricing.overlap)
                best = np.maximum(best, self.overlaps[known])
        return best

    def _shared_with(self, demand: _Demand, alignment: int) -> IntArray:
        """Bytes of the output that may lie over one input, [tilings]."""
        source, output = demand.extent, self._result(self.last)
        shared = np.zeros_like(self.tiles[0])
        if not self.whole.all():
            rows, columns = (demand.rows, self.heights), (demand.columns, self.widths)
            distances = tiled_distances(source, output, rows, columns)
            if distances is not None:
                shared = shared_bytes(source, output, distances.ravel(), alignment)
        if self.whole.any():
            shared = np.where(self.whole, self._overlap(demand).shared(alignment), shared)
        return shared

    def _overlap(self, demand: _Demand) -> Overlap:
        readers = [(reader, self._result(reader.layer), self.fills[reader.layer]) for reader in demand.readers]
        return Overlap(demand.extent, self._result(self.last), readers, self.last, self.pricing.chunk)

    def _result(self, layer: int) -> BlockTensor:
        return self.graph.tensors[self.graph.layers[layer].outputs[0]]

    def _add(self, index: int) -> bool:
        """Adds one layer; False if no block that ends at ``last`` can contain it."""
        layer = self.graph.layers[index]
        if not layer.fusable or self.graph.accumulates(index) or layer.outputs[0] not in self.demands:
            return False
        tensor = layer.outputs[0]
        demand = self.demands[tensor]
        vanishes = layer.view or (layer.absorbed and demand.readers != [])
        if vanishes and self._stays_inside(tensor):
            self._rename(index, demand)
            return True
        stage = layer.stage
        if stage is None:
            return False
        if demand.readers:
            self._follow(index, demand)
            self._store(tensor, demand)
        if layer.macs:
            self.macs = self.macs + self._work(index, demand)
        self.stages += 1
        self.pointers = max(self.pointers, window_pointers(stage))
        for source in dict.fromkeys(layer.inputs):
            self._ask(index, source, stage, demand)
        return True

    def _work(self, index: int, demand: _Demand) -> IntArray:
        """Multiply-accumulates (or what else is counted) of what all tiles need of a layer, [heights, widths]."""
        layer = self.graph.layers[index]
        if layer.run_costs:
            return self._work_in_runs(demand, layer.run_costs) + self._broken_runs(index, demand, layer.run_costs)
        _, rows = longest_and_total(demand.rows, self.heights)
        _, columns = longest_and_total(demand.columns, self.widths)
        return np.multiply.outer(rows, columns) * (layer.macs // self.graph.tensors[layer.outputs[0]].pixels)

    def _work_in_runs(self, demand: _Demand, run_costs: tuple[int, ...]) -> IntArray:
        """What a region costs if its rows are computed one by one, each in runs as long as they may be."""
        _, rows = longest_and_total(demand.rows, self.heights)
        return np.multiply.outer(rows, total_in_runs(demand.columns, self.widths, self.pricing.chunk, run_costs))

    def _broken_runs(self, index: int, demand: _Demand, run_costs: tuple[int, ...]) -> IntArray | int:
        """What a layer costs beyond that because its reader asks for a row in pieces, [heights, widths].

        Worked out for the widest tile of every option; rows of a single run are in one piece.
        """
        if not demand.readers:
            return 0
        chunk, lengths = self.pricing.chunk, demand.columns.high - demand.columns.low
        first = max(demand.readers, key=lambda reader: (reader.asked[0].ahead, reader.asked[1].ahead))
        widths = np.maximum(np.maximum.reduceat(lengths, self.widths.first), 1).tolist()
        tiles = np.diff(np.append(self.widths.first, len(lengths))).tolist()
        self.row_runs[index] = [
            mix.pulled(first.windows, width, chunk, from_edge=count == 1)
            for mix, width, count in zip(self.row_runs[first.layer], widths, tiles, strict=True)
        ]
        more = [
            round(mix.cost(run_costs)) - row_cost(row_of_runs(width, chunk), run_costs)
            for mix, width in zip(self.row_runs[index], widths, strict=True)
        ]
        _, rows = longest_and_total(demand.rows, self.heights)
        long_rows = np.add.reduceat(lengths > chunk, self.widths.first, dtype=np.int64)
        total: IntArray = np.multiply.outer(rows, long_rows * more)
        return total

    def _ask(self, index: int, source: int, stage: Stage, demand: _Demand) -> None:
        """Notes what layer ``index`` needs of one of its inputs."""
        extent = self.graph.tensors[source]
        windows = stage_windows(stage)
        rows = needed(demand.rows, windows[0], extent.height)
        columns = needed(demand.columns, windows[1], extent.width)
        self._merge(source, rows, columns, [make_reader(index, windows, self.reaches[index])])

    def _stays_inside(self, tensor: int) -> bool:
        """Whether the block alone reads a tensor."""
        readers = self.graph.consumers[tensor]
        return bool(readers) and readers[-1] <= self.last and tensor not in self.graph.outputs

    def _rename(self, index: int, demand: _Demand) -> None:
        """Passes what is asked of a layer's output on to its input: RESHAPE does nothing, PAD is done by its readers.

        A view of another shape is not passed on; where it reads a network input it merely gives that another shape.
        """
        layer = self.graph.layers[index]
        source, written = (self.graph.tensors[tensor] for tensor in (layer.inputs[0], layer.outputs[0]))
        padding = (0, 0) if layer.stage is None else layer.stage.padding
        if layer.view and (source.height, source.width) != (written.height, written.width):
            if self.graph.producer[layer.inputs[0]] < 0 and self.graph.consumers[layer.inputs[0]] == (index,):
                self.demands[layer.inputs[0]] = demand
            return
        rows = needed(demand.rows, AxisWindow(1, padding[0], 1), source.height)
        columns = needed(demand.columns, AxisWindow(1, padding[1], 1), source.width)
        self._merge(layer.inputs[0], rows, columns, [add_padding(reader, padding) for reader in demand.readers])

    def _merge(self, source: int, rows: Ranges, columns: Ranges, readers: list[Reader]) -> None:
        known, extent = self.demands.get(source), self.graph.tensors[source]
        if known is None:
            self.demands[source] = _Demand(extent, rows, columns, readers)
        else:
            joined = union(known.rows, rows), union(known.columns, columns)
            self.demands[source] = _Demand(extent, *joined, known.readers + readers)

    def _follow(self, index: int, demand: _Demand) -> None:
        """Finds how far the layer's output leads, and the layer where all paths from it meet again."""
        self.reaches[index] = joint_reaches(demand.readers)
        self.meets[index] = self._meeting(demand.readers)
        if self.pricing.overlap is not None and not self.folded:
            fills = [self.fills[reader.layer].through(reader.windows, demand.extent) for reader in demand.readers]
            self.fills[index] = joint_fill(fills)

    def _meeting(self, readers: Sequence[Reader]) -> int:
        meeting = readers[0].layer
        for reader in readers[1:]:
            other = reader.layer
            while meeting != other:
                if meeting < other:
                    meeting = self.meets[meeting]
                else:
                    other = self.meets[other]
        return meeting

    def _store(self, tensor: int, demand: _Demand) -> None:
        """Finds room for a layer's output: in a FIFO, or whole outside the block's scratch."""
        if self._stays_inside(tensor):
            self.rings = self.rings + self._ring(demand)
            return
        rows = covers(demand.rows, self.heights, demand.extent.height)
        columns = covers(demand.columns, self.widths, demand.extent.width)
        self.usable = self.usable & np.logical_and.outer(rows, columns)

    def _ring(self, demand: _Demand) -> IntArray:
        """Bytes of a tensor's FIFO, [heights, widths]."""
        height, _ = longest_and_total(demand.rows, self.heights)
        width, _ = longest_and_total(demand.columns, self.widths)
        join = self.reaches[self._meeting(demand.readers)]
        pixels = fifo_pixels(demand.readers, join, height[:, None], width[None, :], self.pricing.chunk)
        # A FIFO nobody ever fills, as all that is read lies in padding, still has room for a pixel.
        return ring_bytes(np.maximum(pixels, 1), demand.extent.channels)


class FoldedWalk(Walk):
    """The same with an accumulator below: the driven tensor is its input, visited pixel by pixel and never stored."""

    def __init__(self, graph: LayerGraph, last: int, tail: int, tile_sizes: TileSizes, pricing: Pricing) -> None:
        driven = graph.through_views(graph.layers[tail].inputs[0])
        super().__init__(graph, last, tile_sizes, pricing, driven)
        visit = AxisWindow(1, 0, 1)
        self.demands[driven].readers.append(make_reader(last, (visit, visit), (Reach(), Reach())))
        self.tail = tail

    def run(self) -> Iterator[BlockCosts]:
        self._sum_up()
        first = self.tail
        while first > 0 and self._renames(first - 1, self.graph.layers[first].inputs):
            first -= 1
        yield from self._price(first)
        yield from self._climb(first - 1)

    def _sum_up(self) -> None:
        """Adds the accumulator and the single pixels behind it, computed once; these lie over the rings at the end."""
        graph = self.graph
        result = graph.through_views(graph.layers[self.last].outputs[0])
        for index in range(self.tail, self.last + 1):
            layer = graph.layers[index]
            self.macs = self.macs + layer.macs
            if index == self.tail and layer.run_costs:
                visits = self._work_in_runs(self.demands[self.driven], layer.run_costs)
                self.macs = self.macs + visits - rows_cost(graph.tensors[self.driven], layer.run_costs)
            if layer.stage is None:
                continue
            self.pointers = max(self.pointers, window_pointers(layer.stage))
            if layer.outputs[0] != result:
                self.tail_bytes += ring_bytes(1, graph.tensors[layer.outputs[0]].channels)
        stage = graph.layers[self.tail].stage
        if stage is not None:
            self.sums = accumulator_bytes(replace(stage, inputs=(self.driven,)), graph.tensors)

    def _renames(self, index: int, tensors: tuple[int, ...]) -> bool:
        return self.graph.layers[index].view and self.graph.layers[index].outputs == tensors
