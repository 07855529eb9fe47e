from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.order.order_graphs import least_peak, small_graphs
from tflite_fuse.ir.liveness import bytes_before_start
from tflite_fuse.ir.memory_graph import MemoryGraph
from tflite_fuse.memory.order.min_cut_bounds import least_live_state, least_working_set
from tflite_fuse.memory.order.pieces import Piece, compile_pieces
from tflite_fuse.memory.order.units import topological, unit_graph

quick = settings(max_examples=80, deadline=None)


def whole(graph: MemoryGraph) -> Piece:
    units = unit_graph(graph)
    (piece,) = compile_pieces(units, [topological(units)])
    return piece


def states(piece: Piece) -> list[int]:
    closed = []
    for state in range(piece.full + 1):
        members = [unit for unit in range(len(piece.ops)) if state >> unit & 1]
        if all(piece.preds[unit] & ~state == 0 for unit in members):
            closed.append(state)
    return closed


def live(piece: Piece, state: int) -> int:
    """Bytes live after a state, by running its units."""
    total, done = piece.start, 0
    while done != state:
        for unit in range(len(piece.ops)):
            if (state & ~done) >> unit & 1 and piece.preds[unit] & ~done == 0:
                total += piece.effect(unit, done)[1]
                done |= 1 << unit
    return total


@quick
@given(small_graphs(), st.data())
def test_the_cut_is_the_state_of_least_live_bytes(graph: MemoryGraph, data: st.DataObject) -> None:
    piece = whole(graph)
    low = data.draw(st.sampled_from(states(piece)))
    high = data.draw(st.sampled_from([state for state in states(piece) if state & low == low]))
    between = [state for state in states(piece) if low & ~state == 0 and state & ~high == 0]
    state, least = least_live_state(piece, low, high)
    assert state in between
    assert least == live(piece, state) == min(live(piece, other) for other in between)


@quick
@given(small_graphs())
def test_live_bytes_are_submodular(graph: MemoryGraph) -> None:
    """What every pruning rule rests on."""
    piece = whole(graph)
    closed = states(piece)[:24]
    lives = {state: live(piece, state) for state in closed}
    for a in closed:
        for b in closed:
            if a | b in lives and a & b in lives:
                assert lives[a | b] + lives[a & b] <= lives[a] + lives[b]


@quick
@given(small_graphs())
def test_least_working_sets_are_reached_and_bound_the_peak(graph: MemoryGraph) -> None:
    piece = whole(graph)
    bounds = [least_working_set(piece, unit) for unit in range(len(piece.ops))]
    for unit, bound in enumerate(bounds):
        ready = [s for s in states(piece) if not s >> unit & 1 and piece.preds[unit] & ~s == 0]
        assert bound == min(live(piece, state) + piece.effect(unit, state)[0] for state in ready)
    assert max(bounds) <= max(least_peak(graph), bytes_before_start(graph))
