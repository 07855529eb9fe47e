"""A program with costs for fusion: steps with window geometry and work, tensors with extents, no weights.

The search needs no weights, so it can price a model from its description alone. ``search/from_model.py`` prices a
.tflite model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tflite_fuse.ir.axes import PIXEL, AxisWindow, IntArray, Windows, stage_windows, whole_windows
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import CURSOR_BYTES, POINTER_BYTES
from tflite_fuse.ir.program import Program, Step
from tflite_fuse.ir.tail_shares import NO_TAIL, TailShares
from tflite_fuse.ops.lowering.view import Fit
from tflite_fuse.ops.table import KINDS, macs_per_pixel
from tflite_fuse.units import round_up


class WorkUnit(str, Enum):
    """Unit of work.

    Multiply-accumulates include taps on padding, as in the papers compared with. Instructions and cycles are predicted
    for the device library.
    """

    MACS = "macs"
    INSTRUCTIONS = "instructions"
    CYCLES = "cycles"


class SeenShape(NamedTuple):
    """An input of a step: height, width and channels as the step sees it, and the shapes that it accepts instead."""

    tensor: int
    shape: tuple[int, int, int]
    fit: Fit


@dataclass(frozen=True)
class PricedStep(Step):
    """One operator with its costs.

    Attributes:
        work: work of one inference, in the program's unit.
        stage: its window geometry (``inputs`` and ``output`` index the program's tensors; weights may be absent), or
            None if it cannot run inside a block.
        reason: one sentence with the reason why ``stage`` is None.
        view: True for an operator that only renames bytes (RESHAPE); it costs a block nothing.
        absorbed: True for an operator whose work its readers do themselves inside a block: a PAD before convolutions, a
            LOGISTIC before the MUL with its input.
        unit: first and last of the operators with which it becomes tables: a block contains all of them or none. None
            for an operator by itself.
        in_one_tile: whether blocks that contain it run in one tile, because a table passes over its output.
        run_costs: work of runs of 1, 2, … pixels of its output, if the unit depends on the length of runs; empty if all
            pixels cost the same.
        pull_cost: additional work of each of these runs if a step of the same block waits for it.
        seen_shapes: inputs of a stage, if their shapes may differ from those in which they are written.
    """

    work: int = 0
    stage: Stage | None = None
    reason: str = ""
    view: bool = False
    absorbed: bool = False
    unit: tuple[int, int] | None = None
    in_one_tile: bool = False
    run_costs: tuple[int, ...] = ()
    pull_cost: int = 0
    seen_shapes: tuple[SeenShape, ...] = ()

    @property
    def fusable(self) -> bool:
        return self.stage is not None or self.view

    @property
    def only_in_blocks(self) -> bool:
        """Return whether no runtime has an operator for it."""
        return self.stage is not None and self.stage.kind is StageKind.STATE


class Progress(NamedTuple):
    """Last row of one tensor that is complete while a layer begins row r of another.

    That row is ``min(r * scale + ahead, limit)``: the rows before it are complete, it is filled in part.
    """

    scale: IntArray
    ahead: IntArray
    limit: IntArray

    def through(self, window: AxisWindow, last: int) -> Progress:
        """Return the progress of a layer's input, whose last row is ``last``, given that of its output."""
        begun, ahead = self.ahead > _NOT_YET, self.ahead * window.stride + window.ahead
        limit = np.minimum(self.limit * window.stride + window.ahead, last)
        return Progress(self.scale * window.stride, *(np.where(begun, each, _NOT_YET) for each in (ahead, limit)))

    def furthest(self, other: Progress) -> Progress:
        """Return the further one of two, elementwise."""
        further = (self.ahead > other.ahead) | ((self.ahead == other.ahead) & (self.limit > other.limit))
        return Progress(*(np.where(further, *each) for each in zip(self, other, strict=True)))


_NOT_YET = -(1 << 30)


@dataclass(frozen=True)
class PricedProgram(Program):
    """A program whose steps have costs.

    Sizes may differ from the extents: 0 for a tensor that an accounting excludes, four bytes per value for float
    tensors around the int8 part. Variables count as inputs and as outputs.

    Attributes:
        steps: in execution order, one per operator of the model, same indices.
        tensors: extents of every tensor, NHWC with N = 1. ``BlockTensor.storage`` has no meaning here.
        tail: shares of the runtime's tail, if computed.
        unit: unit of work.
    """

    steps: tuple[PricedStep, ...]
    tensors: tuple[BlockTensor, ...] = ()
    tail: TailShares = NO_TAIL
    unit: WorkUnit = WorkUnit.MACS

    def reordered(self, order: Sequence[int]) -> PricedProgram:
        """Return the program with its steps in another order.

        Args:
            order: numbers of the steps; operators that become one table stay neighbours.

        Raises:
            ModelError: a step reads the output of a later one.
        """
        place = {step: index for index, step in enumerate(order)}

        def moved(step: PricedStep) -> PricedStep:
            if step.unit is None:
                return step
            places = [place[index] for index in range(step.unit[0], step.unit[1] + 1)]
            return replace(step, unit=(min(places), max(places)))

        program = super().reordered(order)
        assert isinstance(program, PricedProgram)
        shares = tuple(self.tail.operators[index] for index in order) if self.tail.operators else ()
        return replace(program, steps=tuple(map(moved, program.steps)), tail=replace(self.tail, operators=shares))

    def with_joined_branches(self, order: Sequence[int]) -> tuple[int, ...]:
        """Return an order of the steps with elementwise branches in this program's order; blocks hold them together."""
        there, joined = self.reordered(order), list(order)
        for first in range(len(order)):
            end = _joint(there, first) + 1
            joined[first:end] = sorted(joined[first:end])
        return tuple(joined)

    @cached_property
    def windows(self) -> dict[int, Windows]:
        """Windows on the rows and columns of the inputs of each layer that can be a stage.

        Strides without any step count as 1: they have no effect and would multiply.
        """
        windows: dict[int, Windows] = {}
        for index, layer in enumerate(self.steps):
            if layer.stage is not None:
                rows, columns = stage_windows(layer.stage)
                output = self.tensors[layer.stage.output]
                windows[index] = rows.over(output.height), columns.over(output.width)
        return windows

    @cached_property
    def enlarges(self) -> bool:
        """Whether any layer that can be a stage enlarges its input."""
        return any(window.spread > 1 for windows in self.windows.values() for window in windows)

    @cached_property
    def reads(self) -> dict[int, dict[int, Windows]]:
        """Inputs of each layer that can be a stage, with its windows on them."""
        return {
            index: {source: self._windows_on(index, source) for source in self.steps[index].inputs}
            for index in self.windows
        }

    def _windows_on(self, layer: int, tensor: int) -> Windows:
        step, source = self.steps[layer], self.tensors[tensor]
        assert step.stage is not None
        whole = KINDS[step.stage.kind].needs_all(step.inputs.index(tensor), source, self.tensors[step.outputs[0]])
        return whole_windows(source) if whole else self.windows[layer]

    @cached_property
    def inner_cuts(self) -> frozenset[int]:
        """Layers right behind cuts at which no block need begin or end: in joined branches, or behind an absorbed PAD.

        A block that starts with the PAD is never worse.
        """
        padding = (index for index, layer in enumerate(self.steps) if layer.absorbed)
        behind = {index + 1 for index in padding if index + 1 in self.consumers[self.steps[index].outputs[0]]}
        return frozenset(behind.union(*(range(first + 1, _joint(self, first) + 1) for first in range(len(self.steps)))))

    @cached_property
    def overwritten(self) -> frozenset[int]:
        """Tensors of which the only reader may compute in place: in a block both of its ends share a ring."""
        return frozenset(
            tensor
            for index, step in enumerate(self.steps)
            for tensor in step.inputs
            if step.stage is not None and not step.absorbed and self._may_overwrite(index, step.stage, tensor)
        )

    def _may_overwrite(self, index: int, stage: Stage, tensor: int) -> bool:
        alone = self.consumers[tensor] == (index,) and tensor not in self.outputs
        output = self.tensors[self.steps[index].outputs[0]]
        return alone and KINDS[stage.kind].may_overwrite(stage, self.tensors[tensor], output)

    @cached_property
    def row_progress(self) -> Progress:
        """Progress of one layer's output while another begins a row of its own, [the one, the other]."""
        return _row_progress(self)

    def is_read(self, tensor: int) -> bool:
        """Return whether any layer or the network's caller reads a tensor."""
        return bool(self.consumers[tensor]) or tensor in self.outputs

    def through_views(self, tensor: int) -> int:
        """Return the tensor whose bytes ``tensor`` renames, or itself if it is no view."""
        return self._renamed[tensor]

    @cached_property
    def _renamed(self) -> list[int]:
        sources = list(range(len(self.tensors)))
        for layer in self.steps:
            if layer.view:
                sources[layer.outputs[0]] = sources[layer.inputs[0]]
        return sources

    @cached_property
    def earliest(self) -> list[int]:
        """The earliest possible first step of the blocks that end in each step.

        A block stores a tensor in one shape, so it cannot contain two steps of which one reads another shape of the
        same bytes, such as other channels behind a RESHAPE.
        """
        return _earliest(self)

    def summed(self, layer: int) -> int:
        """Return the input of an accumulator as it is computed, before views of which it can read the source."""
        tensor, seen = self.steps[layer].inputs[0], self.steps[layer].seen_shapes
        while (writer := self.producer[tensor]) >= 0 and self.steps[writer].view:
            source = self.steps[writer].inputs[0]
            extent = self.tensors[source]
            if seen and not seen[0].fit.accepts((extent.height, extent.width, extent.channels), seen[0].shape):
                break
            tensor = source
        return tensor

    def accumulates(self, layer: int) -> bool:
        """Return whether a layer sums its whole input before it writes its one pixel."""
        return self._accumulating[layer]

    @cached_property
    def _accumulating(self) -> list[bool]:
        return [
            layer.stage is not None
            and bool(layer.stage.inputs)
            and KINDS[layer.stage.kind].accumulates(self.tensors[self.summed(index)])
            for index, layer in enumerate(self.steps)
        ]

    @property
    def work(self) -> int:
        """Return the work of one unfused inference."""
        return sum(layer.work for layer in self.steps)


def _joint(graph: PricedProgram, first: int) -> int:
    """Return the layer that joins the elementwise branches that begin with ``first`` on one tensor, or ``first``.

    At cuts between, one more tensor is live than before and behind them. It must take more bytes than the rings of a
    block that contains them all: a pixel and a cursor for each layer.
    """
    inside = {*graph.steps[first].inputs}
    for index in range(first, len(graph.steps) if len(inside) == 1 else first):
        step = graph.steps[index]
        if not _is_elementwise(graph, index) or not inside.issuperset(step.inputs):
            break
        if not any(each in graph.outputs or graph.consumers[each][-1:] > (index,) for each in inside):
            extent = graph.tensors[step.outputs[0]]
            ring = round_up(extent.pixel_bytes, POINTER_BYTES) + CURSOR_BYTES
            return index if (index - first) * ring < extent.nbytes else first
        inside.add(step.outputs[0])
    return first


def _is_elementwise(graph: PricedProgram, index: int) -> bool:
    """Return whether a layer computes each pixel from the same pixel of tensors of one size, without MACs."""
    step = graph.steps[index]
    if step.stage is None or set(graph.reads[index].values()) != {(PIXEL, PIXEL)}:
        return False
    extents = (graph.tensors[each] for each in (*step.inputs, *step.outputs))
    alike = len({(each.height, each.width, each.pixel_bytes) for each in extents}) == 1
    return alike and macs_per_pixel(step.stage, graph.tensors) == 0


def _earliest(graph: PricedProgram) -> list[int]:
    """Return the earliest first step of blocks by their last one; see ``PricedProgram.earliest``."""
    by_last, earliest, seen = [], 0, dict[int, list[tuple[int, SeenShape]]]()
    for index, step in enumerate(graph.steps):
        for shape in step.seen_shapes:
            root = graph.through_views(shape.tensor)
            for other, earlier in seen.get(root, ()):
                if not _alike(shape, earlier):
                    views = {*_views(graph, shape.tensor)} ^ {*_views(graph, earlier.tensor)}
                    earliest = max(earliest, min((other, *views)) + 1)
            seen.setdefault(root, []).append((index, shape))
        if step.stage is not None and step.seen_shapes:
            extent = graph.tensors[step.outputs[0]]
            written = SeenShape(step.outputs[0], (extent.height, extent.width, extent.channels), Fit.EXACT)
            seen.setdefault(step.outputs[0], []).append((index, written))
        by_last.append(earliest)
    return by_last


def _alike(first: SeenShape, second: SeenShape) -> bool:
    """Return whether a block can store a tensor so that both read it."""
    strict, other = sorted((first, second), key=lambda each: list(Fit).index(each.fit))
    return other.fit.accepts(strict.shape, other.shape)


def _views(graph: PricedProgram, tensor: int) -> Iterator[int]:
    """Yield the views that rename a tensor, from the last one up."""
    while (writer := graph.producer[tensor]) >= 0 and graph.steps[writer].view:
        yield writer
        tensor = graph.steps[writer].inputs[0]


def _row_progress(graph: PricedProgram) -> Progress:
    """Return the progress of one layer's output while another begins a row of its own, [the one, the other].

    It is computed from the last layer upwards, for all layers that begin a row at once; of the demands of a tensor's
    readers, the furthest counts.
    """
    count = len(graph.steps)
    not_begun = Progress(np.zeros(count, np.int64), np.full(count, _NOT_YET), np.full(count, _NOT_YET))
    progress = Progress(*(np.tile(each, (count, 1)) for each in not_begun))
    seen: dict[int, Progress] = {}
    for index in range(count - 1, -1, -1):
        layer = graph.steps[index]
        if not layer.outputs or not layer.fusable:
            continue
        required, rows = seen.get(layer.outputs[0], not_begun), graph.tensors[layer.outputs[0]].height
        for each, of_readers, of_itself in zip(progress, required, (1, 0, rows - 1), strict=True):
            each[index], each[index, index] = of_readers, of_itself
        own = Progress(*(each[index] for each in progress))
        for source in dict.fromkeys(layer.inputs):
            window = _row_window(graph, index, source)
            if window is not None and window.spread == 1:
                through = own.through(window, graph.tensors[source].height - 1)
                seen[source] = through.furthest(seen.get(source, not_begun))
    return progress


def _row_window(graph: PricedProgram, index: int, source: int) -> AxisWindow | None:
    """Return the window of a layer of a block on the rows of an input; None if there is no bound."""
    layer, written = graph.steps[index], graph.tensors[graph.steps[index].outputs[0]]
    if layer.view:
        return AxisWindow(1, 0, 1) if _rows(graph.tensors[source]) == _rows(written) else None
    if layer.stage is None or graph.accumulates(index) or layer.stage.kind is StageKind.STATE:
        return None
    return graph.reads[index][source][0]


def _rows(tensor: BlockTensor) -> tuple[int, int]:
    return tensor.height, tensor.width
