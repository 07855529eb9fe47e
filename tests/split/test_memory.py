"""A worker's buffer: pieces, moments, and sound places."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from tests.split.networks import cluster, network
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.split.cut.plan import MOST_THRIFT, Plan
from tflite_fuse.split.cut.regions import Box
from tflite_fuse.split.fragments.buffer import ALIGNMENT, DeviceBuffer, merged
from tflite_fuse.split.needs import WORKER_BYTES, Accountant
from tflite_fuse.split.search.auto import Search
from tflite_fuse.split.search.measuring import least_ram, within_ram
from tflite_fuse.split.search.paper import paper_plan
from tflite_fuse.split.search.walk import one_worker


def test_rows_of_a_neighbour_lie_beside_ones_own() -> None:
    own, above, again = Box((4, 8), (0, 5), (0, 3)), Box((3, 4), (0, 5), (0, 3)), Box((7, 8), (0, 5), (0, 3))
    assert merged((own, above, again)) == (Box((3, 8), (0, 5), (0, 3)),)


def test_rows_of_all_channels_and_all_rows_of_some_are_two_pieces() -> None:
    mine, gathered = Box((0, 1), (0, 7), (0, 64)), Box((1, 7), (0, 7), (0, 8))
    assert set(merged((mine, gathered))) == {mine, gathered}


def test_channels_that_are_gathered_become_one_piece() -> None:
    parts = [Box((0, 4), (0, 4), (first, first + 8)) for first in (16, 0, 8)]
    assert merged(parts) == (Box((0, 4), (0, 4), (0, 24)),)


def plans() -> dict[str, Plan]:
    accountant = Accountant(network())
    found = {f"paper {ratings}": paper_plan(network(), ratings, "") for ratings in ((1.0, 1.0), (3.0, 0.5, 2.0))}
    for objective in ("time", "ram", "traffic"):
        found[objective] = Search(network(), cluster(), accountant, objective).run().plans[0]
    return found | {"one": one_worker(network(), cluster((60.0,)), 0)}


@pytest.mark.parametrize("name", ["paper (1.0, 1.0)", "paper (3.0, 0.5, 2.0)", "time", "ram", "traffic", "one"])
def test_every_value_has_a_place_and_overlaps_no_live_one(name: str) -> None:
    plan = plans()[name]
    accountant = Accountant(network()).over(plan.sums)
    for worker in range(plan.workers):
        memory = DeviceBuffer(accountant.network, plan, worker, accountant.parts)
        graph, overlaps = memory.graph()
        placed = memory.placed()
        check_plan(graph, placed.offsets, overlaps, height=placed.height)
        assert placed.height % ALIGNMENT == 0
        needs = accountant.of_worker(plan, cluster((600.0,) * plan.workers), worker)
        assert needs.ram_bytes == placed.height + WORKER_BYTES


def test_a_block_may_write_over_input_it_needs_no_more() -> None:
    memory = DeviceBuffer(network(), one_worker(network(), cluster((60.0,)), 0), 0, Accountant(network()).parts)
    graph, overlaps = memory.graph()
    assert overlaps
    for overlap in overlaps:
        (writer,) = (index for index, op in enumerate(graph.steps) if overlap.output in op.outputs)
        touching = [index for index, op in enumerate(graph.steps) if overlap.input in (*op.inputs, *op.outputs)]
        assert touching[-1] == writer


def uneven() -> Plan:
    """A plan of the branching model over two workers, by rows and by channels: the first worker needs more RAM."""
    devices = cluster((600.0, 300.0))
    return Search(network(), devices, Accountant(network()), "time").run().plans[0]


def test_tasks_are_as_thrifty_as_limits_require_and_no_thriftier() -> None:
    plan, account = uneven(), Accountant(network())
    quick = [account.ram_of(plan, worker) for worker in range(plan.workers)]
    assert within_ram(plan, quick, account.ram_of) is plan
    neediest = max(range(plan.workers), key=quick.__getitem__)
    limits = [inf if worker != neediest else limit - 1 for worker, limit in enumerate(quick)]
    fitted = within_ram(plan, limits, account.ram_of)
    assert account.ram_of(fitted, neediest) < quick[neediest]
    changed = [
        (number, task)
        for number, phase in enumerate(fitted.phases)
        for task in phase.tasks
        if task not in plan.phases[number].tasks
    ]
    assert changed and {task.worker for _, task in changed} == {neediest}
    for number, task in changed:
        tasks = tuple(replace(each, thrift=0) if each == task else each for each in fitted.phases[number].tasks)
        phases = (*fitted.phases[:number], replace(fitted.phases[number], tasks=tasks), *fitted.phases[number + 1 :])
        assert account.ram_of(replace(fitted, phases=phases), neediest) > limits[neediest]


def test_the_least_ram_of_a_plan_is_that_of_its_thriftiest_tasks() -> None:
    plan, account = uneven(), Accountant(network())

    def most(each: Plan) -> int:
        return max(account.ram_of(each, worker) for worker in range(each.workers))

    thrifty = [
        replace(
            plan,
            phases=tuple(
                replace(phase, tasks=tuple(replace(task, thrift=thrift) for task in phase.tasks))
                for phase in plan.phases
            ),
        )
        for thrift in range(MOST_THRIFT + 1)
    ]
    assert most(least_ram(plan, account.ram_of)) <= min(map(most, thrifty)) < most(plan)
