"""Lower bounds of the rest of a way to the last cut, within the flash of all workers together.

From the last cut back to the first, for each distribution of values at a cut, the least cost of edges and transfers
from there on is computed. With limited flash that alone misleads: the quickest ways replicate weights until none is
left. So it is also computed under many prices of a byte of flash. Under each, the cost so far plus the least cost ahead
with flash paid for, less the price of all remaining flash, is a lower bound of the whole way (Lagrange's); the largest
of them ranks a label. A price with no other cost detects ways that all workers together have too little flash for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite

import numpy as np
import numpy.typing as npt

from tflite_fuse.split.devices import Device
from tflite_fuse.split.needs import LIBRARY_BYTES
from tflite_fuse.split.search.edge import Edge
from tflite_fuse.split.search.labels import Cost, Joints, Label

_STEPS = np.arange(-16, 13)
"""Exponents of the prices: powers of the root of 2 times the unlimited best way's cost per byte of weights."""

Measured = Callable[[Cost], float]
"""The part of a cost that the objective sums."""


class Ahead:
    """Lower bounds for one search.

    Attributes:
        prices: of a byte of flash; the last row of each bound has price 1 and no other cost.
    """

    def __init__(
        self,
        joints: Joints,
        edges: Mapping[int, Sequence[Edge]],
        places: Sequence[int],
        workers: Sequence[Device],
        measured: Measured,
    ) -> None:
        """Compute the bounds; ``edges`` are by the cut they begin at."""
        self._joints, self._edges, self._places, self._measured = joints, edges, places, measured
        self._limited = [number for number, worker in enumerate(workers) if worker.flash is not None]
        limits = [worker.flash for worker in workers if worker.flash is not None]
        self._rooms = np.maximum(1.0, np.array(limits, np.float64) - LIBRARY_BYTES)
        self.prices = np.zeros(1)
        self._ahead = self._worked_out()
        free, stored = self._ahead[places[0]][joints.holding(None)]
        if self._limited and isfinite(free):
            self.prices = np.append(0.0, (free or 1.0) / max(1.0, stored) * 2.0 ** (_STEPS / 2))
            self._ahead = self._worked_out()

    def least(self, labels: Sequence[Label], place: int, spent: Callable[[Label], float]) -> npt.NDArray[np.float64]:
        """Return lower bounds of ways through labels of a cut; infinity where no way continues.

        Returns:
            A row per label: the bound within the available flash, and as if all workers were as full as the fullest;
            last, the fill of that one, and the least flash that all store in the end.
        """
        if not labels:
            return np.zeros((0, 4))
        nothing = np.full(len(self.prices) + 1, inf)
        ahead = self._ahead[place]
        to_end = np.array([ahead.get(self._joints.holding(label.edge), nothing) for label in labels])
        whole = np.array([spent(label) for label in labels])
        flash = np.array([[label.flash[worker] for worker in self._limited] for label in labels])
        used, total = flash.sum(axis=1), self._rooms.sum()
        fullest = (flash / self._rooms).max(axis=1, initial=0.0) * total
        bounds = []
        for stored in (used, fullest):
            priced = whole[:, None] + to_end[:, :-1] + np.multiply.outer(stored - total, self.prices)
            bounds.append(np.where(stored + to_end[:, -1] > total, inf, priced.max(axis=1)))
        return np.column_stack([*bounds, fullest, used + to_end[:, -1]])

    def _worked_out(self) -> dict[int, dict[int, npt.NDArray[np.float64]]]:
        """Return cut → distribution of values → least cost ahead under every price, then bytes of flash."""
        ends: dict[int, dict[int, Edge | None]] = {place: {} for place in self._places}
        ends[self._places[0]][self._joints.holding(None)] = None
        for edge in (edge for edges in self._edges.values() for edge in edges):
            ends[edge.last][self._joints.holding(edge)] = edge
        found: dict[int, dict[int, npt.NDArray[np.float64]]] = {}
        for place in reversed(self._places):
            onward = [(edge, self._onward(edge, found)) for edge in self._edges.get(place, ())]
            found[place] = {
                number: self._least(before, onward) if place != self._places[-1] else np.zeros(len(self.prices) + 1)
                for number, before in ends[place].items()
            }
        return found

    def _least(
        self, before: Edge | None, onward: Iterable[tuple[Edge, npt.NDArray[np.float64]]]
    ) -> npt.NDArray[np.float64]:
        best = np.full(len(self.prices) + 1, inf)
        for edge, rest in onward:
            travels = self._joints.between(before, edge)
            flash = int(travels.stored[self._limited].sum())
            best = np.minimum(best, rest + np.append(self._measured(travels) + self.prices * flash, flash))
        return best

    def _onward(
        self, edge: Edge, found: Mapping[int, Mapping[int, npt.NDArray[np.float64]]]
    ) -> npt.NDArray[np.float64]:
        """Return the cost of an edge and of the rest behind it."""
        inside = self._joints.inside(edge)
        flash = sum(edge.flash.get(worker, 0) + int(inside.stored[worker]) for worker in self._limited)
        own = np.append(self._measured(inside) + self.prices * flash, flash)
        whole: npt.NDArray[np.float64] = own + found[edge.last][self._joints.holding(edge)]
        return whole
