"""Lower bound on the arena over all choices of blocks, for a given order of operators.

With any blocks, the model runs as a sequence of steps: a step is one operator, or a block of neighbouring operators.
While a step runs, these bytes are live at once, for all tilings, run lengths and placements:

- tensors written before it and needed after it, whole;
- the tensors that it reads for the last time, and its outputs for others, whole. If outputs may lie over inputs, it is
  the larger of the two sums, because all inputs are live when the step begins, and all outputs when it ends;
- in a block, in addition to its outputs, for every inner tensor the pixels under one window of its reader: they are in
  the ring together, because a kernel reads them at once. For several readers, the largest window counts. The cursor of
  every stage and the sums of a folded tail are needed from the start, so they also count in addition to the inputs,
  over which rings may lie.

Every sequence of steps thus has a peak and a tail (persistent bytes of operators and tensors), and the least sum of
both over all sequences is a lower bound on every arena. All tilings are covered, and more sequences are counted than
exist (a range need not be a block): both can only lower the bound.

The estimates of ``cut_graph`` are upper bounds of a block's needs; these are lower bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tflite_fuse.cost.estimate.block_costs import find_tail
from tflite_fuse.cost.estimate.least_work import computed_whole
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.cost.schedule.tile_order import SCRATCH_ALIGNMENT, accumulator_bytes
from tflite_fuse.ir.axes import AxisWindow, IntArray, stage_windows
from tflite_fuse.ir.block import Stage
from tflite_fuse.ir.limits import CURSOR_BYTES, POINTER_BYTES
from tflite_fuse.search.cut_graph import Residency
from tflite_fuse.units import round_up


@dataclass(frozen=True)
class BoundRules:
    """Permissions of steps.

    Attributes:
        moved: network inputs without memory in the arena.
        streamed: whether blocks pull those through a ring; otherwise they lie whole outside the arena.
        overlap: whether a block's outputs may lie over inputs that it reads for the last time.
        in_place: whether the same holds for operators.
        alignment: every tensor takes a multiple of this many bytes.
    """

    moved: frozenset[int] = frozenset()
    streamed: bool = False
    overlap: bool = True
    in_place: bool = False
    alignment: int = 16


class _Label(NamedTuple):
    """A sequence of steps up to a cut: its largest step so far, and its share of the tail, in bytes."""

    peak: int
    tail: int


def least_arena(graph: PricedProgram, rules: BoundRules = BoundRules()) -> int:
    """Return a lower bound in bytes over all choices of blocks in this order, ``graph.tail`` included.

    For a bound on the real arena, the tail's shares must be lower bounds, too.

    Args:
        graph: operators in execution order, without any blocks.
        rules: permissions of steps.
    """
    sizes = tuple(0 if index in rules.moved else size for index, size in enumerate(graph.sizes))
    graph = replace(graph, sizes=sizes)
    steps = _Steps(graph, rules)
    labels: list[list[_Label]] = [[_Label(steps.residency.start, graph.tail.fixed)]]
    for last in range(len(graph.steps)):
        extended: list[_Label] = []
        for first, peak, tail in steps.ending_at(last):
            extended += [_Label(max(before, peak), so_far + tail) for before, so_far in labels[first]]
        labels.append(_undominated(extended))
    return min(label.peak + label.tail for label in labels[-1]) if labels[-1] else 0


def _undominated(labels: Sequence[_Label]) -> list[_Label]:
    kept: list[_Label] = []
    for label in sorted(labels):
        if not kept or label.tail < kept[-1].tail:
            kept.append(label)
    return kept


class _Steps:
    """The steps that end at a layer, with the least bytes live while each runs."""

    def __init__(self, graph: PricedProgram, rules: BoundRules) -> None:
        self.graph, self.rules = graph, rules
        self.residency = Residency(graph, rules.alignment)
        self._dying = _within(graph, [round_up(size, rules.alignment) for size in graph.sizes], inner=False)
        self._rings = _within(graph, _least_rings(graph, rules), inner=True)
        self._cursors = [CURSOR_BYTES * _has_cursor(graph, index) for index in range(len(graph.steps))]
        self._sums = [_sums(graph, index) for index in range(len(graph.steps))]

    def ending_at(self, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield (first layer, bytes of the head, bytes of the tail) of every step that ends at a layer."""
        graph, tail = self.graph, self.graph.tail
        if self.rules.moved.isdisjoint(graph.steps[last].inputs):
            yield last, self._live(last, last, self.rules.in_place), tail.of_operator(last)
        folded, cursors, sums = find_tail(graph, last) if graph.steps[last].fusable else None, 0, 0
        for first in range(last, -1, -1):
            if not self._may_hold(first, last, folded):
                break
            cursors, sums = cursors + self._cursors[first], sums + self._sums[first]
            from_the_start = round_up(cursors, POINTER_BYTES) + sums
            scratch = round_up(from_the_start + self._rings[first][last], self.rules.alignment)
            head = self._live_in_block(first, last, round_up(from_the_start, self.rules.alignment), scratch)
            yield first, head, tail.of_block(self.residency.results(first, last))

    def _may_hold(self, index: int, last: int, folded: int | None) -> bool:
        """Return whether a block that ends at ``last`` might contain a layer; some ranges that are no blocks pass."""
        layer = self.graph.steps[index]
        if not layer.fusable or (self.graph.accumulates(index) and index != folded):
            return False
        readers = self.graph.consumers[layer.outputs[0]]
        return index == last or (bool(readers) and readers[0] <= last)

    def _live_in_block(self, first: int, last: int, from_the_start: int, scratch: int) -> int:
        """Return the bytes live while a block runs; with overlaps, the larger of those at its start and its end."""
        dying, outliving = self._dying[first][last], self.residency.outliving(first, last)
        if not self.rules.overlap:
            return self.residency.live_at(first) + outliving + scratch
        return self.residency.live_at(first) - dying + max(dying + from_the_start, outliving + scratch)

    def _live(self, first: int, last: int, shares: bool) -> int:
        """Return the bytes live while an operator runs."""
        dying, outliving = self._dying[first][last], self.residency.outliving(first, last)
        return self.residency.live_at(first) - (min(dying, outliving) if shares else 0) + outliving


