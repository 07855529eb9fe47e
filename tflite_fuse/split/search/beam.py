"""Lower bounds over all splits and of the rest of a path, and the selection of labels at a cut.

Bounds: an element without a reader, as every other row before a convolution of stride 2 and kernel size 1, need not be
sent or computed. So the needed sets of rows, columns and channels are propagated from the outputs back; where several
readers need parts of a value, the largest part counts. Their union may be larger, so the result is a lower bound.

Ahead: from the last cut back to the first, for each distribution of values at a cut, the least cost of edges and
transfers from there on is computed. With limited flash that alone misleads: the quickest paths replicate weights until
none is left. So it is also computed under many prices of a byte of flash. Under each, the cost so far plus the least
cost ahead with flash paid for, less the price of all remaining flash, is a lower bound of the whole path (Lagrange's);
the largest of them ranks a label. A price with no other cost detects paths that all workers together have too little
flash for.

Beam: of labels with the same distribution of values, one that is better in nothing is dominated by expected cost. As
actual costs may be lower, dominated ones fill the beam. If more labels than the beam's width are not dominated, those
with the largest cost including the bound ahead are dropped. That loses nothing as long as the best path
found costs no more than the least dropped bound; otherwise the result is only the best one found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import BlockError
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.pieces import box_needs, can_be_cut
from tflite_fuse.split.cut.regions import Box
from tflite_fuse.split.devices import Cluster, Device
from tflite_fuse.split.needs import LIBRARY_BYTES
from tflite_fuse.split.search.edges import Edge
from tflite_fuse.split.search.estimates import Estimates
from tflite_fuse.split.search.labels import Cost, Label, TransferCosts

_PRICES = 2.0 ** (np.arange(-16, 13) / 2)
"""Prices of a byte of flash, in the unlimited best path's cost per byte of weights.

