"""Which ways to a cut are followed.

Of ways after which the same devices hold the same, one that is not better in anything is beaten: by what edges are
expected to take, it is on no best way. As a plan may take less than expected, some of those are kept beside the others.
Where more than the beam's width are unbeaten, those are dropped that take most with what they have ahead (``ahead``);
that loses nothing that is expected to be the best as long as the best way found takes no more than the least of them
would. Where this is not so the result is no more than the best one found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np
import numpy.typing as npt

from tflite_fuse.split.search.labels import Label

BEAM = 48
"""Labels kept at a cut, and ..."""
ALIKE = 6
"""... of those in which the same devices hold the same, three times as many within limited flash."""
SPARE = 12
"""Labels kept beside them that another one beats, where there is room."""

Key = Callable[[Label], tuple[float, ...]]


@dataclass(frozen=True)
class Beam:
    """Which labels are worth keeping at a cut.

    Attributes:
        key: the objective, then what decides between equals.
        holding: equal for labels after which the same devices hold the same.
        by_flash: whether it is limited, so that a way that uses less may reach farther. RAM is free again behind each
            edge: what fits there does.
        by_load: whether the busiest counts, so that a way may become better that leaves others more to do.
        spare: how many are kept that something beats.
    """

    key: Key
    holding: Callable[[Label], int]
    by_flash: bool
    by_load: bool
    spare: int = SPARE

    def kept(self, labels: Sequence[Label], least: npt.NDArray[np.float64]) -> tuple[list[Label], float]:
        """The labels to keep, best first, and the least that any takes that was dropped though nothing beats it.

        Args:
            labels: ways to one cut.
            least: a row for each: what it takes to the end at least; then the same in other views, each of which keeps
                its share of labels; infinity where it does not get there.
        """
        order = sorted(range(len(labels)), key=lambda number: self.key(labels[number]))
        groups: dict[int, list[int]] = {}
        for number in order:
            if isfinite(least[number, 0]):
                groups.setdefault(self.holding(labels[number]), []).append(number)
        kept, spare = list[int](), list[int]()
        unbeaten = np.zeros(len(labels), np.bool_)
        for group in groups.values():
            best, beaten = self._split(labels, group)
            unbeaten[best] = True
            kept += _chosen(best, least, 3 * ALIKE if self.by_flash else ALIKE)
            spare += beaten
        kept = _chosen(kept, least, BEAM)
        unbeaten[kept] = False
        kept += _chosen(spare, least, min(self.spare, BEAM - len(kept)))
        places = {number: place for place, number in enumerate(order)}
        kept.sort(key=lambda number: (least[number, 0], places[number]))
        return [labels[number] for number in kept], float(least[unbeaten, 0].min(initial=inf))

    def _split(self, labels: Sequence[Label], group: list[int]) -> tuple[list[int], list[int]]:
        """Those of labels that hold the same, given best first, which nothing beats, and the others."""
        unbeaten, beaten = list[int](), list[int]()
        left = np.array([self._left(labels[number]) for number in group])
        best = np.empty_like(left)
        for number, here in zip(group, left, strict=True):
            if (best[: len(unbeaten)] <= here).all(axis=1).any():
                beaten.append(number)
            else:
                best[len(unbeaten)] = here
                unbeaten.append(number)
        return unbeaten, beaten

    def _left(self, label: Label) -> npt.NDArray[np.float64]:
        """What a way leaves to what comes behind it, beside its key, the smaller the better: flash used, and loads."""
        flash = [np.array(label.flash, np.float64)] if self.by_flash else []
        return np.concatenate([*flash, label.load, label.taken] if self.by_load else [*flash, np.empty(0)])


def _chosen(numbers: list[int], least: npt.NDArray[np.float64], most: int) -> list[int]:
    """At most so many labels: the best in each view in turn."""
    if len(numbers) <= most:
        return numbers
    ranks = np.argsort(least[numbers], axis=0, kind="stable")
    found = dict.fromkeys(numbers[at] for at in ranks.ravel() if isfinite(least[numbers[at], 0]))
    return list(found)[:most]
