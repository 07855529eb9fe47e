"""The published scheme under each of its ratings, within the flash there is."""

from __future__ import annotations

from tflite_fuse.split.cluster.devices import Cluster, Device
from tflite_fuse.split.costs.needs import LIBRARY_BYTES, Accountant, Needs
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Plan
from tflite_fuse.split.cut.regions import volume, whole
from tflite_fuse.split.paper.ratings import profile, rating, without_overflow
from tflite_fuse.split.paper.scheme import paper_plan, travelling_share
from tflite_fuse.split.search.whole import one_worker

ROUNDS = 12
"""How often shares are corrected for kernels that two neighbours both store."""


def published(
    network: Network, cluster: Cluster, accountant: Accountant, strategy: str
) -> tuple[Plan, tuple[Needs, ...]]:
    """The published scheme; shares are lowered until what a worker really stores fits."""
    ratings, why = _ratings(network, cluster, accountant, strategy)
    names = [worker.name for worker in cluster.workers]
    room = [_room(worker) for worker in cluster.workers]
    for _ in range(ROUNDS):
        plan = paper_plan(network, ratings, why)
        needs = accountant.of_plan(plan, cluster)
        stored = [each.flash_bytes - LIBRARY_BYTES for each in needs]
        over = [index for index, each in enumerate(stored) if each > _room(cluster.workers[index])]
        if not over:
            break
        for index in over:
            share = ratings[index] / sum(ratings) * sum(stored)
            room[index] = min(room[index], share) * _room(cluster.workers[index]) / stored[index]
        ratings = without_overflow(ratings, float(sum(stored)), room, names)
        why += "" if "Equation 7" in why else "; shares beyond a worker's flash given to others by Equation 7"
    return plan, needs


def _room(worker: Device) -> float:
    return float("inf") if worker.flash is None else max(0.0, worker.flash - LIBRARY_BYTES)


def _ratings(network: Network, cluster: Cluster, accountant: Accountant, strategy: str) -> tuple[list[float], str]:
    if strategy == "even":
        return [1.0] * len(cluster.workers), "every layer cut evenly by output positions, through the coordinator"
    if strategy == "frequency":
        ratings = [worker.mhz for worker in cluster.workers]
        return ratings, "every layer cut by output positions in proportion to frequencies, through the coordinator"
    kc = travelling_share(paper_plan(network, [1.0] * len(cluster.workers), ""), network)
    produced = sum(volume((whole(network.shape(value)),)) for node in network.nodes for value in node.outputs)
    ratings = []
    for index, worker in enumerate(cluster.workers):
        alone = one_worker(network, len(cluster.workers), index)
        tasks = [task for phase in alone.phases for task in phase.tasks if task.worker == index]
        cycles = sum(accountant.instructions(task, worker.target) for task in tasks)
        ratings.append(rating(profile(worker, produced / 1000 / (cycles / 1e6)), kc))
    return ratings, f"every layer cut by output positions in proportion to ratings (Equation 5, Kc = {kc:.2f})"
