"""Cuts of least live bytes, by maximum flow: how low memory can be while something must be held.

What is live after a set of units has run is a constant, plus each unit's own change, minus the bytes of every shared
tensor whose readers have all run. Choosing the set with the least of it, under "a unit brings its predecessors", is the
project selection problem (maximum closure), solved by one minimum cut.
"""

from __future__ import annotations

from collections import deque

from tflite_fuse.memory.order.pieces import Piece, bits

_UNLIMITED = 1 << 62


def least_live_state(piece: Piece, low: int, high: int) -> tuple[int, int]:
    """The state between ``low`` and ``high`` (as sets, both included) after which the fewest bytes are live.

    Both must be closed under predecessors. Of several the smallest set is taken.

    Returns:
        (state, live bytes after it).
    """
    free = [unit for unit in range(len(piece.ops)) if (high & ~low) >> unit & 1]
    number = {unit: index for index, unit in enumerate(free)}
    base = piece.start + sum(piece.delta[unit] for unit in bits(low))
    network = _Network(len(free) + len(piece.shared) + 2)
    source, sink = network.size - 2, network.size - 1
    constant = base
    for unit in free:
        change = piece.delta[unit]
        node = number[unit]
        if change > 0:
            network.add(node, sink, change)
        elif change < 0:
            network.add(source, node, -change)
            constant += change
        for pred in bits(piece.preds[unit] & ~low):
            network.add(node, number[pred], _UNLIMITED)
    for index, (readers, size) in enumerate(piece.shared):
        if readers & ~high:
            continue
        constant -= size
        missing = readers & ~low
        if missing:
            network.add(source, len(free) + index, size)
            for reader in bits(missing):
                network.add(len(free) + index, number[reader], _UNLIMITED)
    flow = network.maximum_flow(source, sink)
    chosen = network.reachable(source)
    state = low
    for unit in free:
        if number[unit] in chosen:
            state |= 1 << unit
    return state, constant + flow


def least_working_set(piece: Piece, unit: int) -> int:
    """The fewest bytes a unit can run in, over all orders: a lower bound of the piece's peak."""
    high = piece.full & ~piece.after[unit] & ~(1 << unit)
    _, live = least_live_state(piece, piece.before[unit], high)
    return live + piece.rise[unit]


class _Network:
    """Dinic's maximum flow on adjacency lists, without recursion."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._edges: list[list[int]] = [[] for _ in range(size)]
        self._target: list[int] = []
        self._capacity: list[int] = []

    def add(self, start: int, end: int, capacity: int) -> None:
        self._edges[start].append(len(self._target))
        self._target.append(end)
        self._capacity.append(capacity)
        self._edges[end].append(len(self._target))
        self._target.append(start)
        self._capacity.append(0)

    def maximum_flow(self, source: int, sink: int) -> int:
        flow = 0
        while True:
            level = self._levels(source)
            if sink not in level:
                return flow
            cursor = [0] * self.size
            while pushed := self._push(source, sink, level, cursor):
                flow += pushed

    def reachable(self, source: int) -> dict[int, int]:
        """The nodes still reachable after ``maximum_flow``: the source's side of the smallest minimum cut."""
        return self._levels(source)

    def _levels(self, source: int) -> dict[int, int]:
        level = {source: 0}
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for edge in self._edges[node]:
                target = self._target[edge]
                if self._capacity[edge] and target not in level:
                    level[target] = level[node] + 1
                    queue.append(target)
        return level

    def _push(self, source: int, sink: int, level: dict[int, int], cursor: list[int]) -> int:
        """Send flow along one shortest path; 0 if there is none left at these levels."""
        path: list[int] = []
        node = source
        while node != sink:
            edges = self._edges[node]
            while cursor[node] < len(edges):
                edge = edges[cursor[node]]
                target = self._target[edge]
                if self._capacity[edge] and level.get(target, -1) == level[node] + 1:
                    break
                cursor[node] += 1
            if cursor[node] < len(edges):
                path.append(edges[cursor[node]])
                node = self._target[path[-1]]
            elif path:
                node = self._target[path.pop() ^ 1]
                cursor[node] += 1
            else:
                return 0
        amount = min(self._capacity[edge] for edge in path)
        for edge in path:
            self._capacity[edge] -= amount
            self._capacity[edge ^ 1] += amount
        return amount
