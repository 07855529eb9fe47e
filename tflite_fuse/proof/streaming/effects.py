"""Operators with effects that a rewritten model lacks: those of states, all of a state's or none."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tflite_fuse.proof.original.values import Original
from tflite_fuse.proof.streaming.states import States


def droppable(states: States) -> frozenset[int]:
    """Operators of the original that blocks may stand for."""
    return frozenset().union(states.once, states.recurrent, *(state.steps for state in states.found))


def dropped_graphs(original: Original, states: States, dropped: Collection[int]) -> tuple[set[int], list[str]]:
    """The subgraphs that go with the operators a rewritten model lacks, and labels of those it must not lack.

    A read that stays without its assignment, or the other way round, would see another variable; a CALL_ONCE goes with
    all it initializes.
    """
    wrong = [index for index in dropped if index not in droppable(states)]
    wrong += list(_halves(states, set(dropped)))
    graphs = {graph for index, graph in states.once.items() if index in dropped}
    return graphs, [original.steps[index].label for index in sorted(set(wrong))]


def uninitialized(states: States, dropped: Collection[int]) -> frozenset[tuple[int, int]]:
    """(subgraph, operator) of those that initialize what blocks stand for, in subgraphs that initialize others, too."""
    gone = [state for state in states.found if state.steps <= set(dropped) and state.once not in dropped]
    return frozenset().union(*(state.beside for state in gone))


def _halves(states: States, dropped: set[int]) -> Iterator[int]:
    for state in states.found:
        if state.steps & dropped and not state.steps <= dropped:
            yield from state.steps & dropped
        if state.once in dropped and not state.steps <= dropped:
            yield state.once
