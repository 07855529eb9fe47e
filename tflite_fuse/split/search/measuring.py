"""Measures plans on simulated devices, and by how much they exceed the workers' memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import inf

from tflite_fuse.split.cut.plan import MOST_THRIFT, Phase, Plan, Task, Transfer
from tflite_fuse.split.cut.regions import volume
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.needs import Accountant, Needs
from tflite_fuse.split.search.edges import Edge
from tflite_fuse.split.search.message_order import soonest
from tflite_fuse.split.simulate import Course, simulate
from tflite_fuse.tuning import Tuning

_MARGIN = 64
"""Bytes by which the next search exceeds the excess of a plan that did not fit: estimates of other plans differ."""

_LESS_FLASH = 50
"""Divisor of the flash that a worker gives up in the next search where a plan fits: other plans may be better."""


def timeline_of(plan: Plan, cluster: Cluster, accountant: Accountant, spans: bool = False) -> Course:
    """Return one inference on simulated devices."""

    def seconds(_: int, task: Task) -> float:
        if task.worker == COORDINATOR:
            return 0.0  # operators that no block holds: their work is unknown
        device = cluster.workers[task.worker]
        return device.seconds(accountant.instructions(task, device.target))

    return simulate(plan, cluster, seconds, spans)


class Measure:
    """Values of plans by an objective: ``needs``, ``timeline`` and ``ram_of`` measure each plan once."""

    def __init__(self, cluster: Cluster, accountant: Accountant, objective: str, tuning: Tuning) -> None:
        self.cluster, self.accountant, self.objective, self.tuning = cluster, accountant, objective, tuning
        self.needs, self.timeline, self.ram_of = cache(self._needs), cache(self._timeline), cache(self._ram_of)

    def _needs(self, plan: Plan) -> tuple[Needs, ...]:
        """Return the needs of each worker."""
        return self.accountant.over(plan.sums).of_plan(plan, self.cluster)

    def _timeline(self, plan: Plan) -> Course:
        return timeline_of(plan, self.cluster, self.accountant.over(plan.sums))

    def ordered(self, plans: Iterable[Plan]) -> list[Plan]:
        """Return the plans with their messages in the quickest order."""
        return [soonest(plan, self.seconds, by_phase=False) for plan in plans]

    def best_that_fits(self, ranked: Sequence[Plan]) -> Plan | None:
        """Return the best of ``ranked`` plans, best first, within the workers' memory, as they are or thriftier."""
        best: Plan | None = None
        for number, plan in enumerate(ranked):
            if best is not None and self.objective != "ram" and self.value(plan) >= self.value(best):
                break
            other = self.thriftier(plan) if number < self.tuning.split_few else plan
            if fits(self.cluster, self.needs(other)) and (best is None or self.value(other) < self.value(best)):
                best = other
        return best

    def thriftier(self, plan: Plan) -> Plan:
        """Return the plan with the thrift that the objective and the workers' RAM require."""
        limits = [inf if worker.ram is None else worker.ram for worker in self.cluster.workers]
        least = least_ram(plan, self.ram_of) if self.objective == "ram" else plan
        return within_ram(least, limits, self.ram_of) if min(limits) < inf else least

    def _ram_of(self, plan: Plan, worker: int) -> int:
        return self.accountant.over(plan.sums).ram_of(plan, worker)

    def seconds(self, plan: Plan) -> float:
        """Return the cost of an order of messages: the latency, or for throughput the period first."""
        timeline = self.timeline(plan)
        return timeline.period + timeline.seconds * 1e-6 if self.objective == "throughput" else timeline.seconds

    def value(self, plan: Plan) -> tuple[float, ...]:
        """Return the objective, then the order among equals."""
        timeline, moved = self.timeline(plan), float(plan.moved)
        if self.objective == "ram":
            ram = max((each.ram_bytes for each in self.needs(plan) if each.by_phase), default=0)
            return float(ram), timeline.seconds, moved
        return {
            "time": (timeline.seconds, moved),
            "traffic": (moved, timeline.seconds),
            "throughput": (timeline.period, timeline.seconds, moved),
        }[self.objective]


def fits(cluster: Cluster, needs: Sequence[Needs]) -> bool:
    """Return whether every worker with something to do has the memory it needs."""
    pairs = list(zip(cluster.workers, needs, strict=True))
    return all(
        (worker.ram is None or each.ram_bytes <= worker.ram)
        and (worker.flash is None or each.flash_bytes <= worker.flash)
        for worker, each in pairs
        if each.by_phase
    )


