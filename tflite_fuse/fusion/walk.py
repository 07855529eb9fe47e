"""Growing a block upwards, layer by layer, with the cost of every step under many tilings at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tflite_fuse.fusion.block import BlockTensor, Stage
from tflite_fuse.fusion.cost_tables import (
    AxisWindow,
    IntArray,
    Ranges,
    covers,
    longest_and_total,
    make_tilings,
    needed,
    union,
)
from tflite_fuse.fusion.fifo import (
    Reach,
    Reaches,
    Reader,
    Windows,
    add_padding,
    fifo_pixels,
    joint_reaches,
    make_reader,
)
from tflite_fuse.fusion.geometry import LayerGraph
from tflite_fuse.fusion.schedule import (
    CURSOR_BYTES,
    POINTER_BYTES,
    SCRATCH_ALIGNMENT,
    STACK_POINTERS,
    accumulator_bytes,
    aligned,
    window_pointers,
)

TileSizes = Callable[[BlockTensor], tuple[Sequence[int], Sequence[int]]]
"""From the driven tensor to the tile heights and tile widths to price."""


@dataclass(frozen=True)
class BlockCosts:
    """The block of layers ``first … last`` under every tiling.

    Attributes:
        driven: the tensor that is computed tile by tile.
        tile_height, tile_width: every height with every width, [tilings] like all that follow.
        scratch: bytes of FIFOs, accumulators and workspace.
        macs: multiply-accumulates executed, halos counted once per tile that computes them.
        usable: False where an output of the block would be left with holes.
    """

    first: int
    last: int
    driven: int
    tile_height: IntArray
    tile_width: IntArray
    scratch: IntArray
    macs: IntArray
    usable: npt.NDArray[np.bool_]


def stage_windows(stage: Stage) -> Windows:
    """How a stage looks at its input's rows and columns."""
    rows, columns = (AxisWindow(stage.stride[axis], stage.padding[axis], stage.extent[axis]) for axis in (0, 1))
    return rows, columns


@dataclass
class _Demand:
    """What the layers visited so far ask of one tensor."""

    rows: Ranges
    columns: Ranges
    readers: list[Reader] = field(default_factory=list)