def _within(graph: PricedProgram, weights: Sequence[int], *, inner: bool) -> list[list[int]]:
    """Return sums of tensors' weights for every range of layers, [first, last].

    Args:
        graph: the graph of the tensors.
        weights: one per tensor.
        inner: True for tensors that the range writes (or streams) and whose readers it all contains; False for tensors
            written before it that it reads last.
    """
    count = len(graph.steps)
    sums = np.zeros((count, count), dtype=np.int64)
    for tensor, weight in enumerate(weights):
        readers, producer = graph.consumers[tensor], graph.producer[tensor]
        if not weight or not readers or tensor in graph.outputs:
            continue
        if inner:
            sums[: (producer if producer >= 0 else readers[0]) + 1, readers[-1] :] += weight
        else:
            sums[producer + 1 : readers[-1] + 1, readers[-1] :] += weight
    by_range: list[list[int]] = sums.tolist()
    return by_range


def _has_cursor(graph: PricedProgram, index: int) -> bool:
    """Return whether a layer is a stage in every block that contains it, except single pixels of a folded tail."""
    layer = graph.steps[index]
    return layer.stage is not None and not layer.absorbed and graph.tensors[layer.outputs[0]].pixels > 1


def _sums(graph: PricedProgram, index: int) -> int:
    """Return the bytes of the sums that a layer keeps in a block."""
    layer = graph.steps[index]
    if layer.stage is None or not graph.accumulates(index):
        return 0
    source = graph.summed(index)
    return round_up(accumulator_bytes(replace(layer.stage, inputs=(source,)), graph.tensors), SCRATCH_ALIGNMENT)


def _least_rings(graph: PricedProgram, rules: BoundRules) -> list[int]:
    """Return for each tensor the fewest bytes of its ring in a block; 0 if it may have none."""
    complete = computed_whole(graph)
    return [_least_ring(graph, tensor, complete, rules) for tensor in range(len(graph.tensors))]


def _least_ring(graph: PricedProgram, tensor: int, complete: Sequence[bool], rules: BoundRules) -> int:
    """Return the fewest bytes of a tensor's ring in a block; 0 if it may have none."""
    producer, extent = graph.producer[tensor], graph.tensors[tensor]
    if producer < 0:
        if not (rules.streamed and tensor in rules.moved):
            return 0
    elif graph.steps[producer].view or graph.steps[producer].absorbed or extent.pixels == 1:
        return 0  # A view has no ring; a single pixel may belong to a folded tail.
    if tensor in graph.overwritten:
        return 0
    pixels = 0
    for reader, padding in _through_padding(graph, tensor):
        if graph.accumulates(reader):
            return 0  # The driven tensor of a folded tail is summed, not stored.
        stage = graph.steps[reader].stage
        if stage is None:
            return 0
        result = graph.steps[reader].outputs[0]
        pixels = max(pixels, _window_pixels(graph, tensor, stage, padding, result, complete[result]))
    return round_up(max(pixels, 1) * extent.pixel_bytes, SCRATCH_ALIGNMENT)


def _through_padding(graph: PricedProgram, tensor: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the layers that read a tensor in a block, with the padding that absorbed PADs add."""
    for reader in graph.consumers[tensor]:
        layer = graph.steps[reader]
        if layer.absorbed and layer.stage is not None:
            for behind in graph.consumers[layer.outputs[0]]:
                yield behind, layer.stage.padding
        else:
            yield reader, (0, 0)


def _window_pixels(
    graph: PricedProgram, tensor: int, stage: Stage, padding: tuple[int, int], result: int, complete: bool
) -> int:
    """Return the fewest pixels of a tensor under the largest window of a stage that a block computes.

    A block that computes all of the stage's output has its largest window; otherwise any window may be the only one.
    """
    source, written = graph.tensors[tensor], graph.tensors[result]
    total = 1
    for window, more, taps, dilation, length, count in zip(
        stage_windows(stage),
        padding,
        stage.kernel_size,
        stage.dilation,
        (source.height, source.width),
        (written.height, written.width),
        strict=True,
    ):
        if window.spread > 1:
            continue  # Windows on a spread input may cover no pixel.
        moved = window.padded(more)
        seen = _taps_inside(moved, taps, dilation, length, count)
        total *= int(seen.max() if complete else seen.min())
    return total


def _taps_inside(window: AxisWindow, taps: int, dilation: int, length: int, count: int) -> IntArray:
    """Return for each of ``count`` windows the number of taps inside an axis of ``length`` positions."""
    starts = np.arange(count, dtype=np.int64) * window.stride - window.padding
    first = np.maximum(-(starts // dilation), 0)
    behind = np.minimum((length - 1 - starts) // dilation + 1, taps)
    inside: IntArray = np.maximum(behind - first, 0)
    return inside
