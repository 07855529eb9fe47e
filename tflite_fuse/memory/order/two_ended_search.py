"""The exact search: at which peak is there an order of a piece's units?

Search from both ends for a path through the states (sets of units that have run), under a bound on the working set.
The bound starts at a proven lower bound. When one end has exhausted every state it can reach, the bound rises to the
smallest working set that stopped it: any order must pass that. So the first path found is optimal.

Let ``live(S)`` be the bytes live after state S. A tensor counts from its writer until all its readers are in S, hence
``live(A | B) + live(A & B) <= live(A) + live(B)``, with a slack of every tensor that dies in the union and in neither
of A and B. That makes the rules below sound; each can be switched off (``OrderRules``).

*valley*. Let Q be reachable from S within the bound and ``live(Q) <= live(R)`` for every state R between S and Q.
Then, if any order through S is within the bound, one through S and Q is: commit to Q and forget the alternatives.
Proof: take such an order, its states S = T0, T1, ..., and run first the units of Q, then go through the states Q |
Ti. ``live(Q | Ti) <= live(Q) + live(Ti) - live(Q & Ti) <= live(Ti)``, as Q & Ti lies between S and Q; and a unit that
runs at Q | Ti finds at least those inputs dying that die at Ti, so that its own needs are no larger. To find a Q,
look for any reachable state with no more live than S. Between it and S take the state M of least live bytes (a
minimum cut, ``min_cut_bounds``): M is reachable by the same path without the units outside M, as ``live(P & M) <=
live(P) + live(M) - live(P | M) <= live(P)`` for each state P of the path, the slack making up for inputs that now die
later.

*run at once* is the same for a single unit that fits under the bound and leaves no more live than before, wherever it
turns up. Such units need no minimum cut, nor does a unit x followed by units run at once that all depend on x, if no
more is live behind them than before x.

*both ends*. Everything holds mirrored for the end, where units are taken back and states shrink. Each end looks at
states between its own committed state and that of the other (as it was when its own last changed; a newer one is
respected by intersecting, which costs nothing by the same inequality). Either end may exhaust its states and so raise
the bound: the end with fewer states goes first.

Within the bound the search is depth-first, fewest live bytes first. A state is expanded again only if the bound has
risen to what stopped it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tflite_fuse.memory.order.min_cut_bounds import least_live_state
from tflite_fuse.memory.order.pieces import OrderRules, Piece, bits


class Move(NamedTuple):
    """One unit run (or taken back): the bytes it needs, what is live then, and which unit."""

    need: int
    live: int
    unit: int


class Node(NamedTuple):
    """A state that waits to be expanded. Ordered: the most units left behind first, then the fewest live bytes."""

    distance: int
    live: int
    state: int
    ready: int
    moves: tuple[Move, ...]


@dataclass
class End:
    """One of the two ends of the search.

    Attributes:
        forward: True for the end that runs units, False for the one that takes them back.
        base: the committed state.
        limit: the committed state of the other end when this one last moved its base; no state is looked at beyond it.
        live: bytes live at ``base``.
        parents: for each state ever reached: the state before it and the units in between.
        seen: states reached since ``base`` was last moved.
        waiting: heap of states to expand within the bound.
        blocked: heap of (smallest need above the bound, state) to come back to when the bound rises.
    """

    forward: bool
    base: int
    limit: int
    live: int
    parents: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    waiting: list[Node] = field(default_factory=list)
    blocked: list[tuple[int, Node]] = field(default_factory=list)

    def within(self, state: int) -> bool:
        """Whether a state lies between the base and the limit."""
        low, high = (self.base, self.limit) if self.forward else (self.limit, self.base)
        return low & ~state == 0 and state & ~high == 0

    def trace(self, state: int, start: int) -> list[int]:
        """The units run (taken back) on the way from one state reached to a later one."""
        found: list[int] = []
        while state != start:
            state, units = self.parents[state]
            found += reversed(units)
        return found[::-1]


class PieceSearch:
    """The search for one piece; ``run`` may be called again after it ran out of time.

    Attributes:
        bound: proven: no order of the piece stays below it.
        ceiling: bytes of the best order known elsewhere; only better ones are looked for.
        order: units in an order whose peak is ``bound`` (or less), once found.
        states: states expanded so far.
    """

    def __init__(self, piece: Piece, bound: int, ceiling: int, rules: OrderRules) -> None:
        self.piece = piece
        self.bound = bound
        self.ceiling = ceiling
        self.order: list[int] | None = None
        self.states = 0
        self.rules = rules
        end_live = piece.start + sum(piece.delta) - sum(size for _, size in piece.shared)
        self._forward = End(True, 0, piece.full, piece.start)
        self._backward = End(False, piece.full, 0, end_live)
        self._forward.parents[0] = (0, ())
        self._backward.parents[piece.full] = (piece.full, ())
        self._ends = (self._forward, self._backward) if rules.both_ends else (self._forward,)
        self._started = False

    @property
    def ended(self) -> bool:
        """Whether an order was found, or the bound has reached the ceiling: the order known elsewhere is optimal."""
        return self.order is not None or self.bound >= self.ceiling

    def run(self, stop: Callable[[], bool]) -> bool:
        """Search until the end (True) or until told to stop (False)."""
        if not self._started:
            if stop():
                return False
            self._started = True
            for end in self._ends:
                self._commit(end, end.base, end.live)
        while not self.ended:
            if stop():
                return False
            exhausted = next((end for end in self._ends if not end.waiting), None)
            if exhausted is not None:
                needed = exhausted.blocked[0][0] if exhausted.blocked else self.ceiling
                self.raise_bound(max(needed, self.bound + 1))
                continue
            end = min(self._ends, key=lambda e: len(e.seen))
            self.states += 1
            self._expand(end, heapq.heappop(end.waiting), stop)
        return True

    def raise_bound(self, bound: int) -> None:
        """Take a proven lower bound into account."""
        if self.order is not None:
            return
        self.bound = max(self.bound, min(bound, self.ceiling))
        for end in self._ends:
            while end.blocked and end.blocked[0][0] <= self.bound:
                _, node = heapq.heappop(end.blocked)
                heapq.heappush(end.waiting, node)

    def _expand(self, end: End, node: Node, stop: Callable[[], bool]) -> None:
        blocked = []
        for move in node.moves:
            state = node.state ^ 1 << move.unit
            if not end.within(state):
                continue
            if move.need > self.bound:
                blocked.append(move)
                continue
            if stop():
                heapq.heappush(end.waiting, node)
                return
            child, units = self._settle(end, state, move.live, self._now_ready(end, node.ready, state, move.unit))
            committed = move.live <= node.live or (child.live <= node.live and self._all_need(end, units, move.unit))
            if child.state not in end.seen:
                end.seen.add(child.state)
                end.parents[child.state] = (node.state, (move.unit, *units))
                if self._met(child.state):
                    return
                if self.rules.valley and child.live <= end.live:
                    self._commit_reached(end, child, committed and node.state == end.base)
                    return
                heapq.heappush(end.waiting, child)
            if committed and self.rules.run_at_once:
                return
        if blocked:
            node = node._replace(moves=tuple(blocked))
            heapq.heappush(end.blocked, (min(move.need for move in blocked), node))

    def _settle(self, end: End, state: int, live: int, ready: int) -> tuple[Node, list[int]]:
        """Run (take back) at once what may be; returns the state where that ends, and the units."""
        units: list[int] = []
        while True:
            moves: list[Move] = []
            before = len(units)
            todo = ready
            while todo:
                bit = todo & -todo
                todo ^= bit
                if not end.within(state ^ bit):
                    continue
                move = self._move(end, state, live, bit.bit_length() - 1)
                if self.rules.run_at_once and move.need <= self.bound and move.live <= live:
                    state ^= bit
                    live = move.live
                    ready = self._now_ready(end, ready, state, move.unit)
                    units.append(move.unit)
                else:
                    moves.append(move)
            if len(units) == before:
                moves.sort()
                left = state.bit_count()
                return Node(-left if end.forward else left, live, state, ready, tuple(moves)), units

    def _move(self, end: End, state: int, live: int, unit: int) -> Move:
        if end.forward:
            rise, delta = self.piece.effect(unit, state)
            return Move(live + rise, live + delta, unit)
        rise, delta = self.piece.effect(unit, state ^ 1 << unit)
        return Move(live - delta + rise, live - delta, unit)

    def _now_ready(self, end: End, ready: int, state: int, unit: int) -> int:
        """The units that may run (be taken back) in a state just reached by ``unit``."""
        ready &= ~(1 << unit)
        if end.forward:
            for succ in bits(self.piece.succs[unit]):
                if self.piece.preds[succ] & ~state == 0:
                    ready |= 1 << succ
        else:
            for pred in bits(self.piece.preds[unit]):
                if self.piece.succs[pred] & state == 0:
                    ready |= 1 << pred
        return ready

    def _all_need(self, end: End, units: list[int], first: int) -> bool:
        """Whether none of the units could run (be taken back) before ``first``."""
        bound_to = self.piece.after[first] if end.forward else self.piece.before[first]
        return all(bound_to >> unit & 1 for unit in units)

    def _commit_reached(self, end: End, child: Node, lowest: bool) -> None:
        """Commit to the state of least live bytes on the way to one with no more than at the base."""
        state, live = child.state, child.live
        if not lowest:
            low, high = (end.base, state) if end.forward else (state, end.base)
            cut, cut_live = least_live_state(self.piece, low, high)
            if cut_live < live:
                state, live = cut, cut_live
        state = state & self._backward.base if end.forward else state | self._forward.base
        if state not in (child.state, end.base):
            moved = state ^ end.base
            units = tuple(unit for unit in end.trace(child.state, end.base) if moved >> unit & 1)
            end.parents[state] = (end.base, units)
        self._commit(end, state, live)

    def _commit(self, end: End, state: int, live: int) -> None:
        """Make a state, already in ``parents``, the base from which the end goes on."""
        end.base = state
        end.limit = self._backward.base if end.forward else self._forward.base
        ready = 0
        for unit in range(len(self.piece.ops)):
            if end.forward and not state >> unit & 1 and self.piece.preds[unit] & ~state == 0:
                ready |= 1 << unit
            if not end.forward and state >> unit & 1 and self.piece.succs[unit] & state == 0:
                ready |= 1 << unit
        node, units = self._settle(end, state, live, ready)
        if units:
            end.parents[node.state] = (state, tuple(units))
        end.base, end.live = node.state, node.live
        end.seen = {node.state}
        end.blocked = []
        end.waiting = [node]
        self._met(node.state)

    def _met(self, state: int) -> bool:
        """Whether both ends have reached the state; if so the order through it is the answer."""
        if state not in self._forward.parents or state not in self._backward.parents:
            return False
        last = self._backward.trace(state, self.piece.full)
        self.order = self._forward.trace(state, 0) + last[::-1]
        return True
