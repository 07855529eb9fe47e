"""One device's part of a plan as steps over one buffer, with every offset.

    receive rows 0 … 9 of the image from the coordinator to byte 0; run block 0 from byte 0 to byte 4,800; copy row 9 of
    its output to a piece that is read later; send row 9 to worker 1; …

Every device handles its messages in the order of the plan's transfers. So sender and receiver of the first transfer
that is not done have nothing else to do before it: there is no deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.errors import PlanError
from tflite_fuse.split.cut.plan import Transfer
from tflite_fuse.split.cut.regions import Box, Region, intersect, subtract
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.fragments.blocks import Part
from tflite_fuse.split.fragments.buffer import DeviceBuffer, Key, Moment, Scope
from tflite_fuse.split.fragments.structs import FragmentEnd, FragmentStep, FragmentView, StepKind
from tflite_fuse.split.protocol import PAYLOAD_BYTES

MOST_OPERANDS = 16
"""Most inputs, and most outputs, of a block: the device keeps their addresses on its stack."""

View = FragmentView
Copies = Iterator[tuple[View, View]]
"""(source, target), each of as many bytes."""


def view_bytes(view: View) -> int:
    """Return the bytes of a view."""
    return view.rows * view.columns * view.run


class DeviceProgram:
    """The program of one device, in the structs of a fragment.

    Attributes:
        device: a worker, or the coordinator.
        workers: number of workers of the plan.
        buffer_bytes: of its buffer.
        steps: in order; their ``first`` numbers views or operands.
        views, operands: of all steps.
        blocks: those that the device stores, each once, in the order of their numbers.
        inputs, outputs: of the model, at the coordinator.
    """

    def __init__(self, buffer: DeviceBuffer) -> None:
        """Go through the moments of a device's buffer.

        Raises:
            PlanError: a block has more operands than a device supports, or a step reads parts that the device does not
                hold.
        """
        self.device, self.workers = buffer.device, buffer.plan.workers
        self._buffer, self._network, self._number = buffer, buffer.network, buffer.numbers
        placed = buffer.placed()
        self.buffer_bytes, self._offsets = placed.height, placed.offsets
        self._sent: dict[tuple[bool, int], int] = {}
        self.steps: list[FragmentStep] = []
        self.views: list[View] = []
        self.operands: list[int] = []
        self.blocks: list[BlockPlan] = []
        temporary = len(self._number)
        for moment in buffer.moments:
            places = self._offsets[temporary : temporary + len(moment.temporary)]
            temporary += len(places)
            if moment.part is not None:
                self._block(moment, moment.part, places)
            elif moment.node is not None:
                self._operator(moment, moment.node)
            for transfer in moment.transfers:
                self._message(transfer)
        ends = (self._network.inputs, self._network.outputs) if self.device == COORDINATOR else ((), ())
        self.inputs, self.outputs = map(self._ends, ends)

    def _ends(self, values: Iterable[int]) -> tuple[FragmentEnd, ...]:
        boxes = {value: self._network.box(value) for value in values}
        return tuple(FragmentEnd(self._start((value, -1), box), box.volume) for value, box in boxes.items())

    def _with_views(self, kind: StepKind, views: Sequence[View], nbytes: int, peer: int = 0, number: int = 0) -> None:
        self.steps.append(FragmentStep(kind, peer, len(self.views), len(views), number, nbytes))
        self.views += views

    def _with_operands(self, kind: StepKind, number: int, operands: Sequence[int], scratch: int = 0) -> None:
        self.steps.append(FragmentStep(kind, 0, len(self.operands), len(operands), number, 0, scratch))
        self.operands += operands

    def _message(self, transfer: Transfer) -> None:
        sends = transfer.source == self.device
        peer = transfer.target if sends else transfer.source
        number = self._sent.get((sends, peer), 0)
        scope = transfer.value, -1
        views = [self._view(self._holder(scope, box), box) for box in transfer.region]
        self._sent[sends, peer] = number + -(-transfer.nbytes // PAYLOAD_BYTES)
        self._with_views(StepKind.SEND if sends else StepKind.RECEIVE, views, transfer.nbytes, peer, number)
        if not sends:
            for box in transfer.region:
                self._copy(self._spread(scope, box, self._holder(scope, box)))

    def _operator(self, moment: Moment, index: int) -> None:
        node = self._network.nodes[index]
        values = (*node.inputs, *node.outputs)
        starts = [self._start(moment.scope(value), self._network.box(value)) for value in values]
        self._with_operands(StepKind.OPERATOR, node.operator, starts)

    def _block(self, moment: Moment, part: Part, places: Sequence[int]) -> None:
        if max(len(part.inputs), len(part.outputs)) > MOST_OPERANDS:
            name = self._network.nodes[part.pieces[-1].node].name
            raise PlanError(f"the block that ends with {name} has more than {MOST_OPERANDS} inputs or outputs")
        copies = iter(places)
        operands = list[int]()
        after = list[tuple[View, View]]()
        for (value, box), at in zip(part.inputs, moment.inputs, strict=True):
            operands.append(self._at(at) if at is not None else next(copies))
            if at is None:
                self._copy(self._gathered(moment.scope(value), box, operands[-1]))
        for (value, box), at in zip(part.outputs, moment.outputs, strict=True):
            operands.append(self._at(at) if at is not None else next(copies))
            if at is None:
                after += self._scattered(moment.scope(value), box, operands[-1])
            else:
                after += self._spread(moment.scope(value), box, at[0])
        if part.plan not in self.blocks:
            self.blocks.append(part.plan)
        self._with_operands(StepKind.BLOCK, self.blocks.index(part.plan), operands, next(copies))
        self._copy(after)

    def _copy(self, pairs: Iterable[tuple[View, View]]) -> None:
        """Copy between two views in the finer of their extents."""
        for source, target in pairs:
            extent = max(source.rows, target.rows), max(source.columns, target.columns), min(source.run, target.run)
            self._with_views(StepKind.COPY, (_as(source, extent), _as(target, extent)), view_bytes(source))

    # ---- Places ----

    def _at(self, place: tuple[Key, int]) -> int:
        key, byte = place
        return self._offsets[self._number[key]] + byte

    def _piece(self, key: Key) -> Box:
        return self._buffer.pieces[key[0]][key[1]]

    def _holder(self, scope: Scope, box: Box) -> Key:
        """Return the first piece that holds all of a box."""
        for key in self._buffer.touched(scope, (box,)):
            if not subtract((box,), (self._piece(key),)):
                return key
        raise PlanError(f"a part of {self._network.values[scope[0]].name} lies in no piece of device {self.device}")

    def _start(self, scope: Scope, box: Box) -> int:
        return self._view(self._holder(scope, box), box).offset

    def _view(self, key: Key, box: Box) -> View:
        piece = self._piece(key)
        return _view(self._offsets[self._number[key]], piece, box)

    # ---- Copies ----

    def _spread(self, scope: Scope, box: Box, written: Key) -> Copies:
        """Yield copies of a box from the piece it was written to into all others that overlap it."""
        for key in self._buffer.touched(scope, (box,)):
            for shared in intersect((box,), (self._piece(key),)) if key != written else ():
                yield self._view(written, shared), self._view(key, shared)

    def _gathered(self, scope: Scope, box: Box, offset: int) -> Copies:
        """Yield copies of a box into one place from the pieces that hold parts of it."""
        missing: Region = (box,)
        for key in self._buffer.touched(scope, (box,)):
            for shared in intersect(missing, (self._piece(key),)):
                yield self._view(key, shared), _view(offset, box, shared)
            missing = subtract(missing, (self._piece(key),))
        if missing:
            raise PlanError(f"a part of {self._network.values[scope[0]].name} lies in no piece of device {self.device}")

    def _scattered(self, scope: Scope, box: Box, offset: int) -> Copies:
        """Yield copies of a box from one place into all pieces that overlap it."""
        for key in self._buffer.touched(scope, (box,)):
            for shared in intersect((box,), (self._piece(key),)):
                yield _view(offset, box, shared), self._view(key, shared)


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


def _as(view: View, extent: tuple[int, int, int]) -> View:
    """Return a view with other extents of as many bytes; they may divide its runs."""
    rows, columns, run = extent
    row_stride = view.row_stride if view.rows > 1 else columns * run
    column_stride = view.column_stride if view.columns > 1 else run
    return View(view.offset, rows, columns, run, row_stride, column_stride)
