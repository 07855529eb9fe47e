"""The published scheme: every layer cut by flattened output positions, with all values through the coordinator.

Equations 1 to 7 rate the workers. Data is in kilobytes (1,000 B), work in million cycles, delays in milliseconds.

Algorithms 1 and 2 give each worker the next share of a layer's outputs, in proportion to its rating; Algorithm 3's
marks are the receptive fields of these ranges; Algorithm 4 is one phase per layer, in which the coordinator sends every
worker its inputs and collects all outputs. A worker keeps nothing from one layer to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tflite_fuse.errors import BlockError, LimitError
from tflite_fuse.ir.block import StageKind
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.pieces import can_be_cut, receptive_field
from tflite_fuse.split.cut.plan import Phase, Plan, Step, Task, Transfer, by_ratings
from tflite_fuse.split.cut.regions import Region, flat_range, volume, whole
from tflite_fuse.split.devices import COORDINATOR, Cluster, Device
from tflite_fuse.split.needs import LIBRARY_BYTES, Accountant, Needs
from tflite_fuse.split.search.walk import one_worker

MOST_ROUNDS = 1000


def rating(worker: Device, k1: float, kc: float) -> float:
    """Return Equation 5: kilobytes of output per second, including transfers.

    Args:
        worker: its link's delay per message (d, beside 1/B of the transmission) counts per kilobyte of a full packet.
        k1: kilobytes of output per million cycles (K1), measured or from the cost model.
        kc: the share of the outputs that must travel (Kc), 0 for one device.
    """
    link, rate = worker.link, worker.mhz * k1
    per_kilobyte = link.delay_ms_per_kilobyte + link.occupancy_ms_per_message / 1.4
    return rate / ((per_kilobyte / 1000 + 1 / link.kilobytes_per_second) * rate * kc + 1)


def shares_of(ratings: Sequence[float], size: float) -> tuple[float, ...]:
    """Return Equation 6: the bytes that each worker stores of a model of ``size`` bytes."""
    total = sum(ratings)
    return tuple(each * size / total for each in ratings)


def without_overflow(ratings: Sequence[float], size: float, room: Sequence[float], names: Sequence[str]) -> list[float]:
    """Return Equation 7, repeated: a worker whose share exceeds its storage gives rating to those with room left.

    Args:
        ratings: of Equation 5; their sum stays.
        size: bytes of the model.
        room: bytes each worker can store.
        names: of the workers.

    Raises:
        LimitError: all of them together cannot store it, and how much is missing.
    """
    current, total = list(ratings), sum(ratings)
    if sum(room) < size:
        raise LimitError(
            f"the {len(room)} workers have {sum(room):,.0f} B of flash for {size:,.0f} B of weights: "
            f"{size - sum(room):,.0f} B are missing; add a worker or one with more flash"
        )
    for _ in range(MOST_ROUNDS):
        stored = shares_of(current, size)
        over = [index for index, share in enumerate(stored) if share > room[index] * (1 + 1e-9)]
        if not over:
            return current
        free = [index for index, share in enumerate(stored) if share < room[index] * (1 - 1e-9)]
        if not free:
            break
        moved_rating = 0.0
        for index in over:
            surplus = (stored[index] - room[index]) * total / size
            current[index] -= surplus
            moved_rating += surplus
        for index in free:
            current[index] += moved_rating / len(free)
    worst = max(over, key=lambda index: stored[index] - room[index])
    raise LimitError(f"{names[worst]} would have to store {stored[worst]:,.0f} B and has room for {room[worst]:,.0f} B")


def paper_plan(network: Network, ratings: Sequence[float], strategy: str) -> Plan:
    """Return the plan of Algorithms 1 to 4.

    Args:
        network: of the model.
        ratings: of each worker.
        strategy: how the ratings were computed, in words.
    """
    phases = [_layer(network, index, ratings) for index in range(len(network.nodes))]
    return Plan(len(ratings), tuple(phases), strategy)


def travelling_share(plan: Plan, network: Network) -> float:
    """Return Kc of a plan: bytes moved over bytes of all outputs."""
    produced = sum(volume(network.region(value)) for node in network.nodes for value in node.outputs)
    return plan.moved / produced if produced else 0.0


def _layer(network: Network, index: int, ratings: Sequence[float]) -> Phase:
    node = network.nodes[index]
    shares = _shares(network, index, ratings)
    needs = {worker: receptive_field(network, index, region) for worker, region in shares.items()}
    sent = [
        Transfer(value, COORDINATOR, worker, region)
        for worker, fields in needs.items()
        if worker != COORDINATOR
        for value, region in fields.items()
        if region
    ]
    tasks, returned = [], []
    for worker, region in shares.items():
        outputs = tuple((value, region if node.stage else network.region(value)) for value in node.outputs)
        tasks.append(Task(worker, (Step(index, region),), outputs))
        if worker != COORDINATOR:
            returned += [Transfer(value, worker, COORDINATOR, part) for value, part in outputs]
    return Phase(node.name, tuple(sent), tuple(tasks), tuple(returned))


def _shares(network: Network, index: int, ratings: Sequence[float]) -> Mapping[int, Region]:
    """Return worker → region of a layer that it computes; workers with nothing are left out."""
    node = network.nodes[index]
    shape = network.shape(node.outputs[0])
    if node.stage is None:
        return {COORDINATOR: (whole(shape),)}
    if not can_be_cut(node) or not _reads_something(network, index):
        return {max(range(len(ratings)), key=lambda worker: ratings[worker]): (whole(shape),)}
    ranges = by_ratings(volume((whole(shape),)), ratings)
    return {worker: flat_range(shape, *part) for worker, part in enumerate(ranges) if part[0] < part[1]}


def _reads_something(network: Network, index: int) -> bool:
    """Return whether every position of a layer can be computed separately; some of a PAD would read nothing."""
    stage = network.nodes[index].stage
    if stage is None or stage.kind is StageKind.PAD:
        return False
    try:
        receptive_field(network, index, network.region(stage.output))
        height, width, channels = network.shape(stage.output)
        receptive_field(network, index, flat_range((height, width, channels), 0, 1))
    except BlockError:
        return False
    return True


ROUNDS = 12
"""Most corrections of the shares for kernels that two neighbours both store."""


def published(
    network: Network, cluster: Cluster, accountant: Accountant, strategy: str
) -> tuple[Plan, tuple[Needs, ...]]:
    """Return the published scheme's plan and needs; shares are lowered until each worker's actual storage fits."""
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
    produced = sum(volume(network.region(value)) for node in network.nodes for value in node.outputs)
    ratings = []
    for index, worker in enumerate(cluster.workers):
        alone = one_worker(network, cluster, index)
        cycles = sum(accountant.instructions(task, worker.target) for task in alone.tasks_of(index).values())
        ratings.append(rating(worker, produced / 1000 / (cycles / 1e6), kc))
    return ratings, f"every layer cut by output positions in proportion to ratings (Equation 5, Kc = {kc:.2f})"
