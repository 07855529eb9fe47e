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
from dataclasses import dataclass

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


@dataclass(frozen=True)
class _Tensors:
    """Effects of a graph's chains on its tensors."""

    graph: Program

    def is_plain(self, op: int) -> bool:
        """Return whether only data constrains an operator's order and each of its tensors is written once."""
        touched = self.graph.steps[op].inputs + self.graph.steps[op].outputs
        return not self.graph.steps[op].ordered and self.graph.rewritten.isdisjoint(touched)

    def key(self, chain: _Chain, before: Sequence[set[int]]) -> _Key:
        """Return a key that is equal for twins: predecessors, and tensors that steps read, write and may share."""
        return (frozenset(before[chain[0]]), *(self._step(chain, step) for step in range(len(chain))))

    def _step(self, chain: _Chain, step: int) -> _Key:
        op = self.graph.steps[chain[step]]
        written = {tensor: self._written(tensor, chain, step) for tensor in op.outputs}
        read = {tensor: self._read(tensor, chain, step) for tensor in op.inputs}
        shared = tuple((read.get(source), written.get(target)) for source, target in op.in_place)
        return tuple(read.values()), tuple(written.values()), shared

    def _written(self, tensor: int, chain: _Chain, step: int) -> _Key:
        readers = self.graph.consumers[tensor]
        inside = readers == chain[step + 1 : step + 2] != ()
        return self.graph.sizes[tensor], tensor in self.graph.outputs, inside, () if inside else readers

    def _read(self, tensor: int, chain: _Chain, step: int) -> _Key:
        size, writer = self.graph.sizes[tensor], self.graph.producer[tensor]
        if step and writer == chain[step - 1]:
            return "ahead", size, self.graph.steps[writer].outputs.index(tensor)
        if self.graph.consumers[tensor] == (chain[step],) and tensor not in self.graph.outputs:
            return "own", size, writer
        return "shared", tensor