More prices give better plans where flash is scarce, and take more time of the search.
"""

Measured = Callable[[Cost], float]
"""The part of a cost that the objective sums."""


class BoundsAhead:
    """Lower bounds for one search.

    Attributes:
        prices: of a byte of flash; the last row of each bound has price 1 and no other cost.
    """

    def __init__(
        self,
        transfer_costs: TransferCosts,
        edges: Mapping[int, Sequence[Edge]],
        places: Sequence[int],
        workers: Sequence[Device],
        measured: Measured,
    ) -> None:
        """Compute the bounds; ``edges`` are by the cut they begin at."""
        self._transfer_costs, self._edges, self._places, self._measured = transfer_costs, edges, places, measured
        self._limited = [number for number, worker in enumerate(workers) if worker.flash is not None]
        limits = [worker.flash for worker in workers if worker.flash is not None]
        self._rooms = np.maximum(1.0, np.array(limits, np.float64) - LIBRARY_BYTES)
        self.prices = np.zeros(1)
        self._ahead = self._worked_out()
        free, stored = self._ahead[places[0]][transfer_costs.holding(None)]
        if self._limited and isfinite(free):
            self.prices = np.append(0.0, (free or 1.0) / max(1.0, stored) * _PRICES)
            self._ahead = self._worked_out()

    def least(self, labels: Sequence[Label], place: int, spent: Callable[[Label], float]) -> npt.NDArray[np.float64]:
        """Return lower bounds of paths through labels of a cut; infinity where no path continues.

        Returns:
            A row per label: the bound within the available flash, and as if all workers were as full as the fullest;
            last, the fill of that one, and the least flash that all store in the end.
        """
        if not labels:
            return np.zeros((0, 4))
        nothing = np.full(len(self.prices) + 1, inf)
        ahead = self._ahead[place]
        to_end = np.array([ahead.get(self._transfer_costs.holding(label.edge), nothing) for label in labels])
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
        ends[self._places[0]][self._transfer_costs.holding(None)] = None
        for edge in (edge for edges in self._edges.values() for edge in edges):
            ends[edge.last][self._transfer_costs.holding(edge)] = edge
        costs: dict[int, dict[int, npt.NDArray[np.float64]]] = {}
        for place in reversed(self._places):
            onward = [(edge, self._onward(edge, costs)) for edge in self._edges.get(place, ())]
            costs[place] = {
                number: self._least(before, onward) if place != self._places[-1] else np.zeros(len(self.prices) + 1)
                for number, before in ends[place].items()
            }
        return costs

    def _least(
        self, before: Edge | None, onward: Iterable[tuple[Edge, npt.NDArray[np.float64]]]
    ) -> npt.NDArray[np.float64]:
        best = np.full(len(self.prices) + 1, inf)
        for edge, rest in onward:
            travels = self._transfer_costs.between(before, edge)
            flash = int(travels.stored[self._limited].sum())
            best = np.minimum(best, rest + np.append(self._measured(travels) + self.prices * flash, flash))
        return best

    def _onward(
        self, edge: Edge, costs: Mapping[int, Mapping[int, npt.NDArray[np.float64]]]
    ) -> npt.NDArray[np.float64]:
        """Return the cost of an edge and of the rest behind it."""
        inside = self._transfer_costs.inside(edge)
        flash = sum(edge.flash.get(worker, 0) + int(inside.stored[worker]) for worker in self._limited)
        own = np.append(self._measured(inside) + self.prices * flash, flash)
        whole: npt.NDArray[np.float64] = own + costs[edge.last][self._transfer_costs.holding(edge)]
        return whole


Sets = tuple[npt.NDArray[np.bool_], ...]
"""Masks of the rows, columns and channels of a value."""


@dataclass(frozen=True)
class Bounds:
    """Lower bounds over all splits of a network.

    Attributes:
        moved: bytes: every input element that workers need leaves the coordinator, and all of their outputs reach it.
            The coordinator runs operators without stage and has their inputs.
        sent: of these, bytes that leave the coordinator.
        leaves_out: whether that is less than all inputs and outputs.
        shares: least share of each node's output that is needed; 1.0 is all of it.
    """

    moved: int
    sent: int
    leaves_out: bool
    shares: tuple[float, ...]

    def seconds(self, cluster: Cluster, estimates: Estimates) -> float:
        """Return a lower bound in seconds: all work is done once, shared without loss, by workers that never wait."""

        def work(target: Target) -> float:
            return sum(estimates.whole_instructions(node, target) * share for node, share in enumerate(self.shares))

        alone = [work(worker.target) / (worker.mhz * 1e6) for worker in cluster.workers]
        shared = 1 / sum(1 / seconds for seconds in alone) if all(alone) else 0.0
        return max(shared, cluster.coordinator.link.seconds(self.sent) if self.sent else 0.0)


def bounds_of(network: Network) -> Bounds:
    """Return the bounds over every split of the network."""
    needed = _needed(network)
    on_workers = [node for node in network.nodes if node.stage is not None]
    read = set(network.inputs) & {value for node in on_workers for value in node.inputs}
    written = set(network.outputs) & {value for node in on_workers for value in node.outputs}
    sent = sum(_count(needed[value]) for value in read)
    outputs = sum(prod(network.shape(value)) for value in written)
    nodes = [node.outputs for node in network.nodes]
    shares = (max(_count(needed[each]) / max(1, prod(network.shape(each))) for each in outs) for outs in nodes)
    leaves_out = sent < sum(prod(network.shape(value)) for value in read)
    return Bounds(sent + outputs, sent, leaves_out, tuple(shares))


def _needed(network: Network) -> list[Sets]:
    """Return the needed sets of each value."""
    computed = set(network.outputs) - set(network.inputs)  # the coordinator has inputs that are outputs, too
    needed = [_sets(network.shape(value), value in computed) for value in range(len(network.values))]
    for node in reversed(range(len(network.nodes))):
        for value, sets in _read(network, node, needed):
            if network.nodes[node].stage is None and value in network.inputs:
                continue  # the coordinator has it
            if _count(sets) > _count(needed[value]):
                needed[value] = sets
    return needed


def _read(network: Network, node: int, needed: Sequence[Sets]) -> list[tuple[int, Sets]]:
    """Return the sets of rows, columns and channels that a node reads of its inputs."""
    if not can_be_cut(network.nodes[node]):
        return [(value, _sets(network.shape(value), True)) for value in network.nodes[node].inputs]
    output = network.nodes[node].outputs[0]
    read: dict[int, Sets] = {}
    for axis, name in enumerate(("rows", "columns", "channels")):
        for place in np.flatnonzero(needed[output][axis]).tolist():
            one = replace(network.box(output), **{name: (place, place + 1)})
            for value, box in _needs(network, node, one):
                sets = read.setdefault(value, _sets(network.shape(value), False))
                sets[axis][slice(*box.ranges[axis])] = True
    return list(read.items())


def _needs(network: Network, node: int, box: Box) -> Sequence[tuple[int, Box]]:
    try:
        return box_needs(network, node, box)
    except BlockError:  # it reads only padding
        return ()


def _sets(shape: Sequence[int], full: bool) -> Sets:
    return tuple(np.full(length, full) for length in shape)


def _count(sets: Sets) -> int:
    return prod(int(each.sum()) for each in sets)


Key = Callable[[Label], tuple[float, ...]]


@dataclass(frozen=True)
class Beam:
    """Selects the labels to keep at a cut.

    Attributes:
        key: the objective, then the order among equals.
        holding: label → number, equal for labels with the same distribution of values.
        by_flash: whether flash is limited, so a path with less may continue where others cannot. RAM is free again
            behind each edge, so it does not count.
        by_load: whether the busiest worker counts, so a path that leaves more to others may become better.
        width: most labels kept.
    """

    key: Key
    holding: Callable[[Label], int]
    by_flash: bool
    by_load: bool
    width: int

    def kept(self, labels: Sequence[Label], least: npt.NDArray[np.float64]) -> tuple[list[Label], float]:
        """Return the labels to keep, best first, and the least cost of those dropped without being dominated.

        Args:
            labels: paths to one cut.
            least: a row for each: lower bound of the whole path, then the same in other views, each of which keeps its
                share of labels; infinity where no path continues.
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
            kept += best
            spare += beaten
        kept = _chosen(kept, least, self.width)
        unbeaten[kept] = False
        kept += _chosen(spare, least, self.width - len(kept))
        places = {number: place for place, number in enumerate(order)}
        kept.sort(key=lambda number: (least[number, 0], places[number]))
        return [labels[number] for number in kept], float(least[unbeaten, 0].min(initial=inf))

    def _split(self, labels: Sequence[Label], group: list[int]) -> tuple[list[int], list[int]]:
        """Return the non-dominated labels of one distribution, given best first, and the others."""
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
        """Return the flash used and the loads of a path, which decide beside its key; smaller is better."""
        flash = [np.array(label.flash, np.float64)] if self.by_flash else []
        return np.concatenate([*flash, label.load, label.taken] if self.by_load else [*flash, np.empty(0)])


def _chosen(numbers: list[int], least: npt.NDArray[np.float64], most: int) -> list[int]:
    """Return at most so many labels: the best in each view in turn."""
    if len(numbers) <= most:
        return numbers
    ranks = np.argsort(least[numbers], axis=0, kind="stable")
    ranked = dict.fromkeys(numbers[at] for at in ranks.ravel() if isfinite(least[numbers[at], 0]))
    return list(ranked)[:most]
