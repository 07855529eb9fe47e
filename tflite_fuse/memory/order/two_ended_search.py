"""The exact search: at which peak is there an order of the units?

Search from both ends for a path through the states (sets of units that have run), under a bound on the working set.
The bound starts at a proven lower bound. When one end has exhausted every state it can reach, the bound rises to the
smallest working set that stopped it: any order must pass that. So the first path found is optimal.

Let ``live(S)`` be the bytes live after state S. A tensor counts from its writer until all its readers are in S, hence
``live(A | B) + live(A & B) <= live(A) + live(B)``. That makes this rule sound:

*run at once*. A unit that fits under the bound and leaves no more live than before is run without alternatives,
wherever it turns up. Take an order within the bound that runs it later, and run it now instead: the states between
have no more live than before, and each unit finds at least those inputs dying that died in it. The same holds for a
unit x followed by units run at once that all depend on x, if no more is live behind them than before x.

*both ends*. The same holds mirrored for the end, where units are taken back and states shrink. Either end may exhaust
its states and so raise the bound: the end with fewer states goes first.

Within the bound the search is depth-first, fewest live bytes first. A state is expanded again only if the bound has
risen to what stopped it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tflite_fuse.memory.order.problem import OrderProblem, bits


@dataclass(frozen=True)
class OrderRules:
    """Which rules the order search uses. All keep the optimum; ``scripts/bench_order.py`` shows what each saves.

    Attributes:
        merge: run operators back to back where an optimal order may (``merging``).
        twins: fix the order of chains of operators that are copies of each other (``units``).
        run_at_once: never branch on a unit that fits under the bound and leaves no more live (``two_ended_search``).
        both_ends: search from the end too; the end that is exhausted first proves the bound (``two_ended_search``).
    """

    merge: bool = True
    twins: bool = True
    run_at_once: bool = True
    both_ends: bool = True


ALL_RULES = OrderRules()


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
        parents: for each state reached: the state before it and the units in between.
        waiting: heap of states to expand within the bound.
        blocked: heap of (smallest need above the bound, state) to come back to when the bound rises.
    """

    forward: bool
    parents: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    waiting: list[Node] = field(default_factory=list)
    blocked: list[tuple[int, Node]] = field(default_factory=list)

    def trace(self, state: int) -> list[int]:
        """Return the units run (taken back) on the way from the start of this end to a state reached."""
        found: list[int] = []
        while self.parents[state][0] != state:
            state, units = self.parents[state]
            found += reversed(units)
        return found[::-1]


class OrderSearch:
    """The search for one problem; ``run`` may be called again after it ran out of work.

    Attributes:
        bound: bytes, proven: no order stays below it.
        ceiling: bytes of the best order known elsewhere; only better ones are searched for.
        order: units in an order whose peak is ``bound`` (or less), once found.
        states: states expanded so far.
    """

    def __init__(self, problem: OrderProblem, bound: int, ceiling: int, rules: OrderRules = ALL_RULES) -> None:
        self.problem, self.bound, self.ceiling, self.rules = problem, bound, ceiling, rules
        self.order: list[int] | None = None
        self.states = 0
        self._forward, self._backward = End(True), End(False)
        self._ends = (self._forward, self._backward) if rules.both_ends else (self._forward,)
        end_live = problem.start + sum(problem.delta) - sum(size for _, size in problem.shared)
        self._forward.parents[0] = (0, ())
        self._backward.parents[problem.full] = (problem.full, ())
        self._begin(self._forward, 0, problem.start)
        if rules.both_ends and self.order is None:
            self._begin(self._backward, problem.full, end_live)

    @property
    def ended(self) -> bool:
        """Whether an order was found, or the bound has reached the ceiling: the order known elsewhere is optimal."""
        return self.order is not None or self.bound >= self.ceiling

    def run(self, stop: Callable[[], bool]) -> bool:
        """Search until the end (True) or until ``stop`` says so (False)."""
        while not self.ended:
            if stop():
                return False
            exhausted = next((end for end in self._ends if not end.waiting), None)
            if exhausted is not None:
                self._raise_bound(exhausted.blocked[0][0] if exhausted.blocked else self.ceiling)
                continue
            end = min(self._ends, key=lambda e: len(e.parents))
            self.states += 1
            self._expand(end, heapq.heappop(end.waiting), stop)
        return True

    def _raise_bound(self, bound: int) -> None:
        self.bound = max(self.bound, min(bound, self.ceiling))
        for end in self._ends:
            while end.blocked and end.blocked[0][0] <= self.bound:
                heapq.heappush(end.waiting, heapq.heappop(end.blocked)[1])

    def _begin(self, end: End, state: int, live: int) -> None:
        """Give an end its first state, behind what runs (is taken back) at once."""
        needed = self.problem.preds if end.forward else self.problem.succs
        ready = sum(1 << unit for unit, others in enumerate(needed) if not others)
        node, units = self._settle(end, state, live, ready)
        if units:
            end.parents[node.state] = (state, tuple(units))
        end.waiting.append(node)
        self._met(node.state)

    def _expand(self, end: End, node: Node, stop: Callable[[], bool]) -> None:
        blocked = []
        for move in node.moves:
            if move.need > self.bound:
                blocked.append(move)
                continue
            if stop():
                heapq.heappush(end.waiting, node)
                return
            state = node.state ^ 1 << move.unit
            child, units = self._settle(end, state, move.live, self._now_ready(end, node.ready, state, move.unit))
            if child.state not in end.parents:
                end.parents[child.state] = (node.state, (move.unit, *units))
                if self._met(child.state):
                    return
                heapq.heappush(end.waiting, child)
            at_once = move.live <= node.live or (child.live <= node.live and self._all_need(end, units, move.unit))
            if at_once and self.rules.run_at_once:
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
            for unit in bits(ready):
                move = self._move(end, state, live, unit)
                if self.rules.run_at_once and move.need <= self.bound and move.live <= live:
                    state ^= 1 << unit
                    live = move.live
                    ready = self._now_ready(end, ready, state, unit)
                    units.append(unit)
                else:
                    moves.append(move)
            if len(units) == before:
                moves.sort()
                left = state.bit_count()
                return Node(-left if end.forward else left, live, state, ready, tuple(moves)), units

    def _move(self, end: End, state: int, live: int, unit: int) -> Move:
        if end.forward:
            rise, delta = self.problem.effect(unit, state)
            return Move(live + rise, live + delta, unit)
        rise, delta = self.problem.effect(unit, state ^ 1 << unit)
        return Move(live - delta + rise, live - delta, unit)

    def _now_ready(self, end: End, ready: int, state: int, unit: int) -> int:
        """Return the units that may run (be taken back) in a state just reached by ``unit``."""
        ready &= ~(1 << unit)
        if end.forward:
            for succ in bits(self.problem.succs[unit]):
                if self.problem.preds[succ] & ~state == 0:
                    ready |= 1 << succ
        else:
            for pred in bits(self.problem.preds[unit]):
                if self.problem.succs[pred] & state == 0:
                    ready |= 1 << pred
        return ready

    def _all_need(self, end: End, units: list[int], first: int) -> bool:
        """Whether none of the units could run (be taken back) before ``first``."""
        bound_to = self.problem.after[first] if end.forward else self.problem.before[first]
        return all(bound_to >> unit & 1 for unit in units)

    def _met(self, state: int) -> bool:
        """Whether both ends have reached the state; if so the order through it is the answer."""
        if state not in self._forward.parents or state not in self._backward.parents:
            return False
        self.order = self._forward.trace(state) + self._backward.trace(state)[::-1]
        return True
