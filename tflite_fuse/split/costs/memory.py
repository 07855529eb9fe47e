"""One worker's buffer as a memory graph: what of each value lies in it from when to when, and what may lie over what.

What a worker reads or writes of a value lies in a few pieces, boxes that together are a box being one (rows of its own
and those a neighbour sends), from the first moment a piece is touched to the last. Moments are the messages of a phase,
then the blocks of the worker's task one after another, then what it returns. Beside them a block has its scratch, and a
copy of every box that does not lie in one row after the other: some channels or columns of a piece, or of several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.graph import MemoryGraph, MemoryOp
from tflite_fuse.memory.overlap import Overlap
from tflite_fuse.memory.place.portfolio import Placement, place
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Phase, Plan, Task, Transfer
from tflite_fuse.split.cut.regions import Box, apart, hull, meet
from tflite_fuse.split.fragments.blocks import Part

ALIGNMENT = 16

_PLACING = 300_000
"""Steps a placement may take: a split places the buffers of thousands of tasks."""

Scope = tuple[int, int]
"""(value, -1) of the plan, (value, phase) inside one task."""

Key = tuple[Scope, int]
"""What has a place: a piece of a value."""


@dataclass(frozen=True)
class _Moment:
    """What is touched at once.

    Attributes:
        name: of the phase.
        touched: pieces.
        temporary: bytes of what is there at this moment alone.
        part: the block that runs.
        inputs, outputs: of that block: where each lies in one piece, and the byte in it where it begins, else None.
    """

    name: str
    touched: tuple[Key, ...]
    temporary: tuple[int, ...] = ()
    part: Part | None = None
    inputs: tuple[tuple[Key, int] | None, ...] = ()
    outputs: tuple[tuple[Key, int] | None, ...] = ()


class WorkerMemory:
    """The buffer of one worker of a plan."""

    def __init__(self, network: Network, plan: Plan, worker: int, parts: Callable[[Task], Sequence[Part]]) -> None:
        self._network, self._worker, self._parts = network, worker, parts
        boxes: dict[Scope, list[Box]] = {}
        for number, phase in enumerate(plan.phases):
            for scope, box in self._boxes(phase, number):
                boxes.setdefault(scope, []).append(box)
        self._pieces = {scope: merged(found) for scope, found in boxes.items()}
        self._moments = [moment for number, phase in enumerate(plan.phases) for moment in self._of_phase(phase, number)]
        self._lives: dict[Key, tuple[int, int]] = {}
        for index, moment in enumerate(self._moments):
            for key in moment.touched:
                self._lives[key] = self._lives.get(key, (index, index))[0], index

    @property
    def fullest(self) -> str:
        """The phase in which most is alive, nothing lying over anything."""
        alive = [sum(moment.temporary) for moment in self._moments]
        for key, (first, last) in self._lives.items():
            for index in range(first, last + 1):
                alive[index] += self._size(key)
        return self._moments[max(range(len(alive)), key=alive.__getitem__)].name if alive else ""

    def placed(self) -> Placement:
        """Where everything lies."""
        return place(*self.graph(), alignment=ALIGNMENT, budget=Budget(_PLACING))

    def graph(self) -> tuple[MemoryGraph, tuple[Overlap, ...]]:
        """Moments as operators, pieces and what is temporary as tensors, and which may lie over which."""
        number = {key: index for index, key in enumerate(self._lives)}
        sizes, ops = [self._size(key) for key in self._lives], list[MemoryOp]()
        for index, moment in enumerate(self._moments):
            keys = dict.fromkeys(moment.touched)
            born = [number[key] for key in keys if self._lives[key][0] == index]
            there = [number[key] for key in keys if self._lives[key][0] < index]
            own = range(len(sizes), len(sizes) + len(moment.temporary))
            sizes += moment.temporary
            ops.append(MemoryOp(moment.name, tuple(there), (*born, *own)))
        overlaps = tuple(Overlap(number[i], number[o], distance) for i, o, distance in self._overlaps())
        return MemoryGraph(tuple(sizes), tuple(ops), (), ()), overlaps

    # ---- What is held ----

    def _boxes(self, phase: Phase, number: int) -> Iterator[tuple[Scope, Box]]:
        for each in (*phase.transfers, *phase.returned):
            if self._worker in (each.source, each.target):
                yield from (((each.value, -1), box) for box in each.region)
        for task in self._tasks(phase):
            for value, region in (*task.owned, *task.copies):
                yield from (((value, -1), box) for box in region)
            scope = self._scopes(task, number)
            for part in self._parts(task):
                yield from ((scope(value), box) for value, box in part.outputs if scope(value)[1] == number)

    def _tasks(self, phase: Phase) -> Iterator[Task]:
        return (task for task in phase.tasks if task.worker == self._worker)

    def _scopes(self, task: Task, number: int) -> Callable[[int], Scope]:
        """Values that a task writes and nobody else needs are its own."""
        kept = {value for value, _ in (*task.owned, *task.copies)}
        own = {value for step in task.steps for value in self._network.nodes[step.node].outputs} - kept
        return lambda value: (value, number if value in own else -1)

    def _touched(self, scope: Scope, region: Iterable[Box]) -> Iterator[Key]:
        """Pieces that boxes of a value lie in."""
        for index, piece in enumerate(self._pieces.get(scope, ())):
            if any(not apart(piece, box) for box in region):
                yield scope, index

    def _found(self, scope: Scope, box: Box) -> tuple[Key, int] | None:
        """The piece a box lies in row after row, and where it begins there."""
        for index, piece in enumerate(self._pieces.get(scope, ())):
            rows = piece.rows[0] <= box.rows[0] and box.rows[1] <= piece.rows[1]
            if rows and (box.columns, box.channels) == (piece.columns, piece.channels):
                return (scope, index), (box.rows[0] - piece.rows[0]) * (piece.volume // piece.shape[0])
        return None

    def _size(self, key: Key) -> int:
        return self._pieces[key[0]][key[1]].volume

    # ---- What happens ----

    def _of_phase(self, phase: Phase, number: int) -> Iterator[_Moment]:
        yield from self._messages(phase.name, phase.transfers)
        for task in self._tasks(phase):
            yield from self._of_task(task, phase.name, number)
        yield from self._messages(phase.name, phase.returned)

    def _messages(self, name: str, transfers: Sequence[Transfer]) -> Iterator[_Moment]:
        mine = [each for each in transfers if self._worker in (each.source, each.target)]
        if mine:
            yield _Moment(name, tuple(key for each in mine for key in self._touched((each.value, -1), each.region)))

    def _of_task(self, task: Task, name: str, number: int) -> Iterator[_Moment]:
        scope, nodes = self._scopes(task, number), self._network.nodes
        for part in self._parts(task):
            boxes = [(scope(value), box) for value, box in (*part.inputs, *part.outputs)]
            places = tuple(self._found(*each) for each in boxes)
            copies = [box.volume for (_, box), at in zip(boxes, places, strict=True) if at is None]
            touched = tuple(key for of_value, box in boxes for key in self._touched(of_value, (box,)))
            temporary = (*copies, part.plan.schedule.scratch_bytes)
            count = len(part.inputs)
            yield _Moment(name, touched, temporary, part, places[:count], places[count:])
        whole = [step for step in task.steps if nodes[step.node].stage is None]
        if whole:
            values = {v for step in whole for v in (*nodes[step.node].inputs, *nodes[step.node].outputs)}
            scopes = [scope(value) for value in sorted(values)]
            yield _Moment(
                name, tuple(key for each in scopes for key in self._touched(each, self._pieces.get(each, ())))
            )

    # ---- What may lie over what ----

    def _overlaps(self) -> Iterator[tuple[Key, Key, int]]:
        """Inputs that die at a block and outputs that are born there, at the distances the block's schedule allows."""
        for index, moment in enumerate(self._moments):
            dying = {at[0] for at in moment.inputs if at is not None and self._lives[at[0]][1] == index}
            born = {at[0] for at in moment.outputs if at is not None and self._lives[at[0]][0] == index}
            for key, written in product(sorted(dying - born), sorted(born)):
                distance = _distance(moment, key, written)
                if distance is not None:
                    yield key, written, distance


def _distance(moment: _Moment, key: Key, written: Key) -> int | None:
    """The most demanding distance of a block's inputs that lie in one piece and its outputs in another."""
    assert moment.part is not None
    block, overlaps = moment.part.plan.block, moment.part.plan.schedule.overlaps
    found: list[int] = []
    for i, source in zip(block.inputs, moment.inputs, strict=True):
        for o, target in zip(block.outputs, moment.outputs, strict=True):
            if source is None or target is None or (source[0], target[0]) != (key, written):
                continue
            if (i, o) not in overlaps:
                return None
            found.append(overlaps[i, o] + target[1] - source[1])
    return max(found)


def merged(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """Boxes that together are a box, or lie in each other, as one."""
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
