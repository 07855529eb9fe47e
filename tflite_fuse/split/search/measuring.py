"""Measures plans on simulated devices, and by how much they exceed the workers' memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import inf

from tflite_fuse.split.cut.plan import Plan, Task
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.needs import Accountant, Needs
from tflite_fuse.split.search.edge import soonest
from tflite_fuse.split.search.memory import least_ram, within_ram
from tflite_fuse.split.simulate import Course, simulate
from tflite_fuse.tuning import Tuning

_NEXT_TO = 128
"""Bytes below which a change of a limit is negligible."""


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


class Beyond:
    """By how much plans exceed the search's memory estimates so far; the next search lowers the limits by that."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.flash, self.ram = [0] * len(cluster.workers), 0
        self._before = list(self.flash), self.ram

    def less(self, needs: Sequence[Needs], stored: Sequence[int]) -> Cluster:
        """Return the workers with limits lowered by a plan's excess over its estimate, or by a little flash."""
        self._before = list(self.flash), self.ram
        pairs = list(zip(self.cluster.workers, needs, strict=True))
        fit = fits(self.cluster, needs)
        for index, (worker, each) in enumerate(pairs):
            if worker.flash is not None:
                more = worker.flash // 50 if fit else 64
                self.flash[index] = max(self.flash[index] + more, each.flash_bytes - stored[index] if not fit else 0)
        excess = max((each.ram_bytes - worker.ram for worker, each in pairs if worker.ram is not None), default=0)
        self.ram += excess + 64 if excess > 0 else 0
        return self.allowed

    def less_far(self) -> Cluster | None:
        """Return the workers with half of the last reduction; None if it is negligible."""
        flash, ram = self._before
        if max(self.ram - ram, *(now - before for now, before in zip(self.flash, flash, strict=True))) <= _NEXT_TO:
            return None
        self.flash = [(now + before) // 2 for now, before in zip(self.flash, flash, strict=True)]
        self.ram = (self.ram + ram) // 2
        return self.allowed

    @property
    def allowed(self) -> Cluster:
        """Return the workers with the lowered limits."""
        flash = iter(self.flash)

        def lowered(limit: int | None, less: int) -> int | None:
            return None if limit is None else max(0, limit - less)

        return self.cluster.with_memory(lambda each: (lowered(each.ram, self.ram), lowered(each.flash, next(flash))))
