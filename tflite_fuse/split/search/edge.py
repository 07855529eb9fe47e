"""What stands between two cuts of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from tflite_fuse.split.cluster.devices import COORDINATOR, Cluster
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Phase, Summed, Task, Transfer
from tflite_fuse.split.cut.regions import Region, hull, whole
from tflite_fuse.split.fragments.structs import LAYOUTS, FragmentBlock, FragmentStep
from tflite_fuse.split.search.estimates import Estimates

TASK_BYTES = sum(LAYOUTS[each].size for each in (FragmentStep, FragmentBlock)) + 80
"""Flash of a block beside its stages: its step, where it is, and the header of its options, about."""


class Mode(Enum):
    """How an edge is cut."""

    ONE = "whole on one worker"
    ROWS = "by rows"
    CHANNELS = "by output channels"
    SUMS = "by input channels"


@dataclass(frozen=True, eq=False)
class Edge:
    """Nodes ``first … last − 1`` under one partition.

    Attributes:
        first, last: cuts.
        mode: how.
        workers: who takes part; those with an empty share are left out.
        needs: of each value from before the edge, what each worker needs of it.
        build: what happens; the first phase's transfers of values from before are not in it.
        inside: what travels at once, time after time, in these phases.
        held: who holds what of each value that leaves, outputs of the model at the coordinator included.
        work: instructions of each worker.
        flash: bytes of each worker.
        sums: layers that are cut by their input channels; the numbers in ``phases`` and ``inside`` are of the network
            extended by them.
    """

    first: int
    last: int
    mode: Mode
    workers: tuple[int, ...]
    needs: Mapping[int, Mapping[int, Region]]
    build: Callable[[], tuple[Phase, ...]]
    inside: tuple[tuple[Transfer, ...], ...]
    held: Mapping[int, Mapping[int, Region]]
    work: Mapping[int, float]
    flash: Mapping[int, int]
    sums: tuple[Summed, ...] = ()

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """What ``build`` says, built when it is first asked for."""
        return self.build()

    @property
    def ends(self) -> tuple[frozenset[object], frozenset[object]]:
        """What is held behind it, and what is asked before it: equal for edges whose devices hold, or ask, the same."""
        held, asked = (
            frozenset((value, device, part) for value, parts in of_values.items() for device, part in parts.items())
            for of_values in (self.held, self.needs)
        )
        return held, asked


def edge_of(
    first: int,
    last: int,
    mode: Mode,
    workers: tuple[int, ...],
    needs: Mapping[int, Mapping[int, Region]],
    phases: Sequence[Phase],
    held: Mapping[int, Mapping[int, Region]],
    cluster: Cluster,
    estimates: Estimates,
    sums: tuple[Summed, ...] = (),
) -> Edge:
    """The edge of phases that are there; ``estimates`` of the network their numbers are of."""
    work = dict.fromkeys(workers, 0.0)
    flash = dict.fromkeys(workers, 0)
    for phase in phases:
        for task in (task for task in phase.tasks if task.worker != COORDINATOR):
            for step in task.steps:
                box = hull(step.region)
                work[task.worker] += estimates.instructions(step.node, box, cluster.workers[task.worker].target)
                flash[task.worker] += estimates.flash(step.node, box)
            flash[task.worker] += TASK_BYTES
    moved = tuple(each for phase in phases for each in (phase.transfers, phase.returned))
    return Edge(first, last, mode, workers, needs, lambda: tuple(phases), moved, held, work, flash, sums)


def is_read_outside(network: Network, value: int, nodes: set[int]) -> bool:
    """Whether others than these nodes read a value, or it is the model's output."""
    return value in network.outputs or any(reader not in nodes for reader in network.readers[value])


def returned_at_once(network: Network, tasks: Mapping[int, Task]) -> tuple[Transfer, ...]:
    """Outputs of the model go to the coordinator at once."""
    return tuple(
        Transfer(value, worker, COORDINATOR, region)
        for worker, task in tasks.items()
        for value, region in task.owned
        if value in network.outputs
    )


def with_coordinator(network: Network, value: int, parts: dict[int, Region]) -> dict[int, Region]:
    """Who holds what of a value: the coordinator has all of an output."""
    everything: Region = (whole(network.shape(value)),)
    return {**parts, COORDINATOR: everything} if value in network.outputs else parts
