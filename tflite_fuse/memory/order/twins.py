"""A fixed order of identical chains of operators.

Two chains are *twins* if they have the same predecessors and successors and their steps have the same effect on memory:
heads of an attention layer, groups of a convolution, equal branches of a cell. The live bytes then depend only on the
number of twins that have completed each step. In any order, the j-th run of step s among the twins can be assigned to
the j-th twin: its step s still precedes its step s + 1 (j runs of step s precede the j-th run of step s + 1), and the
numbers of completed steps do not change. So there is an optimal order in which the first twin is never behind the
second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tflite_fuse.ir.program import Program

_Chain = tuple[int, ...]
_Key = tuple[object, ...]


def twin_precedence(graph: Program, before: Sequence[set[int]]) -> list[tuple[int, int]]:
    """Return pairs (earlier, later) of operators whose order may be fixed; the graph's own order already agrees.

    Args:
        graph: operators and tensors.
        before: for each operator its direct predecessors.
    """
    tensors = _Tensors(graph)
    groups: dict[_Key, list[_Chain]] = {}
    for chain in _chains(before, tensors):
        groups.setdefault(tensors.key(chain, before), []).append(chain)
    pairs = []
    for chains in groups.values():
        last = min(chains)
        for chain in sorted(chains)[1:]:
            if all(a < b for a, b in zip(last, chain, strict=True)):
                pairs += list(zip(last, chain, strict=True))
                last = chain
    return pairs


def _chains(before: Sequence[set[int]], tensors: _Tensors) -> Iterator[_Chain]:
    """Yield all maximal chains of plain operators: each has one predecessor, of which it is the only successor."""
    after: list[set[int]] = [set() for _ in before]
    for op, earlier in enumerate(before):
        for other in earlier:
            after[other].add(op)

    def continues(op: int) -> bool:
        if len(before[op]) != 1:
            return False
        (ahead,) = before[op]
        return len(after[ahead]) == 1 and tensors.is_plain(ahead)

    for op in range(len(before)):
        if not tensors.is_plain(op) or continues(op):
            continue
        chain = [op]
        while len(after[chain[-1]]) == 1:
            (following,) = after[chain[-1]]
            if not tensors.is_plain(following) or not continues(following):
                break
            chain.append(following)
        yield tuple(chain)


class _Tensors:
    """Readers and writers of each tensor."""

    def __init__(self, graph: Program) -> None:
        self._graph = graph
        self._readers: dict[int, set[int]] = {}
        self._writers: dict[int, set[int]] = {}
        for index, op in enumerate(graph.steps):
            for tensor in op.inputs:
                self._readers.setdefault(tensor, set()).add(index)
            for tensor in op.outputs:
                self._writers.setdefault(tensor, set()).add(index)
        self._special = {*graph.resident, *(t for t in graph.inputs if t in self._writers)}
        self._special |= {tensor for tensor, ops in self._writers.items() if len(ops) > 1}

    def is_plain(self, op: int) -> bool:
        """Return whether only data constrains an operator's order and each of its tensors is written once."""
        touched = self._graph.steps[op].inputs + self._graph.steps[op].outputs
        return not self._graph.steps[op].ordered and self._special.isdisjoint(touched)

    def key(self, chain: _Chain, before: Sequence[set[int]]) -> _Key:
        """Return a key that is equal for twins: predecessors, and tensors that steps read, write and may share."""
        return (frozenset(before[chain[0]]), *(self._step(chain, step) for step in range(len(chain))))

    def _step(self, chain: _Chain, step: int) -> _Key:
        op = self._graph.steps[chain[step]]
        written = {tensor: self._written(tensor, chain, step) for tensor in op.outputs}
        read = {tensor: self._read(tensor, chain, step) for tensor in op.inputs}
        shared = tuple((read.get(source), written.get(target)) for source, target in op.in_place)
        return tuple(read.values()), tuple(written.values()), shared

    def _written(self, tensor: int, chain: _Chain, step: int) -> _Key:
        readers = self._readers.get(tensor, set())
        inside = bool(readers) and readers == set(chain[step + 1 : step + 2])
        kept = tensor in self._graph.outputs
        return self._graph.sizes[tensor], kept, inside, frozenset() if inside else frozenset(readers)

    def _read(self, tensor: int, chain: _Chain, step: int) -> _Key:
        size = self._graph.sizes[tensor]
        writers = self._writers.get(tensor, set())
        if step and writers == {chain[step - 1]}:
            return "ahead", size, self._graph.steps[chain[step - 1]].outputs.index(tensor)
        if self._readers[tensor] == {chain[step]} and tensor not in self._graph.outputs:
            return "own", size, frozenset(writers)
        return "shared", tensor
