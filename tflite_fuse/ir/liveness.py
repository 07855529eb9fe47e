"""Liveness of tensors: lifetimes, working sets and peak in bytes.

Steps are operator indices in execution order; step -1 precedes the first operator, when the network's inputs have been
filled in. The rules are those of TensorFlow Lite Micro's planner:

- a network input is live from step -1 to its last reader; without a reader, only at step -1;
- a network output is live from its producer to the end;
- an output without a reader is live while its operator runs;
- a resident tensor is live at every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tflite_fuse.ir.program import Program

Lifetime = tuple[int, int]


def lifetimes(graph: Program) -> list[Lifetime | None]:
    """Return the first and last step (both inclusive) of each tensor; None for a tensor that is never live."""
    lives: list[Lifetime | None] = [None] * len(graph.sizes)
    for tensor in graph.inputs:
        lives[tensor] = (-1, -1)
    for moment, op in enumerate(graph.steps):
        for tensor in (*op.inputs, *op.outputs):
            life = lives[tensor]
            lives[tensor] = (moment if life is None else life[0], moment)
    end = len(graph.steps) - 1
    for tensor in graph.outputs:
        life = lives[tensor]
        if life is not None:
            lives[tensor] = (life[0], end)
    for tensor in graph.resident:
        lives[tensor] = (-1, end)
    return lives


def bytes_before_start(graph: Program) -> int:
    """Return the bytes live before the first operator runs: the network's inputs and the resident tensors."""
    return sum(graph.sizes[tensor] for tensor in {*graph.inputs, *graph.resident})


def working_sets(graph: Program, *, in_place: bool = False) -> list[int]:
    """Return the bytes live while each operator runs, its inputs and outputs included, in execution order.

    With ``in_place``, an operator's output shares memory with an input that dies there, for the pairs that the operator
    lists: the smaller of the two is not counted (each tensor shares with at most one other).
    """
    alive = lifetimes(graph)
    totals = _live_bytes(graph, alive)
    if in_place:
        for moment in range(len(graph.steps)):
            totals[moment] -= in_place_saving(graph.sizes, sharing_pairs(graph, alive, moment))
    return totals


def covered_bytes(graph: Program, offsets: Sequence[int]) -> list[int]:
    """Return the bytes covered by live tensors while each operator runs; overlapping bytes count once.

    Args:
        offsets: offset of each tensor in bytes; a tensor with a negative one overlaps no other.
    """
    alive = lifetimes(graph)
    covered = []
    for moment in range(len(graph.steps)):
        live = [t for t, life in enumerate(alive) if life is not None and life[0] <= moment <= life[1]]
        apart = sum(graph.sizes[tensor] for tensor in live if offsets[tensor] < 0)
        placed = ((offsets[t], offsets[t] + graph.sizes[t]) for t in live if offsets[t] >= 0)
        covered.append(apart + length_of_union(placed))
    return covered


def length_of_union(intervals: Iterable[tuple[int, int]]) -> int:
    """Return the bytes in at least one of some intervals: first byte, not negative, and the one behind the last."""
    total = reached = 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def peak(graph: Program, *, in_place: bool = False) -> int:
    """Return the peak in bytes: the largest working set, or the network's inputs if they are larger.

    Without ``in_place`` it is also the lower bound of every arena plan for this order.
    """
    return max(bytes_before_start(graph), *working_sets(graph, in_place=in_place), 0)


def sharing_pairs(graph: Program, alive: list[Lifetime | None], moment: int) -> tuple[tuple[int, int], ...]:
    """Return the operator's ``in_place`` pairs that may share memory: the input dies and the output is born here."""
    kept = {*graph.outputs, *graph.resident}
    pairs = []
    for source, target in graph.steps[moment].in_place:
        source_life, target_life = alive[source], alive[target]
        if source_life is None or target_life is None or source in kept or target in graph.resident:
            continue
        if source_life[1] == moment and source_life[0] < moment and target_life[0] == moment:
            pairs.append((source, target))
    return tuple(pairs)


def in_place_saving(sizes: tuple[int, ...], pairs: tuple[tuple[int, int], ...]) -> int:
    """Return the most bytes that sharing saves if every tensor shares with at most one other.

    Operators list one or two pairs, so all choices are tried.
    """
    choices: list[tuple[int, frozenset[int]]] = [(0, frozenset())]
    for source, target in pairs:
        saving = min(sizes[source], sizes[target])
        choices += [
            (bytes_saved + saving, used | {source, target})
            for bytes_saved, used in choices
            if source not in used and target not in used
        ]
    return max(bytes_saved for bytes_saved, _ in choices)


def _live_bytes(graph: Program, alive: list[Lifetime | None]) -> list[int]:
    changes = [0] * (len(graph.steps) + 1)
    for size, life in zip(graph.sizes, alive, strict=True):
        if life is not None and life[1] >= 0:
            changes[max(life[0], 0)] += size
            changes[life[1] + 1] -= size
    totals = []
    live = 0
    for change in changes[:-1]:
        live += change
        totals.append(live)
    return totals
