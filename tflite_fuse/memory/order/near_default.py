"""An order brought nearer to the default one, as far as its peak allows by swapping neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tflite_fuse.memory.graph import MemoryGraph
from tflite_fuse.memory.order.pieces import Piece, compile_pieces
from tflite_fuse.memory.order.units import unit_graph


def nearer_to_default(
    graph: MemoryGraph, order: Sequence[int], peak: int, out_of_time: Callable[[], bool], *, in_place: bool = False
) -> tuple[int, ...]:
    """Swap neighbours that the graph's own order has the other way round, as long as ``peak`` bytes are enough.

    A swap changes the working sets of the two swapped operators only.
    """
    (piece,) = compile_pieces(unit_graph(graph, in_place=in_place), [range(len(graph.ops))])
    result: list[int] = []
    states, lives = [0], [piece.start]
    for op in order:
        if out_of_time():
            return (*result, *order[len(result) :])
        place = _lowest_place(piece, result, states, lives, op, peak)
        result.insert(place, op)
        del states[place + 1 :], lives[place + 1 :]
        for moved in result[place:]:
            lives.append(lives[-1] + piece.effect(moved, states[-1])[1])
            states.append(states[-1] | 1 << moved)
    return tuple(result)


def _lowest_place(
    piece: Piece, result: Sequence[int], states: Sequence[int], lives: Sequence[int], op: int, peak: int
) -> int:
    """How far an operator may move ahead of operators that come after it in the default order."""
    place = len(result)
    while place:
        other, state, live = result[place - 1], states[place - 1], lives[place - 1]
        if other < op or piece.preds[op] >> other & 1:
            break
        rise, delta = piece.effect(op, state)
        rise_other, _ = piece.effect(other, state | 1 << op)
        if live + rise > peak or live + delta + rise_other > peak:
            break
        place -= 1
    return place
