"""What a way takes to the end at least, within the flash that all workers together have.

From the last cut back to the first, for everything that devices may hold at a cut, the least that edges and what
travels between them take from there on. That alone leads ways into a corner where flash is limited: the quickest
replicate weights until none is left. So it is worked out under many prices of a byte of flash, too. Under each, what a
way has taken, the least ahead with flash paid for, less the price of all the flash that is left, is a lower bound of
what the whole way takes (Lagrange's); the largest of them says best how good a label is. Ways that all workers together
have no flash left for are recognised for certain, by a price with nothing else to pay.
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
"""Prices are what the best way without limits takes, a byte of weights, times powers of the root of 2."""

ROOMS = (1.0, 0.985, 0.97, 0.95, 0.92, 0.88)
"""Parts of the flash: a way planned within less leaves what edges cannot share out evenly."""

Measured = Callable[[Cost], float]
"""What of a cost adds up to the objective."""


class Ahead:
    """Of one search.

    Attributes:
        prices: of a byte of flash; the last row of what is ahead has a price of 1 and nothing else to pay.
    """

    def __init__(
        self,
        joints: Joints,
        edges: Mapping[int, Sequence[Edge]],
        places: Sequence[int],
        workers: Sequence[Device],
        measured: Measured,
    ) -> None:
        """``edges`` by the cut they begin at."""
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
        """What ways to a cut take to the end at least; infinity where there is no way on.

        Returns:
            A row for each: within the flash there is, then what it would be within less and less of it, and as if all
            workers were as full as the fullest; last, how full that one is, and what all store in the end at least.
        """
        columns = len(ROOMS) + 3
        if not labels:
            return np.zeros((0, columns))
        nothing = np.full(len(self.prices) + 1, inf)
        ahead = self._ahead[place]
        to_end = np.array([ahead.get(self._joints.holding(label.edge), nothing) for label in labels])
        whole = np.array([spent(label) for label in labels])
        flash = np.array([[label.flash[worker] for worker in self._limited] for label in labels])
        used, total = flash.sum(axis=1), self._rooms.sum()
        fullest = (flash / self._rooms).max(axis=1, initial=0.0) * total
        found = np.empty((len(labels), columns))
        for column, (stored, room) in enumerate([*((used, total * part) for part in ROOMS), (fullest, total)]):
            bounds = whole[:, None] + to_end[:, :-1] + np.multiply.outer(stored - room, self.prices)
            found[:, column] = np.where(stored + to_end[:, -1] > room, inf, bounds.max(axis=1))
        found[:, -2:] = np.column_stack([fullest, used + to_end[:, -1]])
        return found

    def _worked_out(self) -> dict[int, dict[int, npt.NDArray[np.float64]]]:
        """By cut and by what is held there: what is ahead under every price, then bytes of flash."""
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
        """Of an edge and what comes behind it."""
        inside = self._joints.inside(edge)
        flash = sum(edge.flash.get(worker, 0) + int(inside.stored[worker]) for worker in self._limited)
        own = np.append(self._measured(inside) + self.prices * flash, flash)
        whole: npt.NDArray[np.float64] = own + found[edge.last][self._joints.holding(edge)]
        return whole
