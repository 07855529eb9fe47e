"""The best plan for an objective within the memory of every worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf

from tflite_fuse.errors import LimitError
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Plan
from tflite_fuse.split.devices import Cluster
from tflite_fuse.split.needs import LIBRARY_BYTES, Accountant
from tflite_fuse.split.search.beam import Beam, BoundsAhead, Key, bounds_of
from tflite_fuse.split.search.edges import Edge, EdgeMaker, Mode, cuts
from tflite_fuse.split.search.estimates import Estimates
from tflite_fuse.split.search.labels import Cost, Label, TransferCosts, plans_of
from tflite_fuse.split.search.measuring import EdgeMemory
from tflite_fuse.tuning import TUNING, Tuning

OBJECTIVES = ("time", "ram", "traffic", "throughput")

_UNLIMITED = 1 << 62
"""Bytes."""

_COUNTS = {Mode.ROWS: (2, 3, 4, 7, 8, 14, 16), Mode.CHANNELS: (2, 4, 8), Mode.SUMS: (2, 4, 8)}
_COUNTS_OF_MANY = {Mode.ROWS: (2, 4, 7, 8, 14, 28, 56), Mode.CHANNELS: (4, 8), Mode.SUMS: (4, 8)}
"""Numbers of workers that share an edge, beside all of them if they are not many: more take time of the search for
shares that are even, as 7 of 14 rows, or fewer messages.
"""

_MORE_RAM = 8
"""Divisor of a limit on RAM that no path keeps together with its flash: the next limit is higher by that share, and a
smaller step takes more searches.
"""


@dataclass(frozen=True)
class Outcome:
    """Plans of a search, the expected best first.

    Attributes:
        plans: in order.
        stored: flash that each plan's workers are expected to use, including the library.
        bound: lower bound of the objective in seconds or bytes; None if none is known.
        complete: whether only paths were dropped that another dominates, or whose lower bound exceeds the best.
    """

    plans: tuple[Plan, ...]
    stored: tuple[tuple[int, ...], ...]
    bound: float | None
    complete: bool


class Search:
    """A search over the cuts of a network."""

    def __init__(
        self,
        network: Network,
        cluster: Cluster,
        accountant: Accountant,
        objective: str,
        among: Sequence[int] | None = None,
        tuning: Tuning = TUNING,
    ) -> None:
        """Prepare the search; ``among`` are the workers that may get tasks, None for all."""
        self.network, self.cluster, self.accountant, self.objective = network, cluster, accountant, objective
        self.estimates = Estimates(network)
        self.bounds = bounds_of(network)
        self.maker = EdgeMaker(network, cluster, self.estimates)
        self.transfer_costs = TransferCosts(network, cluster)
        self.places = cuts(network)
        self.tuning, many = tuning, len(cluster.workers) > tuning.split_many
        self.longest = max(1, tuning.split_span // 2) if many else tuning.split_span
        self.counts = _COUNTS_OF_MANY if many else _COUNTS
        fastest_first = sorted(range(len(cluster.workers)), key=lambda w: (-cluster.workers[w].mhz, w))
        self.order = fastest_first if among is None else list(among)
        key: Key = {
            "traffic": lambda label: (float(label.moved), label.seconds, float(label.ram)),
            "throughput": lambda label: (label.period, label.seconds, float(label.moved)),
        }.get(objective, lambda label: (label.seconds, float(label.moved), float(label.ram)))
        self.kinds = [_kind(cluster, worker) for worker in range(len(cluster.workers))]
        measured: Callable[[Cost], float] = {
            "traffic": lambda cost: float(cost.moved),
            "throughput": lambda cost: 0.0,  # the load of the busiest worker or link, in Label.load
        }.get(objective, lambda cost: cost.seconds)
        self.measured = measured
        self._counts_ram = objective == "ram" or any(worker.ram is not None for worker in cluster.workers)
        self.beam = Beam(
            key,
            lambda path: self.transfer_costs.holding(path.edge),
            has_flash_limit(cluster),
            objective == "throughput",
            tuning.split_beam,
        )
        few = tuning.split_few if many or objective == "ram" else tuning.split_plans
        self.candidates = min(tuning.split_plans, few)
        self.memory = EdgeMemory(cluster, accountant)
        self._rejected: list[tuple[int, Edge]] = []

    def anew(self, objective: str, cluster: Cluster | None = None) -> Search:
        """Return a search for another objective, over another cluster if one is given."""
        return Search(self.network, cluster or self.cluster, self.accountant, objective, tuning=self.tuning)

    def within(self, cluster: Cluster) -> Search:
        """Return the same search for workers with other limits, with the results of this one."""
        other = copy(self)
        other.cluster, other.beam = cluster, replace(self.beam, by_flash=has_flash_limit(cluster))
        return other

    def run(self) -> Outcome:
        """Return the best plans. Raises LimitError if no plan fits the workers' memory."""
        _require_flash(self.cluster, self.estimates.weight_bytes)
        if self.objective != "ram":
            return self._run(_UNLIMITED)
        limit = self.memory.least(self.places, self._between)
        while True:
            try:
                return self._run(limit)
            except LimitError:  # none within the flash
                if not any(ram > limit for ram, _ in self._rejected):
                    raise
                limit += limit // _MORE_RAM

    def _between(self, first: int, last: int) -> Iterator[Edge]:
        """Yield the edges between two of the cuts, given by their positions."""
        if last - first <= self.longest:
            yield from self._edges(self.places[first], self.places[last], last - first)

    def _run(self, most: int) -> Outcome:
        """Run within so many bytes of RAM for each worker, beside its own limit."""
        self._rejected = []
        labels: dict[int, list[Label]] = {0: [self.transfer_costs.start()]}
        edges = self._all_edges(most)
        by_cut = {place: [edge for edge, _ in edges.get(place, ())] for place in self.places}
        ahead = BoundsAhead(self.transfer_costs, by_cut, self.places, self.cluster.workers, self.measured)
        extended: dict[int, list[Label]] = {place: [] for place in self.places}
        lost = inf
        for place in self.places[:-1]:
            for edge, ram in edges[place] if labels[place] else ():
                for label in labels[place]:
                    if self._is_next(label, edge):
                        longer = self.transfer_costs.extended(label, edge, ram)
                        if self._stored(longer):
                            extended[edge.last].append(longer)
            following = self.places[self.places.index(place) + 1]
            paths = extended.pop(following)
            least = ahead.least(paths, following, lambda label: self.beam.key(label)[0])
            labels[following], dropped = self.beam.kept(paths, least)
            lost = min(lost, dropped)
        if not labels[self.places[-1]]:
            raise self._refusal(max(place for place, paths in labels.items() if paths))
        ends = labels[self.places[-1]][: self.candidates]
        pairs = [(plan, label.flash) for label in ends for plan in self._plans(label)]
        plans = tuple(plan for plan, _ in pairs)
        stored = tuple(tuple(used + LIBRARY_BYTES for used in flash) for _, flash in pairs)
        return Outcome(plans, stored, self._bound(), self.beam.key(ends[0])[0] <= lost)

    def _plans(self, label: Label) -> Iterator[Plan]:
        return plans_of(label, self.network, self.cluster, _words(label, self.cluster))

    def _all_edges(self, most: int) -> dict[int, list[tuple[Edge, int]]]:
        """Return cut → edges that begin there and fit into so many bytes of RAM per worker, and their RAM bytes."""
        edges: dict[int, list[tuple[Edge, int]]] = {place: [] for place in self.places}
        for last in range(1, len(self.places)):
            for first in range(last - 1, -1, -1):
                for edge in self._between(first, last):
                    ram = self.memory.ram(edge) if self._counts_ram else 0
                    if ram > self._limit(edge, most):
                        self._rejected.append((ram, edge))
                    else:
                        edges[edge.first].append((edge, ram))
        return edges

    def _edges(self, first: int, last: int, length: int) -> Iterator[Edge]:
        # Edges on one worker join without a loss; longer ones only matter for the RAM of their blocks' rings.
        for worker in self._singles() if length == 1 or self._counts_ram else ():
            if edge := self.maker.edge(first, last, Mode.ONE, (worker,)):
                yield edge
        if self.objective == "traffic" and not self._must_cut(first, last):
            return
        for mode in (Mode.ROWS, Mode.CHANNELS, Mode.SUMS):
            for workers in self._groups(mode) if mode is Mode.ROWS or length <= 2 else ():
                if edge := self.maker.edge(first, last, mode, workers):
                    yield edge

    def _must_cut(self, first: int, last: int) -> bool:
        """Return whether some worker could not store the nodes, or not all are needed.

        Otherwise one worker moves fewest bytes.
        """
        size = sum(self.estimates.weight_bytes[first:last]) + LIBRARY_BYTES
        smallest = min((w.flash for w in self.cluster.workers if w.flash is not None), default=None)
        return (smallest is not None and size > smallest) or self._counts_ram or self.bounds.leaves_out

    def _singles(self) -> list[int]:
        """Return the workers on which an edge may be whole: all, or the first few of many."""
        few, many = self.tuning.split_few, self.tuning.split_many
        return self.order if len(self.order) <= many else self.order[:few]

    def _is_next(self, label: Label, edge: Edge) -> bool:
        """Return whether an edge's only worker has worked before, or is the first idle one of its kind.

        Equal workers need only one path.
        """
        if edge.mode is not Mode.ONE or label.flash[edge.workers[0]]:
            return True
        kind = self.kinds[edge.workers[0]]
        return all(label.flash[other] for other in range(edge.workers[0]) if self.kinds[other] == kind)

    def _groups(self, mode: Mode) -> Iterator[tuple[int, ...]]:
        total = len(self.order)
        together = {total} if total <= self.tuning.split_many else set[int]()
        counts = together | {count for count in self.counts[mode] if count < total}
        for count in sorted(counts - {1}):
            yield tuple(sorted(self.order[:count]))

    def _limit(self, edge: Edge, most: int) -> int:
        """Return the RAM bytes of each worker of an edge."""
        limits = (self.cluster.workers[worker].ram for worker in edge.workers)
        return min(most, *(_UNLIMITED if limit is None else limit for limit in limits))

    def _stored(self, label: Label) -> bool:
        workers = zip(label.flash, self.cluster.workers, strict=True)
        return all(w.flash is None or used + (LIBRARY_BYTES if used else 0) <= w.flash for used, w in workers)

    def _bound(self) -> float | None:
        """Return the lower bound of the objective; None for RAM."""
        if self.objective == "traffic":
            return float(self.bounds.moved)
        return None if self.objective == "ram" else self.bounds.seconds(self.cluster, self.estimates)

    def _refusal(self, reached: int) -> LimitError:
        """Return the reason why no path leads beyond a cut."""
        if across := [each for each in self._rejected if each[1].first <= reached < each[1].last]:
            ram, edge = min(across, key=lambda each: each[0])
            room = max(self.cluster.workers[worker].ram or 0 for worker in edge.workers)
            return LimitError(
                f"a worker needs at least {ram:,} B of RAM for {self.network.nodes[edge.last - 1].name} and has "
                f"{room:,} B: {ram - room:,} B are missing; more workers or more RAM would help"
            )
        sizes = self.estimates.weight_bytes
        largest = max(range(len(sizes)), key=lambda node: sizes[node])
        return LimitError(
            f"no split found fits the workers' memory; the layer with most weights, "
            f"{self.network.nodes[largest].name}, has {sizes[largest]:,} B; add workers, RAM or flash"
        )


