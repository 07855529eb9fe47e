"""RAM of edges, and the thrift of their blocks.

Blocks run quickly if that fits. Otherwise they become thriftier step by step: strips of columns, shorter runs. For the
objective RAM, the limit is the smallest number of bytes with which some path exists, for edges alone; values that stay
in memory from one edge to a later one come on top and are counted for whole plans. So the thrift of a whole plan's
tasks is adjusted again by its workers' actual needs (``within_ram``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from tflite_fuse.split.cut.plan import MOST_THRIFT, Phase, Plan, Task, Transfer
from tflite_fuse.split.cut.regions import volume
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.search.edge import Edge

Ram = Callable[[Plan, int], int]
"""(plan, worker) → RAM bytes."""


class EdgeMemory:
    """RAM of the edges of one search: ``ram`` and ``thrifty`` compute each once."""

    def __init__(self, cluster: Cluster, accountant: Accountant) -> None:
        self.cluster, self.accountant = cluster, accountant
        self.ram, self.thrifty = cache(self._ram), cache(self._thrifty)

    def _ram(self, edge: Edge) -> int:
        """Return the RAM bytes of the worker with the most input bytes, from its blocks."""
        plan, worker = self._alone(edge)
        return self.accountant.over(edge.sums).ram_of(plan, worker)

    def within(self, edge: Edge, limit: int) -> tuple[Edge, int]:
        """Return the least thrifty form of an edge within a limit, else the thriftiest; and its RAM bytes."""
        for thrift in range(MOST_THRIFT + 1):
            found = self.thrifty(edge, thrift)
            if self.ram(found) <= limit:
                break
        return found, self.ram(found)

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
                        best[last] = min(best[last], max(best[first], self.ram(self.thrifty(edge, MOST_THRIFT))))
        return best[-1]

    def _thrifty(self, edge: Edge, thrift: int) -> Edge:
        """Return the edge with thriftier blocks."""
        if not thrift:
            return edge
        phases = tuple(
            replace(phase, tasks=tuple(replace(task, thrift=thrift) for task in phase.tasks)) for phase in edge.phases
        )
        account = self.accountant.over(edge.sums)
        more = self._instructions(phases, account) / max(1.0, self._instructions(edge.phases, account))
        work = {worker: instructions * more for worker, instructions in edge.work.items()}
        return replace(edge, phases=phases, work=work)

    def _instructions(self, phases: Sequence[Phase], account: Accountant) -> float:
        """Return the instructions of the first worker; about the same share of the work is repeated on all."""
        tasks = [task for phase in phases for task in phase.tasks if task.worker != COORDINATOR]
        first = [task for task in tasks if task.worker == tasks[0].worker]
        return sum(account.instructions(task, self.cluster.workers[task.worker].target) for task in first)

    def _alone(self, edge: Edge) -> tuple[Plan, int]:
        """Return a plan of only the edge, and the worker with the most input bytes."""
        given = dict.fromkeys(edge.workers, 0)
        for parts in edge.needs.values():
            given.update({w: given[w] + volume(region) for w, region in parts.items() if w != COORDINATOR})
        worker = max(given, key=given.__getitem__)
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
