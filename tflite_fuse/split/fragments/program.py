"""One device's part of a plan as steps over one buffer, with every offset.

    receive rows 0 … 9 of the image from the coordinator to byte 0; run block 0 from byte 0 to byte 4,800; copy row 9 of
    its output to a piece that is read later; send row 9 to worker 1; …

Every device handles its messages in the order of the plan's transfers. So sender and receiver of the first transfer
that is not done have nothing else to do before it: there is no deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tflite_fuse.errors import PlanError
from tflite_fuse.split.cut.plan import Transfer
from tflite_fuse.split.cut.regions import Box, Region, intersect, subtract, whole
from tflite_fuse.split.fragments.blocks import Part
from tflite_fuse.split.fragments.buffer import DeviceBuffer, Key, Moment, Scope
from tflite_fuse.split.protocol import PAYLOAD_BYTES

MOST_OPERANDS = 16
"""Most inputs, and most outputs, of a block: the device keeps their addresses on its stack."""

Extent = tuple[int, int, int]
"""Rows, columns, contiguous bytes."""


@dataclass(frozen=True)
class View:
    """A box of a tensor in the buffer: in each row and column ``run`` contiguous bytes.

    Attributes:
        offset: of the first byte.
        rows, columns, run: numbers of each.
        row_stride, column_stride: bytes from one to the next.
    """

    offset: int
    rows: int
    columns: int
    run: int
    row_stride: int
    column_stride: int

    @property
    def nbytes(self) -> int:
        return self.rows * self.columns * self.run


@dataclass(frozen=True)
class Message:
    """A transfer from or to a peer: the bytes of its views in order. ``number`` counts the messages before it."""

    sends: bool
    peer: int
    views: tuple[View, ...]
    number: int

    @property
    def nbytes(self) -> int:
        return sum(view.nbytes for view in self.views)


@dataclass(frozen=True)
class Copy:
    """A copy between two views of the same extent."""

    source: View
    target: View


@dataclass(frozen=True)
class Run:
    """A block with the offsets of its inputs, outputs and scratch."""

    part: Part
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    scratch: int


@dataclass(frozen=True)
class Operator:
    """An operator that no block holds, with the offsets of its inputs and outputs, in the order of the node."""

    node: int
    number: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


DeviceStep = Message | Copy | Run | Operator


@dataclass(frozen=True)
class DeviceProgram:
    """The program of one device.

    Attributes:
        device: a worker, or the coordinator.
        workers: number of workers of the plan.
        buffer_bytes: of its buffer.
        steps: in order.
        inputs, outputs: (offset, bytes) of the model's, at the coordinator.
    """

    device: int
    workers: int
    buffer_bytes: int
    steps: tuple[DeviceStep, ...]
    inputs: tuple[tuple[int, int], ...] = ()
    outputs: tuple[tuple[int, int], ...] = ()


def device_program(buffer: DeviceBuffer) -> DeviceProgram:
    """Return a device's program.

    Raises:
        PlanError: a block has more operands than a device supports, or a step reads parts that the device does not
            hold.
    """
    return _Builder(buffer).program()


def parts_of(program: DeviceProgram) -> list[Part]:
    """Return the blocks that a device stores, each once."""
    return list({id(step.part.plan): step.part for step in program.steps if isinstance(step, Run)}.values())


class _Builder:
    def __init__(self, buffer: DeviceBuffer) -> None:
        self.network, self.plan, self.device, self.buffer = buffer.network, buffer.plan, buffer.device, buffer
        placed = buffer.placed()
        self.height, self.offsets = placed.height, placed.offsets
        self.number = self.buffer.numbers
        self.sent: dict[tuple[bool, int], int] = {}

    def program(self) -> DeviceProgram:
        steps: list[DeviceStep] = []
        temporary = len(self.number)
        for moment in self.buffer.moments:
            places = self.offsets[temporary : temporary + len(moment.temporary)]
            temporary += len(places)
            if moment.part is not None:
                steps += self._block(moment, moment.part, places)
            elif moment.node is not None:
                steps.append(self._operator(moment, moment.node))
            for transfer in moment.transfers:
                steps += self._message(transfer)
        ends = [self._ends(values) for values in (self.network.inputs, self.network.outputs)] if self.device < 0 else []
        return DeviceProgram(self.device, self.plan.workers, self.height, tuple(steps), *ends)

    def _ends(self, values: Iterable[int]) -> tuple[tuple[int, int], ...]:
        boxes = {value: whole(self.network.shape(value)) for value in values}
        return tuple((self._start((value, -1), box), box.volume) for value, box in boxes.items())

    def _message(self, transfer: Transfer) -> Iterator[DeviceStep]:
        sends = transfer.source == self.device
        peer = transfer.target if sends else transfer.source
        number = self.sent.get((sends, peer), 0)
        scope = transfer.value, -1
        views = tuple(self._view(self._holder(scope, box), box) for box in transfer.region)
        message = Message(sends, peer, views, number)
        self.sent[sends, peer] = number + -(-message.nbytes // PAYLOAD_BYTES)
        yield message
        if not sends:
            for box in transfer.region:
                yield from self._spread(scope, box, self._holder(scope, box))

    def _operator(self, moment: Moment, index: int) -> Operator:
        node = self.network.nodes[index]
        starts = [
            tuple(self._start(moment.scope(value), whole(self.network.shape(value))) for value in values)
            for values in (node.inputs, node.outputs)
        ]
        return Operator(index, node.operator, *starts)

    def _block(self, moment: Moment, part: Part, places: Sequence[int]) -> Iterator[DeviceStep]:
        if max(len(part.inputs), len(part.outputs)) > MOST_OPERANDS:
            name = self.network.nodes[part.pieces[-1].node].name
            raise PlanError(f"the block that ends with {name} has more than {MOST_OPERANDS} inputs or outputs")
        copies = iter(places)
        inputs, outputs = list[int](), list[int]()
        after = list[DeviceStep]()
        for (value, box), at in zip(part.inputs, moment.inputs, strict=True):
            inputs.append(self._at(at) if at is not None else next(copies))
            if at is None:
                yield from self._gathered(moment.scope(value), box, inputs[-1])
        for (value, box), at in zip(part.outputs, moment.outputs, strict=True):
            outputs.append(self._at(at) if at is not None else next(copies))
            if at is None:
                after += self._scattered(moment.scope(value), box, outputs[-1])
            else:
                after += self._spread(moment.scope(value), box, at[0])
        yield Run(part, tuple(inputs), tuple(outputs), next(copies))
        yield from after

    # ---- Places ----

    def _at(self, found: tuple[Key, int]) -> int:
        key, byte = found
        return self.offsets[self.number[key]] + byte

    def _piece(self, key: Key) -> Box:
        return self.buffer.pieces[key[0]][key[1]]

    def _holder(self, scope: Scope, box: Box) -> Key:
        """Return the first piece that holds all of a box."""
        for key in self.buffer.touched(scope, (box,)):
            if not subtract((box,), (self._piece(key),)):
                return key
        raise PlanError(f"a part of {self.network.values[scope[0]].name} lies in no piece of device {self.device}")

    def _start(self, scope: Scope, box: Box) -> int:
        return self._view(self._holder(scope, box), box).offset

    def _view(self, key: Key, box: Box) -> View:
        piece = self._piece(key)
        return _view(self.offsets[self.number[key]], piece, box)

    # ---- Copies ----

    def _spread(self, scope: Scope, box: Box, written: Key) -> Iterator[Copy]:
        """Yield copies of a box from the piece it was written to into all others that overlap it."""
        for key in self.buffer.touched(scope, (box,)):
            for shared in intersect((box,), (self._piece(key),)) if key != written else ():
                yield _copy(self._view(written, shared), self._view(key, shared))

    def _gathered(self, scope: Scope, box: Box, offset: int) -> Iterator[Copy]:
        """Yield copies of a box into one place from the pieces that hold parts of it."""
        missing: Region = (box,)
        for key in self.buffer.touched(scope, (box,)):
            for shared in intersect(missing, (self._piece(key),)):
                yield _copy(self._view(key, shared), _view(offset, box, shared))
            missing = subtract(missing, (self._piece(key),))
        if missing:
            raise PlanError(f"a part of {self.network.values[scope[0]].name} lies in no piece of device {self.device}")

    def _scattered(self, scope: Scope, box: Box, offset: int) -> Iterator[Copy]:
        """Yield copies of a box from one place into all pieces that overlap it."""
        for key in self.buffer.touched(scope, (box,)):
            for shared in intersect((box,), (self._piece(key),)):
                yield _copy(_view(offset, box, shared), self._view(key, shared))


def _view(offset: int, outer: Box, box: Box) -> View:
    """Return the view of a box inside another one that is stored row by row."""
    inner = box.within(outer)
    _, width, channels = outer.shape
    rows, columns, run = inner.shape
    start = (inner.rows[0] * width + inner.columns[0]) * channels + inner.channels[0]
    return _joined(View(offset + start, rows, columns, run, width * channels, channels))


def _joined(view: View) -> View:
    """Return the same bytes in the same order with the longest runs."""
    rows, columns, run = view.rows, view.columns, view.run
    if columns == 1 or run == view.column_stride:
        columns, run = 1, columns * run
    if columns == 1 and (rows == 1 or run == view.row_stride):
        rows, run = 1, rows * run
    row_stride = view.row_stride if rows > 1 else run
    return View(view.offset, rows, columns, run, row_stride, view.column_stride if columns > 1 else run)


def _copy(source: View, target: View) -> Copy:
    """Return a copy of two views in the finer of their extents."""
    run = min(source.run, target.run)
    rows, columns = max(source.rows, target.rows), max(source.columns, target.columns)
    return Copy(_as(source, (rows, columns, run)), _as(target, (rows, columns, run)))


def _as(view: View, extent: Extent) -> View:
    """Return a view with other extents of as many bytes; they may divide its runs."""
    rows, columns, run = extent
    row_stride = view.row_stride if view.rows > 1 else columns * run
    column_stride = view.column_stride if view.columns > 1 else run
    return View(view.offset, rows, columns, run, row_stride, column_stride)
