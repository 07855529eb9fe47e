"""One device's buffer over time: the pieces of values in it, their liveness, and permitted overlaps.

The parts of a value that a worker reads or writes are stored as few pieces (boxes whose union is a box are one: its own
rows and those a neighbour sends), from the first moment that touches a piece to the last. Moments are the messages of a
phase, then the blocks of the device's task one by one, then the returned messages. A block also has its scratch, and a
copy of every box that is not contiguous rows of one piece: some channels or columns of a piece, or parts of several.

The coordinator holds the inputs before all moments, the outputs after all, and runs operators that no block holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from tflite_fuse.ir.program import Overlap, Program, Step
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.place.portfolio import Placement, place
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Phase, Plan, Task, Transfer
from tflite_fuse.split.cut.regions import Box, apart, hull, meet
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.fragments.blocks import Part

ALIGNMENT = 16

_PLACING = 300_000
"""Budget of a placement in steps: a split places the buffers of thousands of tasks."""

Scope = tuple[int, int]
"""(value, -1) for a value of the plan, (value, phase) for one inside a task."""

Key = tuple[Scope, int]
"""A piece of a value."""


@dataclass(frozen=True)
class Moment:
    """Pieces that are touched at the same time.

    Attributes:
        name: of the phase.
        touched: pieces.
        transfers: of the device, for a moment of messages.
        part: the block that runs, with ``scope`` for its values.
        inputs, outputs: of that block: piece and first byte in it if contiguous in one piece, else None.
        copies: bytes of each input and output that is None.
        node: the operator that runs whole.
    """

    name: str
    touched: tuple[Key, ...]
    transfers: tuple[Transfer, ...] = ()
    part: Part | None = None
    inputs: tuple[tuple[Key, int] | None, ...] = ()
    outputs: tuple[tuple[Key, int] | None, ...] = ()
    copies: tuple[int, ...] = ()
    node: int | None = None
    scope: Callable[[int], Scope] = field(default=lambda value: (value, -1), compare=False)

    @property
    def temporary(self) -> tuple[int, ...]:
        """Return the bytes of each temporary of this moment: the copies, then the block's scratch."""
        return self.copies if self.part is None else (*self.copies, self.part.plan.schedule.scratch_bytes)