class Walk:
    """Grows a block upwards from its last layer, one layer at a time; the driven tensor is the last layer's output."""

    def __init__(
        self, graph: LayerGraph, last: int, tile_sizes: TileSizes, chunk: int, driven: int | None = None
    ) -> None:
        self.graph, self.last, self.chunk = graph, last, chunk
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
        self.demands = {self.driven: _Demand(rows, columns)}
        self.meets: dict[int, int] = {last: last}
        self.reaches: dict[int, Reaches] = {last: (Reach(), Reach())}

    def run(self) -> Iterator[BlockCosts]:
        yield from self._climb(self.last)

    def _climb(self, index: int) -> Iterator[BlockCosts]:
        while index >= 0 and self._add(index):
            yield self._costs(index)
            index -= 1

    def _costs(self, first: int) -> BlockCosts:
        reserved = aligned(CURSOR_BYTES * self.stages, POINTER_BYTES)
        if self.pointers > STACK_POINTERS:
            reserved += POINTER_BYTES * self.pointers
        scratch = np.maximum(self.rings, self.tail_bytes) + (reserved + self.sums)
        columns = (*self.tiles, scratch.ravel(), self.macs.ravel(), self.usable.ravel())
        return BlockCosts(first, self.last, self.driven, *columns)

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
        height, rows = longest_and_total(demand.rows, self.heights)
        width, columns = longest_and_total(demand.columns, self.widths)
        if demand.readers:
            self._follow(index, demand)
            self._store(index, tensor, demand, (height[:, None], width[None, :]))
        if layer.macs:
            self.macs = self.macs + np.multiply.outer(rows, columns) * (layer.macs // self.graph.tensors[tensor].pixels)
        self.stages += 1
        self.pointers = max(self.pointers, window_pointers(stage))
        for source in dict.fromkeys(layer.inputs):
            self._ask(index, source, stage, demand)
        return True

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

        A view of another shape is passed only at the start of a block, where it merely names the block's input.
        """
        layer = self.graph.layers[index]
        source, written = (self.graph.tensors[tensor] for tensor in (layer.inputs[0], layer.outputs[0]))
        padding = (0, 0) if layer.stage is None else layer.stage.padding
        if layer.view and (source.height, source.width) != (written.height, written.width):
            return
        rows = needed(demand.rows, AxisWindow(1, padding[0], 1), source.height)
        columns = needed(demand.columns, AxisWindow(1, padding[1], 1), source.width)
        self._merge(layer.inputs[0], rows, columns, [add_padding(reader, padding) for reader in demand.readers])

    def _merge(self, source: int, rows: Ranges, columns: Ranges, readers: list[Reader]) -> None:
        known = self.demands.get(source)
        if known is None:
            self.demands[source] = _Demand(rows, columns, readers)
        else:
            joined = union(known.rows, rows), union(known.columns, columns)
            self.demands[source] = _Demand(*joined, known.readers + readers)

    def _follow(self, index: int, demand: _Demand) -> None:
        """Finds the reach of a layer's output and the layer where all paths from it meet again."""
        self.reaches[index] = joint_reaches(demand.readers)
        meeting = demand.readers[0].layer
        for reader in demand.readers[1:]:
            other = reader.layer
            while meeting != other:
                if meeting < other:
                    meeting = self.meets[meeting]
                else:
                    other = self.meets[other]
        self.meets[index] = meeting

    def _store(self, index: int, tensor: int, demand: _Demand, region: tuple[IntArray, IntArray]) -> None:
        """Finds room for a layer's output: in a FIFO, or whole outside the block's scratch."""
        extent = self.graph.tensors[tensor]
        if not self._stays_inside(tensor):
            rows = covers(demand.rows, self.heights, extent.height)
            columns = covers(demand.columns, self.widths, extent.width)
            self.usable = self.usable & np.logical_and.outer(rows, columns)
            return
        join = self.reaches[self.meets[index]]
        pixels = fifo_pixels(demand.readers, join, *region, self.chunk)
        self.rings = self.rings - (-pixels * extent.channels // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


class FoldedWalk(Walk):
    """The same with an accumulator below: the driven tensor is its input, visited pixel by pixel and never stored."""

    def __init__(self, graph: LayerGraph, last: int, tail: int, tile_sizes: TileSizes, chunk: int) -> None:
        driven = graph.through_views(graph.layers[tail].inputs[0])
        super().__init__(graph, last, tile_sizes, chunk, driven)
        visit = AxisWindow(1, 0, 1)
        self.demands[driven].readers.append(make_reader(last, (visit, visit), (Reach(), Reach())))
        self.tail = tail

    def run(self) -> Iterator[BlockCosts]:
        self._sum_up()
        first = self.tail
        while first > 0 and self._renames(first - 1, self.graph.layers[first].inputs):
            first -= 1
        yield self._costs(first)
        yield from self._climb(first - 1)

    def _sum_up(self) -> None:
        """Adds the accumulator and the single pixels behind it, computed once; these lie over the rings at the end."""
        graph = self.graph
        result = graph.through_views(graph.layers[self.last].outputs[0])
        for layer in graph.layers[self.tail : self.last + 1]:
            self.macs = self.macs + layer.macs
            if layer.stage is None:
                continue
            self.pointers = max(self.pointers, window_pointers(layer.stage))
            if layer.outputs[0] != result:
                self.tail_bytes += aligned(graph.tensors[layer.outputs[0]].channels)
        stage = graph.layers[self.tail].stage
        if stage is not None:
            self.sums = aligned(accumulator_bytes(replace(stage, inputs=(self.driven,)), graph.tensors))

    def _renames(self, index: int, tensors: tuple[int, ...]) -> bool:
        return self.graph.layers[index].view and self.graph.layers[index].outputs == tensors