class Excess:
    """Bytes by which plans exceed the search's estimates of memory; the next search lowers the limits by that."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.flash, self.ram = cluster, [0] * len(cluster.workers), 0

    def less(self, needs: Sequence[Needs], stored: Sequence[int]) -> Cluster:
        """Return the workers with limits lowered by a plan's excess over its estimate, or by a little flash."""
        pairs = list(zip(self.cluster.workers, needs, strict=True))
        fit = fits(self.cluster, needs)
        for index, (worker, each) in enumerate(pairs):
            if worker.flash is not None:
                more = worker.flash // _LESS_FLASH if fit else _MARGIN
                self.flash[index] = max(self.flash[index] + more, each.flash_bytes - stored[index] if not fit else 0)
        excess = max((each.ram_bytes - worker.ram for worker, each in pairs if worker.ram is not None), default=0)
        self.ram += excess + _MARGIN if excess > 0 else 0
        flash = iter(self.flash)

        def lowered(limit: int | None, less: int) -> int | None:
            return None if limit is None else max(0, limit - less)

        return self.cluster.with_memory(lambda each: (lowered(each.ram, self.ram), lowered(each.flash, next(flash))))


# ---- RAM of edges, and the thrift of their blocks ----

# The search estimates an edge with its quickest blocks, and keeps it if its thriftiest ones (strips of columns, shorter
# runs) fit: of its plans, each worker's tasks become only as thrifty as its actual needs require (``within_ram``). For
# the objective RAM, the limit is the smallest number of bytes with which some path exists, for edges alone; values that
# stay in memory from one edge to a later one come on top and are counted for whole plans.

Ram = Callable[[Plan, int], int]
"""(plan, worker) → RAM bytes."""


class EdgeMemory:
    """RAM of the edges of one search: ``ram`` computes each once."""

    def __init__(self, cluster: Cluster, accountant: Accountant) -> None:
        self.cluster, self.accountant = cluster, accountant
        self.ram = cache(self._ram)

    def _ram(self, edge: Edge) -> int:
        """Return the RAM bytes of the worker with the most input bytes, whose blocks are as thrifty as possible."""
        plan, worker = self._alone(edge)
        return self.accountant.over(edge.sums).ram_of(_with_thrift(plan, worker, MOST_THRIFT), worker)

    def least(self, places: Sequence[int], edges: Callable[[int, int], Iterable[Edge]]) -> int:
        """Return the smallest limit in bytes with which a path from the first place to the last exists.

        Args:
            places: cuts.
            edges: between two places, by their positions.
        """
        best = [0]
        for last in range(1, len(places)):
            best.append(1 << 62)
            for first in range(last - 1, -1, -1):
                for edge in edges(first, last):
                    if best[first] < best[last]:
                        best[last] = min(best[last], max(best[first], self.ram(edge)))
        return best[-1]

    def _alone(self, edge: Edge) -> tuple[Plan, int]:
        """Return a plan of only the edge, and the worker with the most input bytes."""
        input_bytes = dict.fromkeys(edge.workers, 0)
        for parts in edge.needs.values():
            input_bytes.update({w: input_bytes[w] + volume(region) for w, region in parts.items() if w != COORDINATOR})
        worker = max(input_bytes, key=input_bytes.__getitem__)
        brought = tuple(
            Transfer(value, COORDINATOR, worker, parts[worker])
            for value, parts in edge.needs.items()
            if worker in parts
        )
        return Plan(len(self.cluster.workers), (Phase("", brought), *edge.phases), ""), worker


def within_ram(plan: Plan, limits: Sequence[float], ram: Ram) -> Plan:
    """Return the plan with the least thrift that keeps each worker's limit.

    Args:
        plan: tasks of any thrift.
        limits: bytes of RAM of each worker; a worker that cannot keep its limit gets as near as possible.
        ram: counts a worker's needs.
    """
    for worker, limit in enumerate(limits):
        if ram(plan, worker) > limit:
            plan = _within(plan, worker, limit, ram)
    return plan


def least_ram(plan: Plan, ram: Ram) -> Plan:
    """Return the plan with the least RAM of its neediest worker, and no more thrift than that takes."""
    least = max(ram(_thriftiest(plan, worker, ram), worker) for worker in range(plan.workers))
    return within_ram(plan, [least] * plan.workers, ram)


def _within(plan: Plan, worker: int, limit: float, ram: Ram) -> Plan:
    """Make all of a worker's tasks as thrifty as possible, then one by one as quick as the limit allows."""
    best = _thriftiest(plan, worker, ram)
    for number, phase in enumerate(best.phases) if ram(best, worker) <= limit else ():
        thrift = max((task.thrift for task in phase.tasks if task.worker == worker), default=0)
        quicker = (_with_thrift(best, worker, each, number) for each in range(thrift))
        best = next((each for each in quicker if ram(each, worker) <= limit), best)
    return best


def _thriftiest(plan: Plan, worker: int, ram: Ram) -> Plan:
    uniform = (_with_thrift(plan, worker, thrift) for thrift in range(MOST_THRIFT + 1))
    return min((plan, *uniform), key=lambda each: ram(each, worker))


def _with_thrift(plan: Plan, worker: int, thrift: int, only: int | None = None) -> Plan:
    """Return the plan with a worker's tasks of this thrift: all, or that of one phase."""

    def changed(task: Task, number: int) -> Task:
        return replace(task, thrift=thrift) if task.worker == worker and only in (None, number) else task

    return replace(
        plan,
        phases=tuple(
            replace(phase, tasks=tuple(changed(task, number) for task in phase.tasks))
            for number, phase in enumerate(plan.phases)
        ),
    )