def has_flash_limit(cluster: Cluster) -> bool:
    """Return whether any worker's flash is limited."""
    return any(worker.flash is not None for worker in cluster.workers)


def _kind(cluster: Cluster, worker: int) -> object:
    """Return a key that is equal for interchangeable workers."""
    device = cluster.workers[worker]
    joined = frozenset(other for other in range(len(cluster.workers)) if cluster.is_direct(worker, other)) | {worker}
    media = tuple(worker in members for members in cluster.media)
    return device.target, device.mhz, device.ram, device.flash, device.link, joined, media


def _require_flash(cluster: Cluster, sizes: Sequence[int]) -> None:
    """Raise LimitError if all workers together cannot store the weights once."""
    room = sum(inf if each.flash is None else max(0, each.flash - LIBRARY_BYTES) for each in cluster.workers)
    if sum(sizes) > room:
        raise LimitError(
            f"the model's weights take {sum(sizes):,} B and the workers have flash for {room:,} B: "
            f"{sum(sizes) - room:,} B are missing; add a worker or one with more flash"
        )


def _words(label: Label, cluster: Cluster) -> str:
    """Return how a path is cut, in a sentence."""
    parts = []
    for (mode, workers), run in groupby(label.edges, lambda edge: (edge.mode, edge.workers)):
        group = list(run)
        how = f"whole on {cluster.workers[workers[0]].name}" if mode is Mode.ONE else f"{mode.value} on {len(workers)}"
        parts.append(f"{group[0].first}-{group[-1].last - 1} {how}")
    return f"steps {', '.join(parts)}"
