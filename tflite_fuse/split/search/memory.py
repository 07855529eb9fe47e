"""RAM of edges, and how thrifty their blocks have to be.

Blocks run quickly where that fits. Where it does not, they are made thriftier step by step: strips of columns, shorter
runs. For the objective RAM, the limit is the least there is: the smallest number of bytes within which some way leads
from the first cut to the last one, every edge as thrifty as can be. No way over the same edges needs less, by what
edges need alone; what lies in memory from one edge to a later one comes on top, and is counted for whole plans. So a
whole plan's tasks are made thriftier once more, or less thrifty, by what its workers really need (``within_ram``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tflite_fuse.split.cut.plan import MOST_THRIFT, Phase, Plan, Task, Transfer
from tflite_fuse.split.cut.regions import volume
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.search.edge import Edge

Ram = Callable[[Plan, int], int]
"""Bytes that one worker of a plan needs."""


class EdgeMemory:
    """Of the edges of one search, each looked at once."""

    def __init__(self, cluster: Cluster, accountant: Accountant) -> None:
        self.cluster, self.accountant = cluster, accountant
        self._made: dict[tuple[int, int], Edge] = {}
        self._ram: dict[int, int] = {}
        self._kept: list[Edge] = []

    def ram(self, edge: Edge) -> int:
        """Bytes the worker needs that is given most, from its blocks."""
        if id(edge) not in self._ram:
            plan, worker = self._alone(edge)
            self._ram[id(edge)] = self.accountant.over(edge.sums).ram_of(plan, worker)
            self._kept.append(edge)  # known by its id
        return self._ram[id(edge)]

    def thrifty(self, edge: Edge, thrift: int) -> Edge:
        """The edge with thriftier blocks."""
        if not thrift:
            return edge
        key = id(edge), thrift
        if key not in self._made:
            self._kept.append(edge)
            self._made[key] = self._thriftier(edge, thrift)
        return self._made[key]

    def within(self, edge: Edge, limit: int) -> tuple[Edge, int]:
        """The least thrifty form of an edge that stays within a limit, else the thriftiest; and its RAM."""
        for thrift in range(MOST_THRIFT + 1):
            found = self.thrifty(edge, thrift)
            if self.ram(found) <= limit:
                break
        return found, self.ram(found)

    def least(self, places: Sequence[int], edges: Callable[[int, int], Iterable[Edge]]) -> int:
        """The smallest limit within which a way leads from the first place to the last.

        Args:
            places: cuts.
            edges: from one place, by its position, to another one.
        """
        best = [0]
        for last in range(1, len(places)):
            best.append(1 << 62)
            for first in range(last - 1, -1, -1):
                for edge in edges(first, last):
                    if best[first] < best[last]:
                        best[last] = min(best[last], max(best[first], self.ram(self.thrifty(edge, MOST_THRIFT))))
        return best[-1]

    def _thriftier(self, edge: Edge, thrift: int) -> Edge:
        phases = tuple(
            replace(phase, tasks=tuple(replace(task, thrift=thrift) for task in phase.tasks)) for phase in edge.phases
        )
        account = self.accountant.over(edge.sums)
        more = self._instructions(phases, account) / max(1.0, self._instructions(edge.phases, account))
        work = {worker: instructions * more for worker, instructions in edge.work.items()}
        return replace(edge, build=lambda: phases, work=work)

    def _instructions(self, phases: Sequence[Phase], account: Accountant) -> float:
        """Of the first worker: about the same share of the work is done again everywhere."""
        tasks = [task for phase in phases for task in phase.tasks if task.worker != COORDINATOR]
        first = [task for task in tasks if task.worker == tasks[0].worker]
        return sum(account.instructions(task, self.cluster.workers[task.worker].target) for task in first)

    def _alone(self, edge: Edge) -> tuple[Plan, int]:
        """A plan of nothing but the edge, and the worker that is given most."""
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
    """The plan with thriftier tasks where a worker is beyond its limit, none thriftier than that takes.

    Args:
        plan: whose tasks may be of any thrift.
        limits: bytes of RAM each worker has; a worker that cannot be within its limit gets as near as can be.
        ram: counts what a worker needs.
    """
    for worker, limit in enumerate(limits):
        if ram(plan, worker) > limit:
            plan = _within(plan, worker, limit, ram)
    return plan


def least_ram(plan: Plan, ram: Ram) -> Plan:
    """The plan whose neediest worker needs least: as thrifty as that takes, and no thriftier."""
    least = max(ram(_thriftiest(plan, worker, ram), worker) for worker in range(plan.workers))
    return within_ram(plan, [least] * plan.workers, ram)


def _within(plan: Plan, worker: int, limit: float, ram: Ram) -> Plan:
    """All of a worker's tasks as thrifty as can be, then one by one as quick as the limit allows."""
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
    """The plan with a worker's tasks of so much thrift: all, or that of one phase."""

    def changed(task: Task, number: int) -> Task:
        return replace(task, thrift=thrift) if task.worker == worker and only in (None, number) else task

    return replace(
        plan,
        phases=tuple(
            replace(phase, tasks=tuple(changed(task, number) for task in phase.tasks))
            for number, phase in enumerate(plan.phases)
        ),
    )
