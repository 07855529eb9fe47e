"""Exact search, from both ends, for the order of operators with the least peak.

A path through the states (sets of operators that have run) is searched under a bound on the working set. The bound
starts at a proven lower bound. When one end has exhausted its reachable states, the bound rises to the smallest working
set that exceeded it, because every order must reach that. The first path found is therefore optimal.

Let ``live(S)`` be the bytes live after state S. A tensor counts from its writer until all its readers are in S, hence
``live(A | B) + live(A & B) <= live(A) + live(B)``. This makes two rules sound:

*Run at once.* An operator that fits under the bound and does not increase the live bytes runs immediately, without
alternatives. Proof: take an order within the bound that runs it later, and move it here. The states between have no
more live bytes than before, and each operator frees at least the inputs that it freed before. The same holds for an
operator x and those run at once behind it that all depend on x, if the live bytes after them do not exceed those before
x.

*Both ends.* The mirrored rule holds at the end, where operators are taken back and states shrink. Either end may
exhaust its states and raise the bound; the end with fewer states is expanded first.

Within the bound the search is depth-first, fewest live bytes first. A state is expanded again only after the bound has
risen to the working set that stopped it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tflite_fuse.memory.order.problem import OrderProblem, bits


@dataclass(frozen=True)
class OrderRules:
    """Rules of the order search. Each keeps the optimum; ``scripts/bench_order.py`` measures the states each one saves.

    Attributes:
        twins: fix the order of chains that are copies of each other (``twins``).
        run_at_once: do not branch on an operator that fits under the bound and does not increase the live bytes.
        both_ends: search from the end too; the end that is exhausted first proves the bound.
    """

    twins: bool = True
    run_at_once: bool = True
    both_ends: bool = True


ALL_RULES = OrderRules()


class Move(NamedTuple):
    """One operator run (or taken back): bytes of its working set, bytes live afterwards, and its number."""

    need: int
    live: int
    op: int


class Node(NamedTuple):
    """A state waiting for expansion. Nodes sort by the most operators completed, then by the fewest live bytes."""

    distance: int
    live: int
    state: int
    ready: int
    moves: tuple[Move, ...]


@dataclass
class End:
    """One of the two ends of the search.

    Attributes:
        forward: True for the end that runs operators, False for the one that takes them back.
        parents: for each state reached: the previous state and the operators in between.
        waiting: heap of states to expand within the bound.
        blocked: heap of (smallest working set above the bound, state) to expand once the bound has risen.
    """

    forward: bool
    parents: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    waiting: list[Node] = field(default_factory=list)
    blocked: list[tuple[int, Node]] = field(default_factory=list)

    def trace(self, state: int) -> list[int]:
        """Return the operators run (taken back) from the start of this end to a reached state."""
        path: list[int] = []
        while self.parents[state][0] != state:
            state, ops = self.parents[state]
            path += reversed(ops)
        return path[::-1]


class OrderSearch:
    """The search for one problem; ``run`` can be called again after its budget ran out.

    Attributes:
        bound: proven bytes that no order stays below.
        ceiling: peak in bytes of the best order so far; the search accepts only smaller ones.
        order: operators in an order whose peak is at most ``bound``, once found.
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
        """Return whether an order was found, or the bound reached the ceiling: the best order so far is optimal."""
        return self.order is not None or self.bound >= self.ceiling

    def run(self, stop: Callable[[], bool]) -> bool:
        """Search until the end (return True) or until ``stop`` returns True (return False)."""
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
        """Store the first state of an end, behind the operators that run (are taken back) at once."""
        needed = self.problem.preds if end.forward else self.problem.succs
        ready = sum(1 << op for op, mask in enumerate(needed) if not mask)
        node, ops = self._settle(end, state, live, ready)
        if ops:
            end.parents[node.state] = (state, tuple(ops))
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
            state = node.state ^ 1 << move.op
            child, ops = self._settle(end, state, move.live, self._ready_after(end, node.ready, state, move.op))
            if child.state not in end.parents:
                end.parents[child.state] = (node.state, (move.op, *ops))
                if self._met(child.state):
                    return
                heapq.heappush(end.waiting, child)
            at_once = move.live <= node.live or (child.live <= node.live and self._all_need(end, ops, move.op))
            if at_once and self.rules.run_at_once:
                return
        if blocked:
            node = node._replace(moves=tuple(blocked))
            heapq.heappush(end.blocked, (min(move.need for move in blocked), node))

    def _settle(self, end: End, state: int, live: int, ready: int) -> tuple[Node, list[int]]:
        """Run (take back) at once all operators that the rule allows; return the final state and the operators."""
        ops: list[int] = []
        while True:
            moves: list[Move] = []
            before = len(ops)
            for op in bits(ready):
                move = self._move(end, state, live, op)
                if self.rules.run_at_once and move.need <= self.bound and move.live <= live:
                    state ^= 1 << op
                    live = move.live
                    ready = self._ready_after(end, ready, state, op)
                    ops.append(op)
                else:
                    moves.append(move)
            if len(ops) == before:
                moves.sort()
                left = state.bit_count()
                return Node(-left if end.forward else left, live, state, ready, tuple(moves)), ops

    def _move(self, end: End, state: int, live: int, op: int) -> Move:
        if end.forward:
            rise, delta = self.problem.effect(op, state)
            return Move(live + rise, live + delta, op)
        rise, delta = self.problem.effect(op, state ^ 1 << op)
        return Move(live - delta + rise, live - delta, op)

    def _ready_after(self, end: End, ready: int, state: int, op: int) -> int:
        """Return the operators that may run (be taken back) in the state just reached by ``operator``."""
        ready &= ~(1 << op)
        if end.forward:
            for succ in bits(self.problem.succs[op]):
                if self.problem.preds[succ] & ~state == 0:
                    ready |= 1 << succ
        else:
            for pred in bits(self.problem.preds[op]):
                if self.problem.succs[pred] & state == 0:
                    ready |= 1 << pred
        return ready

    def _all_need(self, end: End, ops: list[int], first: int) -> bool:
        """Return whether all operators must run (be taken back) after ``first``."""
        bound_to = self.problem.after[first] if end.forward else self.problem.before[first]
        return all(bound_to >> op & 1 for op in ops)

    def _met(self, state: int) -> bool:
        """Return whether both ends have reached the state, and store the order through it."""
        if state not in self._forward.parents or state not in self._backward.parents:
            return False
        self.order = self._forward.trace(state) + self._backward.trace(state)[::-1]
        return True
