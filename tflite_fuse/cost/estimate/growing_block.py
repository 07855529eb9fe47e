"""Blocks that grow upwards layer by layer, with the memory of every step under many configurations at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tflite_fuse.cost.estimate.least_work import WorkLimit
from tflite_fuse.cost.estimate.overlap_distance import OutputOverlap
from tflite_fuse.cost.estimate.rings import Consumer, Demand, Grid, Rings, ScratchOverlap
from tflite_fuse.cost.priced_program import PricedProgram, PricedStep
from tflite_fuse.cost.schedule.tile_order import accumulator_bytes, reserved_bytes, ring_bytes, window_pointers
from tflite_fuse.ir.axes import PIXEL, AxisWindow, IntArray, covers
from tflite_fuse.ir.block import BlockTensor, StageKind
from tflite_fuse.ops.table import KINDS
from tflite_fuse.units import round_up

TileSizes = Callable[[BlockTensor], tuple[Sequence[int], Sequence[int]]]
"""Function from the driven tensor to the tile heights and tile widths to price."""


@dataclass(frozen=True)
class Pricing:
    """Conditions under which blocks are priced.

    Attributes:
        chunks: output pixels per step; each entry is priced.
        streamed: network inputs without memory: a block that reads one pulls each of its pixels once, into a ring.
        slow: tensors in the slow memory: a block that reads one copies each of its pixels once, into a ring.
        overlap_alignment: alignment in bytes of the distance at which a block may write its output, or its last rings,
            over an input without later readers; None if it must not.
        limit: limit on work; configurations that exceed it, and blocks without other ones, may be skipped. None without
            one.
        free_scratch: function from the first and last layer of a block to the bytes of scratch that do not raise the
            peak; overlaps of such scratch are not computed. None without it.
        divided: whether blocks for which the limit leaves a single tiling are skipped.
    """

    chunks: tuple[int, ...] = (1,)
    streamed: frozenset[int] = frozenset()
    slow: frozenset[int] = frozenset()
    overlap_alignment: int | None = None
    limit: WorkLimit | None = None
    free_scratch: Callable[[int, int], int] | None = field(default=None, compare=False)
    divided: bool = False

    def fits_free_memory(self, first: int, last: int, scratch: int) -> bool:
        """Return whether the scratch of a block fits into free memory, so that its overlaps do not matter."""
        if self.overlap_alignment is None or self.free_scratch is None:
            return False
        return round_up(scratch, self.overlap_alignment) <= self.free_scratch(first, last)


PLAIN = Pricing()
"""Every input and output of a block is stored whole in the arena, without overlaps."""


class BlockCosts(NamedTuple):
    """Costs of the block of layers ``first … last`` under every configuration.

    Attributes:
        driven: the tensor that is computed tile by tile.
        chunk, tile_height, tile_width: all combinations, [configurations] like all following arrays.
        scratch: bytes of rings, accumulators and workspace.
        work: in the graph's unit; halos count once for each tile that computes them. A few pixels too many count if a
            tensor has several readers with windows at different corners.
        usable: False if an output of the block would have holes, or a streamed input would be read twice.
        shared: bytes of output or of scratch that lie over an input.
    """

    first: int
    last: int
    driven: int
    chunk: IntArray
    tile_height: IntArray
    tile_width: IntArray
    scratch: IntArray
    work: IntArray
    usable: npt.NDArray[np.bool_]
    shared: IntArray


class Memory(NamedTuple):
    """Memory of a block, independent of its work; as in ``BlockCosts``, but [chunks, heights, widths]."""

    scratch: IntArray
    usable: npt.NDArray[np.bool_]
    shared: IntArray


class GrowingBlock:
    """A block that grows upwards from its last layer, one layer at a time, independent of the unit of work.

    Attributes:
        demands: demands of its layers on tensors that none of them writes.
        scratch, usable: as in ``BlockCosts``, [chunks, heights, widths]; scratch without the tail and the executor's
            data.
        begins: the latest layer that may be the first one, because units stay whole.
        computed: demand on the layer that was added last, if it computes anything.
    """

    def __init__(self, graph: PricedProgram, last: int, driven: int, grid: Grid, pricing: Pricing) -> None:
        self.graph, self.last, self.driven, self.grid, self.pricing = graph, last, driven, grid, pricing
        chunks = np.array(pricing.chunks, dtype=np.int64)[:, None, None]
        extent = graph.tensors[driven]
        oldest = np.arange(extent.height, dtype=np.int64) if graph.enlarges else None
        self.demands = {driven: Demand(extent, grid.heights.ranges, grid.widths.ranges, (), oldest)}
        ends = graph.through_views(graph.steps[last].outputs[0]) == driven
        self.rings = Rings(grid, chunks, graph.producer[driven] if ends and graph.producer[driven] >= 0 else last)
        self.output_overlap, alignment = None, pricing.overlap_alignment
        if alignment is not None and graph.steps[last].outputs[0] == driven and graph.sizes[driven]:
            self.output_overlap = OutputOverlap(graph, last, grid, pricing.chunks, alignment)
        self.scratch_overlap = None if alignment is None else ScratchOverlap(graph, grid, extent, alignment)
        self.scratch = self.zeros = np.zeros((len(chunks), *grid.shape), dtype=np.int64)
        self.usable = np.ones(self.zeros.shape, dtype=np.bool_)
        self.stages = self.pointers = self.sums = self.tail_bytes = 0
        self.begins = last
        self.computed: Demand | None = None
        self._in_place = set[int]()
        self._placed: dict[int, tuple[IntArray, IntArray]] = {}  # Ring of each layer: bytes behind it, and with it.

    def fold(self, tail: int) -> None:
        """Add the accumulator ``tail`` and the single pixels behind it, computed once, over the bytes of the rings.

        The driven tensor is the accumulator's input, which is visited pixel by pixel and never stored.
        """
        graph, visited = self.graph, self.demands[self.driven]
        self.demands[self.driven] = visited._replace(consumers=(Consumer(self.last, (PIXEL, PIXEL)),))
        result = graph.through_views(graph.steps[self.last].outputs[0])
        for index, layer in enumerate(graph.steps[tail : self.last + 1], start=tail):
            self._keep_unit_whole(index)
            if layer.stage is None:
                continue
            self.pointers = max(self.pointers, window_pointers(layer.stage))
            if layer.outputs[0] != result:
                self.tail_bytes += ring_bytes(1, graph.tensors[layer.outputs[0]].pixel_bytes)
        summing = graph.steps[tail]
        if summing.stage is not None:
            if KINDS[summing.stage.kind].sums_in_order:
                self.usable = self.usable & self.grid.has_whole_rows(graph.tensors[self.driven])
            self.sums = accumulator_bytes(replace(summing.stage, inputs=(self.driven,)), graph.tensors)

    def memory(self, first: int) -> Memory | None:
        """Return the memory of the block from layer ``first`` on.

        None if it splits a unit, starts at an inner cut, reads a tensor in two shapes or contains only part of a
        streamed input's readers.
        """
        if first > self.begins or first < self.graph.earliest[self.last] or first in self.graph.inner_cuts:
            return None
        sources = self.demands.keys() & self.pricing.streamed
        if not all(self._holds_all_readers(tensor, first) for tensor in sources):
            return None
        sources |= self.demands.keys() & self.pricing.slow
        scratch, usable = self.scratch, self.usable
        for tensor in sources:
            scratch = scratch + self.rings.bytes(self.demands[tensor])
            usable = usable & self.grid.is_whole(self.graph.tensors[self.driven])
        reserved = reserved_bytes(self.stages + len(sources), self.pointers)
        scratch = np.maximum(scratch, self.tail_bytes) + (reserved + self.sums)
        return Memory(scratch, usable, self._shared(first, scratch))

    def _holds_all_readers(self, tensor: int, first: int) -> bool:
        readers = self.graph.consumers[tensor]
        return first <= readers[0] and readers[-1] <= self.last

    def _shared(self, first: int, scratch: IntArray) -> IntArray:
        """Return the bytes of the output that may lie over an input, or of the scratch over an input of the network."""
        best = self.zeros
        if self.pricing.fits_free_memory(first, self.last, int(scratch.max())):
            return best
        for tensor, demand in self._dying(first):
            if self.output_overlap is not None:
                best = np.maximum(best, self.output_overlap.shared(tensor, demand))
            if self.scratch_overlap is not None and self.graph.producer[self.graph.through_views(tensor)] < 0:
                best = np.maximum(best, self.scratch_overlap.shared(demand, self.scratch, scratch))
        return best

    def _dying(self, first: int) -> Iterator[tuple[int, Demand]]:
        """Yield the inputs without later readers, with the demands on them."""
        for tensor, demand in self.demands.items():
            if self.graph.producer[tensor] < first and self._stays_inside(tensor) and demand.consumers:
                whole = self.graph.sizes[tensor] == demand.extent.nbytes
                if whole and all(consumer.moves_along for consumer in demand.consumers):
                    yield tensor, demand

    def add(self, index: int) -> bool:
        """Add one layer; return False if no block that ends at ``last`` can contain it."""
        layer, self.computed = self.graph.steps[index], None
        if not layer.fusable or self.graph.accumulates(index) or layer.outputs[0] not in self.demands:
            return False
        self._keep_unit_whole(index)
        if self.begins < 0:
            return False
        if layer.in_one_tile:
            self.usable = self.usable & self.grid.is_whole(self.graph.tensors[self.driven])
        demand, inside = self.demands[layer.outputs[0]], self._stays_inside(layer.outputs[0])
        if inside and (layer.view or (layer.absorbed and demand.consumers)):
            self._rename(index, layer, demand)
        elif layer.stage is None:
            return False
        else:
            if self.output_overlap is not None and self.graph.enlarges:
                self.output_overlap.by_rows |= any(window.spread > 1 for window in self.graph.windows[index])
            self._reserve_ring(index, demand, inside)
            if self._reduces_map_to_pixel(index):
                return False
            self.computed = demand
            self.stages += 1
            self.pointers = max(self.pointers, window_pointers(layer.stage))
            for source, windows in self.graph.reads[index].items():
                consumer = Consumer(index, windows, self.rings.reaches[index])
                self._require(source, demand.through(windows, self.graph.tensors[source], consumer))
        del self.demands[layer.outputs[0]]
        return True

    def _reduces_map_to_pixel(self, index: int) -> bool:
        """Return whether a layer turns a whole map into a value for all later pixels; its rings have no closed form."""
        rows, columns = self.rings.reaches[index]
        if rows.scale and columns.scale:
            return False
        return any(self.graph.tensors[source].pixels > 1 for source in self.graph.steps[index].inputs)

    def _keep_unit_whole(self, index: int) -> None:
        """Exclude a layer whose unit ends behind the block; extend the block to the start of its unit otherwise."""
        first, last = self.graph.steps[index].unit or (index, index)
        self.begins = -1 if last > self.last else min(self.begins, first)

    def _stays_inside(self, tensor: int) -> bool:
        """Return whether only the block reads a tensor."""
        readers = self.graph.consumers[tensor]
        return bool(readers) and readers[-1] <= self.last and tensor not in self.graph.outputs

    def _rename(self, index: int, layer: PricedStep, demand: Demand) -> None:
        """Apply the demand on a layer's output to its input: RESHAPE costs nothing, and its readers do the work of PAD.

        The demand ends at a view of another shape, unless the view reads a network input: then the input takes that
        shape.
        """
        for tensor in dict.fromkeys(layer.inputs):
            source = self.graph.tensors[tensor]
            if layer.view and (source.height, source.width) != (demand.extent.height, demand.extent.width):
                if self._renames_input(index):
                    self.demands[tensor] = demand
                return
            top, left = (0, 0) if layer.stage is None else layer.stage.padding
            consumers = (consumer.behind_padding((top, left)) for consumer in demand.consumers)
            self._require(tensor, demand.through((AxisWindow(1, top, 1), AxisWindow(1, left, 1)), source, *consumers))

    def _renames_input(self, index: int) -> bool:
        """Return whether a view's bytes are those of a network input without other readers."""
        tensor = self.graph.steps[index].inputs[0]
        writer = self.graph.producer[tensor]
        if self.graph.consumers[tensor] != (index,):
            return False
        return writer < 0 or (self.graph.steps[writer].view and self._renames_input(writer))

    def _require(self, source: int, demand: Demand) -> None:
        earlier = self.demands.get(source)
        self.demands[source] = demand if earlier is None else earlier.joined(demand)

    def _reserve_ring(self, index: int, demand: Demand, inside: bool) -> None:
        """Reserve a ring for a layer's output, or a whole tensor outside the scratch, and compute its reach."""
        stage = self.graph.steps[index].stage
        is_state = stage is not None and stage.kind is StageKind.STATE
        if is_state:
            # Its ring is kept between inferences; the block's output is a copy.
            self.usable = self.usable & self.grid.is_whole(self.graph.tensors[self.driven])
            self.stages += not inside
        if stage is not None and KINDS[stage.kind].memory_bytes(demand.extent):
            # It computes all steps in order, and so do its readers.
            self.usable = self.usable & self._is_whole(demand) & self.grid.is_whole(self.graph.tensors[self.driven])
        if not demand.consumers:
            return
        self.rings.follow(index, demand.consumers)
        if self.output_overlap is not None:
            self.output_overlap.follow(index, demand)
        if is_state:
            return
        if inside:
            self._placed[index] = self._ring(index, demand)
            self.rings.keep(index, demand)
            if self.scratch_overlap is not None:
                self.scratch_overlap.add(index, demand, *self._placed[index])
            return
        self.usable = self.usable & self._is_whole(demand)
        if self.graph.steps[index].outputs[0] in self.pricing.slow:
            self._copy_out(demand)

    def _ring(self, index: int, demand: Demand) -> tuple[IntArray, IntArray]:
        """Return the bytes of the rings behind a layer's, and of those with it, which are now in scratch."""
        reader = demand.consumers[0].layer
        overwritten = self.graph.steps[index].outputs[0] in self.graph.overwritten
        if overwritten and reader in self._placed and reader not in self._in_place:
            self._in_place.add(reader)
            return self._placed[reader]
        behind, self.scratch = self.scratch, self.scratch + self.rings.bytes(demand)
        early = self.rings.early(demand) if len(demand.consumers) > 1 else None
        if early is not None:
            helps = self.grid.is_whole(self.graph.tensors[self.driven]) & (sum(early) < 0)
            behind = behind + np.where(helps, early[0], 0)
            self.scratch = self.scratch + np.where(helps, sum(early), 0)
        return behind, self.scratch

    def _copy_out(self, demand: Demand) -> None:
        """Keep a tensor in a ring and copy it to the slow memory, if a reader can wait for the copy."""
        results = [self.graph.tensors[self.graph.steps[each.layer].outputs[0]] for each in demand.consumers]
        alike = any((each.height, each.width) == (demand.extent.height, demand.extent.width) for each in results)
        self.usable = self.usable & self.grid.is_whole(self.graph.tensors[self.driven]) & alike
        self.scratch = self.scratch + self.rings.bytes(demand)
        self.stages += 1

    def _is_whole(self, demand: Demand) -> npt.NDArray[np.bool_]:
        """Return the tilings under which the demand covers the whole tensor."""
        rows = covers(demand.rows, self.grid.heights, demand.extent.height)
        columns = covers(demand.columns, self.grid.widths, demand.extent.width)
        whole: npt.NDArray[np.bool_] = np.logical_and.outer(rows, columns)
        return whole
