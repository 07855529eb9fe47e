"""Chains of operators that are each other's copies: their order is fixed, so that the search sees one of many.

Two chains are *twins* if they hang between the same operators and run, step by step, operators with the same effect
on memory: heads of an attention layer, groups of a convolution, equal branches of a cell. What is live then depends
only on how many twins have got how far. In any order, hand the j-th run of step s among the twins to the j-th twin: a
twin's step s still comes before its step s + 1 (the j-th run of step s + 1 has at least j runs of step s before it),
and at any moment as many twins have got as far. So there is an optimal order in which the first twin is never behind
the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tflite_fuse.memory.graph import MemoryGraph

_Chain = tuple[int, ...]
_Key = tuple[object, ...]


def twin_precedence(graph: MemoryGraph, before: Sequence[set[int]]) -> list[tuple[int, int]]:
    """Pairs (earlier, later) of operators that may be put in this order; the graph's own order has them so already.

    Args:
        graph: operators and tensors.
        before: for each operator those it directly follows.
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
    """All longest runs of plain operators in which each one follows just the one ahead, which nothing else follows."""
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
    """Who writes and reads what."""

    def __init__(self, graph: MemoryGraph) -> None:
        self._graph = graph
        self._readers: dict[int, set[int]] = {}
        self._writers: dict[int, set[int]] = {}
        for index, op in enumerate(graph.ops):
            for tensor in op.inputs:
                self._readers.setdefault(tensor, set()).add(index)
            for tensor in op.outputs:
                self._writers.setdefault(tensor, set()).add(index)
        self._special = {*graph.resident, *(t for t in graph.inputs if t in self._writers)}
        self._special |= {tensor for tensor, ops in self._writers.items() if len(ops) > 1}

    def is_plain(self, op: int) -> bool:
        """Whether an operator's order depends on nothing but data, each tensor of it written once."""
        touched = self._graph.ops[op].inputs + self._graph.ops[op].outputs
        return not self._graph.ops[op].ordered and self._special.isdisjoint(touched)

    def key(self, chain: _Chain, before: Sequence[set[int]]) -> _Key:
        """Equal for twins: what the chain follows, and what each step reads, writes and may share."""
        return (frozenset(before[chain[0]]), *(self._step(chain, step) for step in range(len(chain))))

    def _step(self, chain: _Chain, step: int) -> _Key:
        op = self._graph.ops[chain[step]]
        made = {tensor: self._made(tensor, chain, step) for tensor in op.outputs}
        read = {tensor: self._read(tensor, chain, step) for tensor in op.inputs}
        shared = tuple((read.get(source), made.get(target)) for source, target in op.in_place)
        return tuple(read.values()), tuple(made.values()), shared

    def _made(self, tensor: int, chain: _Chain, step: int) -> _Key:
        readers = self._readers.get(tensor, set())
        inside = bool(readers) and readers == set(chain[step + 1 : step + 2])
        kept = tensor in self._graph.outputs
        return self._graph.sizes[tensor], kept, inside, frozenset() if inside else frozenset(readers)

    def _read(self, tensor: int, chain: _Chain, step: int) -> _Key:
        size = self._graph.sizes[tensor]
        writers = self._writers.get(tensor, set())
        if step and writers == {chain[step - 1]}:
            return "ahead", size, self._graph.ops[chain[step - 1]].outputs.index(tensor)
        if self._readers[tensor] == {chain[step]} and tensor not in self._graph.outputs:
            return "own", size, frozenset(writers)
        return "shared", tensor
