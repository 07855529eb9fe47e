"""The order problem in the form that the search uses: operators numbered from 0, sets of them as bits of an int."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tflite_fuse.ir.liveness import in_place_saving
from tflite_fuse.ir.program import Program
from tflite_fuse.memory.order.twins import twin_precedence


@dataclass(frozen=True)
class OrderProblem:
    """Operators 0..n-1, in the numbers of the graph. Bit i of a *state* is set if operator i has run.

    Attributes:
        preds: for each operator its direct predecessors, as bits.
        succs: for each operator its direct successors, as bits.
        before: for each operator all its predecessors, as bits.
        after: for each operator all its successors, as bits.
        start: bytes live before the first operator, except inputs without readers.
        shared: for each tensor that dies and that several operators read or rewrite: (these operators as bits, bytes).
        rise: working set of each operator in bytes above the bytes live before it, before the saving by ``sharing``.
        delta: change of the live bytes by each operator, before ``frees``.
        frees: for each operator, (other readers as bits, bytes) of each shared tensor: freed if all of them have run.
        sharing: for each operator, (in-place pair, other readers of its input as bits): used if all of them have run.
        sizes: bytes of each tensor.
    """

    preds: tuple[int, ...]
    succs: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    start: int
    shared: tuple[tuple[int, int], ...]
    rise: tuple[int, ...]
    delta: tuple[int, ...]
    frees: tuple[tuple[tuple[int, int], ...], ...]
    sharing: tuple[tuple[tuple[tuple[int, int], int], ...], ...]
    sizes: tuple[int, ...]

    @property
    def full(self) -> int:
        """Return the state in which all operators have run."""
        return (1 << len(self.preds)) - 1

    def effect(self, op: int, state: int) -> tuple[int, int]:
        """Return (rise, delta) in bytes of an operator that runs in a state."""
        delta, rise = self.delta[op], self.rise[op]
        for readers, size in self.frees[op]:
            if readers & state == readers:
                delta -= size
        if self.sharing[op]:
            pairs = tuple(pair for pair, readers in self.sharing[op] if readers & state == readers)
            rise -= in_place_saving(self.sizes, pairs)
        return rise, delta


def precedence(graph: Program) -> list[set[int]]:
    """Return for each operator the operators that must run before it.

    Readers follow the writer. Operators on a resident or rewritten tensor and operators flagged ``ordered`` keep their
    relative order.
    """
    before: list[set[int]] = [set() for _ in graph.steps]
    last_touch: dict[int, int] = {}
    written: dict[int, int] = {}
    last_ordered: int | None = None
    for index, op in enumerate(graph.steps):
        for tensor in {*op.inputs, *op.outputs}:
            if tensor in graph.rewritten:
                if tensor in last_touch:
                    before[index].add(last_touch[tensor])
                last_touch[tensor] = index
            elif tensor in written:
                before[index].add(written[tensor])
        written.update(dict.fromkeys(op.outputs, index))
        if op.ordered:
            if last_ordered is not None:
                before[index].add(last_ordered)
            last_ordered = index
    return before


def order_problem(graph: Program, *, in_place: bool = False, twins: bool = False) -> OrderProblem:
    """Return the problem of a graph.

    Args:
        graph: operators and tensors.
        in_place: whether to use the operators' in-place pairs.
        twins: whether to fix the order of chains that are copies of each other.
    """
    earlier = precedence(graph)
    for first, second in twin_precedence(graph, earlier) if twins else ():
        earlier[second].add(first)
    later: list[set[int]] = [set() for _ in earlier]
    for op, predecessors in enumerate(earlier):
        for other in predecessors:
            later[other].add(op)
    preds, succs = ([sum(1 << op for op in ops) for ops in near] for near in (earlier, later))
    born, readers = _births_and_readers(graph)
    stays = {*graph.resident, *graph.outputs}
    rise, delta, frees, sharing = list[int](), list[int](), [], []
    for op, step in enumerate(graph.steps):
        created = {tensor for tensor in step.outputs if born.get(tensor) == op}
        touched = sorted({*step.inputs, *step.outputs} - created - stays)
        other_readers = {tensor: readers[tensor] & ~(1 << op) for tensor in touched}
        own = (tensor for tensor in touched if not other_readers[tensor])
        transient = created - readers.keys() - stays
        rise.append(sum(graph.sizes[tensor] for tensor in created))
        delta.append(rise[op] - sum(graph.sizes[tensor] for tensor in (*transient, *own)))
        frees.append(tuple((mask, graph.sizes[tensor]) for tensor, mask in other_readers.items() if mask))
        pairs = [pair for pair in step.in_place if pair[0] in other_readers and pair[1] in created] if in_place else []
        sharing.append(tuple((pair, other_readers[pair[0]]) for pair in pairs))
    used_inputs = {tensor for tensor in graph.inputs if tensor in readers or tensor in stays}
    shared = ((ops, graph.sizes[t]) for t, ops in readers.items() if t not in stays and ops.bit_count() > 1)
    return OrderProblem(
        preds=tuple(preds),
        succs=tuple(succs),
        before=tuple(_closure(preds, range(len(preds)))),
        after=tuple(_closure(succs, reversed(range(len(succs))))),
        start=sum(graph.sizes[tensor] for tensor in used_inputs.union(graph.resident)),
        shared=tuple(shared),
        rise=tuple(rise),
        delta=tuple(delta),
        frees=tuple(frees),
        sharing=tuple(sharing),
        sizes=graph.sizes,
    )


def _births_and_readers(graph: Program) -> tuple[dict[int, int], dict[int, int]]:
    """Return the operator that creates each tensor, and for each tensor the others that read or rewrite it, as bits."""
    born, readers = dict[int, int](), defaultdict[int, int](int)
    for op, step in enumerate(graph.steps):
        for tensor in step.outputs:
            if tensor not in graph.resident and tensor not in graph.inputs:
                born.setdefault(tensor, op)
        for tensor in (*step.inputs, *step.outputs):
            if tensor not in graph.resident and born.get(tensor) != op:
                readers[tensor] |= 1 << op
    return born, readers


def _closure(links: Sequence[int], order: Iterable[int]) -> list[int]:
    """Return for each operator all that its links lead to; ``order`` visits these before it."""
    reached = [0] * len(links)
    for op in order:
        for link in bits(links[op]):
            reached[op] |= reached[link] | 1 << link
    return reached


def bits(mask: int) -> list[int]:
    """Return the numbers of a mask's bits, in ascending order."""
    numbers = []
    while mask:
        low = mask & -mask
        numbers.append(low.bit_length() - 1)
        mask ^= low
    return numbers
