"""Simulates a deployment; and time, bytes and RAM over the number of workers, for each of which it splits again.

Each device follows its own fragment as the C worker does, with the messages that ``cluster run`` sends once all are
connected: START to each worker, DATA, and STEP after every step that a worker computed. Copies inside a buffer take no
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tflite_fuse.errors import LimitError, UsageError
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.fragments.encode import Fragment, decode, encode_plan
from tflite_fuse.split.fragments.structs import StepKind
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.protocol import Kind
from tflite_fuse.split.simulate import Act, Course, acts_of_message
from tflite_fuse.split.splitting import SplitOptions, split_model

_MESSAGES = (StepKind.SEND, StepKind.RECEIVE)


def simulated(deployment: Deployment, inferences: int = 1, accountant: Accountant | None = None) -> Course:
    """Return the course of inferences of the fragments as they are; blocks take their predicted instructions.

    Args:
        deployment: the devices and their fragments.
        inferences: their number; as many overlap as the workers allow.
        accountant: of the deployment's network, if it already has the plan's blocks.
    """
    accountant = accountant or Accountant(deployment.network)
    acts = {COORDINATOR: tuple(_acts_of(decode(deployment.fragments.coordinator), ()))}
    for device in deployment.taking_part:
        worker = deployment.cluster.workers[device]
        parts = [part for task in deployment.plan.tasks_of(device).values() for part in accountant.parts(task)]
        seconds = [worker.seconds(accountant.part_instructions(part, worker.target)) for part in parts]
        acts[device] = tuple(_acts_of(decode(deployment.fragments.workers[device]), seconds))
    return Course(acts, deployment.cluster, inferences, controls=True, spans=True)


def _acts_of(fragment: Fragment, seconds: Sequence[float]) -> Iterator[Act]:
    """Yield a device's actions in order.

    Args:
        fragment: its fragment.
        seconds: of each of its blocks, in order.
    """
    steps, number = fragment.steps, 0
    durations = iter(seconds)
    while number < len(steps):
        step = steps[number]
        if step.kind in _MESSAGES:
            yield from acts_of_message(step.kind == StepKind.SEND, step.peer, step.number, step.bytes)
            number += 1
            continue
        begin, number = number, _skip_copies(fragment, number)
        took = 0.0
        if number < len(steps) and steps[number].kind not in _MESSAGES:
            took = next(durations) if steps[number].kind == StepKind.BLOCK else 0.0
            number = _skip_copies(fragment, number + 1)
        yield Act(Kind.STEP, False, item=begin, seconds=took)


def _skip_copies(fragment: Fragment, number: int) -> int:
    while number < len(fragment.steps) and fragment.steps[number].kind == StepKind.COPY:
        number += 1
    return number


@dataclass(frozen=True)
class Point:
    """Results for one number of workers.

    Attributes:
        workers, working: number of workers, and of those with something to do.
        seconds: of one inference on simulated devices.
        payload_bytes: of values, moved over all links.
        ram_bytes, flash_bytes: of the worker that needs most.
        reason: why there is no split; the figures are 0 then.
    """

    workers: int
    working: int = 0
    seconds: float = 0.0
    payload_bytes: int = 0
    ram_bytes: int = 0
    flash_bytes: int = 0
    reason: str | None = None


def sweep(
    deployment: Deployment, counts: Iterable[int], options: SplitOptions, progress: Callable[[int], None]
) -> list[Point]:
    """Return a point for every number of workers."""
    points = []
    for count in counts:
        progress(count)
        points.append(_point(deployment, count, options))
    return points


def _point(deployment: Deployment, count: int, options: SplitOptions) -> Point:
    cluster = _with_workers(deployment.cluster, count)
    try:
        split = split_model(deployment.network.model, cluster, options)
    except LimitError as error:
        return Point(count, reason=str(error))
    fragments = encode_plan(split.network, split.plan, split.accountant.parts)
    course = simulated(Deployment(split.network, split.plan, cluster, fragments), accountant=split.accountant)
    working = [each for each in split.needs if each.by_phase]
    ram, flash = max(each.ram_bytes for each in working), max(each.flash_bytes for each in working)
    return Point(count, len(working), course.seconds, course.payload_bytes, ram, flash)


def _with_workers(cluster: Cluster, count: int) -> Cluster:
    """Return the cluster with so many workers, repeating its own in turn.

    They are joined directly, or by one medium, exactly if all workers of the cluster are.

    Raises:
        UsageError: only some of the workers share a medium.
    """
    originals = cluster.workers
    workers = tuple(replace(originals[index % len(originals)], name=f"worker {index + 1}") for index in range(count))
    all_direct = len(originals) > 1 and len(cluster.direct) == len(originals) * (len(originals) - 1) // 2
    direct = frozenset(combinations(range(count), 2)) if all_direct else frozenset()
    everyone = frozenset(range(len(originals)))
    if not all(everyone <= members for members in cluster.media):
        raise UsageError(
            "a shared link joins some of the workers, not all: it cannot be extended to other numbers of them"
        )
    media = tuple(frozenset(range(count)) | (members & {COORDINATOR}) for members in cluster.media)
    return Cluster(workers, cluster.coordinator, direct, media)