class DeviceBuffer:
    """The buffer of one worker of a plan, or the coordinator's."""

    def __init__(self, network: Network, plan: Plan, device: int, parts: Callable[[Task], Sequence[Part]]) -> None:
        self.network, self.plan, self.device, self._parts = network, plan, device, parts
        ends = (network.inputs, network.outputs) if device == COORDINATOR else ((), ())
        boxes: dict[Scope, list[Box]] = {}
        for value in (*ends[0], *ends[1]):
            boxes.setdefault((value, -1), []).append(network.box(value))
        for number, phase in enumerate(plan.phases):
            for scope, box in self._boxes(phase, number):
                boxes.setdefault(scope, []).append(box)
        self.pieces = {scope: merged(scope_boxes) for scope, scope_boxes in boxes.items()}
        numbered = [
            *((-1, moment) for moment in self._of_ends("the inputs", ends[0])),
            *((number, moment) for number, phase in enumerate(plan.phases) for moment in self._of_phase(phase, number)),
            *((len(plan.phases), moment) for moment in self._of_ends("the outputs", ends[1])),
        ]
        self.moments = [moment for _, moment in numbered]
        self._phases = [number for number, _ in numbered]
        self._lives: dict[Key, tuple[int, int]] = {}
        for index, moment in enumerate(self.moments):
            for key in moment.touched:
                self._lives[key] = self._lives.get(key, (index, index))[0], index

    @property
    def fullest(self) -> str:
        """Return the name of the phase with most live bytes, without overlaps."""
        alive = self._alive()
        return self.moments[max(range(len(alive)), key=alive.__getitem__)].name if alive else ""

    def live_by_phase(self) -> tuple[int, ...]:
        """Return the most bytes live at once in each phase, without overlaps."""
        most = [0] * len(self.plan.phases)
        for number, alive in zip(self._phases, self._alive(), strict=True):
            if number in range(len(most)):
                most[number] = max(most[number], alive)
        for number in {*range(len(most))} - {*self._phases}:  # the device only holds values, for a later phase
            before = sum(each < number for each in self._phases)
            most[number] = sum(self._size(key) for key, (first, last) in self._lives.items() if first < before <= last)
        return tuple(most)

    def _alive(self) -> list[int]:
        """Return the live bytes at each moment."""
        alive = [sum(moment.temporary) for moment in self.moments]
        for key, (first, last) in self._lives.items():
            for index in range(first, last + 1):
                alive[index] += self._size(key)
        return alive

    def placed(self) -> Placement:
        """Return the placement of everything, in the order of ``graph``."""
        return place(*self.graph(), alignment=ALIGNMENT, budget=Budget(_PLACING))

    @property
    def numbers(self) -> dict[Key, int]:
        """Return piece → its number in the graph; temporaries follow, moment by moment."""
        return {key: index for index, key in enumerate(self._lives)}

    def graph(self) -> tuple[Program, tuple[Overlap, ...]]:
        """Return moments as operators, pieces and temporaries as tensors, and the permitted overlaps."""
        number = self.numbers
        sizes, ops = [self._size(key) for key in self._lives], list[Step]()
        for index, moment in enumerate(self.moments):
            keys = dict.fromkeys(moment.touched)
            born = [number[key] for key in keys if self._lives[key][0] == index]
            there = [number[key] for key in keys if self._lives[key][0] < index]
            own = range(len(sizes), len(sizes) + len(moment.temporary))
            sizes += moment.temporary
            ops.append(Step(moment.name, tuple(there), (*born, *own)))
        overlaps = tuple(Overlap(number[i], number[o], distance) for i, o, distance in self._overlaps())
        return Program(tuple(sizes), tuple(ops), (), ()), overlaps

    # ---- Pieces ----

    def _boxes(self, phase: Phase, number: int) -> Iterator[tuple[Scope, Box]]:
        for each in (*phase.transfers, *phase.returned):
            if self.device in (each.source, each.target):
                yield from (((each.value, -1), box) for box in each.region)
        for task in self._tasks(phase):
            for value, region in task.owned:
                yield from (((value, -1), box) for box in region)
            scope = self._scopes(task, number)
            for part in self._parts(task):
                yield from ((scope(value), box) for value, box in part.outputs)
            for value in self._of_operators(task):
                yield scope(value), self.network.box(value)

    def _tasks(self, phase: Phase) -> Iterator[Task]:
        return (task for task in phase.tasks if task.worker == self.device)

    def _of_operators(self, task: Task) -> Iterator[int]:
        """Yield the values that operators without stage read and write: each is one piece."""
        for node in (self.network.nodes[step.node] for step in task.steps):
            if node.stage is None:
                yield from (*node.inputs, *node.outputs)

    def _scopes(self, task: Task, number: int) -> Callable[[int], Scope]:
        """Return the scope of a task's values: those that no other task needs are its own."""
        kept = {value for value, _ in task.owned}
        own = {value for step in task.steps for value in self.network.nodes[step.node].outputs} - kept
        return lambda value: (value, number if value in own else -1)

    def touched(self, scope: Scope, region: Iterable[Box]) -> Iterator[Key]:
        """Yield the pieces that boxes of a value touch."""
        for index, piece in enumerate(self.pieces.get(scope, ())):
            if any(not apart(piece, box) for box in region):
                yield scope, index

    def _place_of(self, scope: Scope, box: Box) -> tuple[Key, int] | None:
        """Return the piece that holds a box as contiguous rows, and its first byte there."""
        for index, piece in enumerate(self.pieces.get(scope, ())):
            rows = piece.rows[0] <= box.rows[0] and box.rows[1] <= piece.rows[1]
            if rows and (box.columns, box.channels) == (piece.columns, piece.channels):
                return (scope, index), (box.rows[0] - piece.rows[0]) * (piece.volume // piece.shape[0])
        return None

    def _size(self, key: Key) -> int:
        return self.pieces[key[0]][key[1]].volume

    # ---- Moments ----

    def _of_phase(self, phase: Phase, number: int) -> Iterator[Moment]:
        yield from self._messages(phase.name, phase.transfers)
        for task in self._tasks(phase):
            yield from self._of_task(task, phase.name, number)
        yield from self._messages(phase.name, phase.returned)

    def _messages(self, name: str, transfers: Sequence[Transfer]) -> Iterator[Moment]:
        own = [each for each in transfers if self.device in (each.source, each.target)]
        if own:
            touched = tuple(key for each in own for key in self.touched((each.value, -1), each.region))
            yield Moment(name, touched, tuple(own))

    def _of_ends(self, name: str, values: Sequence[int]) -> Iterator[Moment]:
        keys = (key for value in values for key in self.touched((value, -1), [self.network.box(value)]))
        if values:
            yield Moment(name, tuple(keys))

    def _of_task(self, task: Task, name: str, number: int) -> Iterator[Moment]:
        scope, nodes = self._scopes(task, number), self.network.nodes
        position = {step.node: index for index, step in enumerate(task.steps)}
        operators = [step.node for step in task.steps if nodes[step.node].stage is None]
        for part in self._parts(task):
            while operators and position[operators[0]] < position[part.pieces[0].node]:
                yield self._of_operator(operators.pop(0), name, scope)
            boxes = [(scope(value), box) for value, box in (*part.inputs, *part.outputs)]
            places = tuple(self._place_of(*each) for each in boxes)
            copies = tuple(box.volume for (_, box), at in zip(boxes, places, strict=True) if at is None)
            count = len(part.inputs)
            yield Moment(name, self._keys_of(boxes), (), part, places[:count], places[count:], copies, None, scope)
        for node in operators:
            yield self._of_operator(node, name, scope)

    def _keys_of(self, boxes: Iterable[tuple[Scope, Box]]) -> tuple[Key, ...]:
        return tuple(key for scope, box in boxes for key in self.touched(scope, (box,)))

    def _of_operator(self, node: int, name: str, scope: Callable[[int], Scope]) -> Moment:
        values = dict.fromkeys((*self.network.nodes[node].inputs, *self.network.nodes[node].outputs))
        boxes = [(scope(value), self.network.box(value)) for value in values]
        return Moment(name, self._keys_of(boxes), node=node, scope=scope)

    # ---- Overlaps ----

    def _overlaps(self) -> Iterator[tuple[Key, Key, int]]:
        """Yield inputs that die at a block, outputs that are born there, and the distance its schedule permits."""
        for index, moment in enumerate(self.moments):
            dying = {at[0] for at in moment.inputs if at is not None and self._lives[at[0]][1] == index}
            born = {at[0] for at in moment.outputs if at is not None and self._lives[at[0]][0] == index}
            for key, written in product(sorted(dying - born), sorted(born)):
                distance = _distance(moment, key, written)
                if distance is not None:
                    yield key, written, distance


def _distance(moment: Moment, key: Key, written: Key) -> int | None:
    """Return the largest distance that a block requires between inputs in one piece and outputs in another."""
    assert moment.part is not None
    block, overlaps = moment.part.plan.block, moment.part.plan.schedule.overlaps
    distances: list[int] = []
    for i, source in zip(block.inputs, moment.inputs, strict=True):
        for o, target in zip(block.outputs, moment.outputs, strict=True):
            if source is None or target is None or (source[0], target[0]) != (key, written):
                continue
            if (i, o) not in overlaps:
                return None
            distances.append(overlaps[i, o] + target[1] - source[1])
    return max(distances)


def merged(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """Return the boxes with those merged whose union is a box."""
    pieces: list[Box] = []
    for box in boxes:
        joined = box
        while True:
            other = next((each for each in pieces if _is_one(each, joined)), None)
            if other is None:
                break
            pieces.remove(other)
            joined = hull((other, joined))
        pieces.append(joined)
    return tuple(pieces)


def _is_one(left: Box, right: Box) -> bool:
    return hull((left, right)).volume == left.volume + right.volume - meet(left, right).volume
