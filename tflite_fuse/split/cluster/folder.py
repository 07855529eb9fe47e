"""Reads the folder that ``tflite-fuse split -o DIR`` writes, for the commands of ``tflite-fuse cluster``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tflite_fuse.errors import ModelError, PlanError, UsageError
from tflite_fuse.files import nearest, read_file
from tflite_fuse.model.file import load_model
from tflite_fuse.runtime.library.worker import HostWorker
from tflite_fuse.split.cluster.file import cluster_of_file
from tflite_fuse.split.cut.network import Network, network_of
from tflite_fuse.split.cut.plan import Plan
from tflite_fuse.split.cut.plan_file import plan_transfers, read_document
from tflite_fuse.split.cut.sums import network_of_plan
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.fragments.encode import Fragments, decode
from tflite_fuse.split.fragments.machine import Machine, operators_of
from tflite_fuse.split.verify import check_plan


@dataclass(frozen=True)
class Deployment:
    """A plan with its model, cluster and fragments.

    Attributes:
        network, plan, cluster: as they were split; the network is the plan's.
        fragments: of all devices.
    """

    network: Network
    plan: Plan
    cluster: Cluster
    fragments: Fragments

    @property
    def number(self) -> int:
        """Return the plan's number, by which devices identify it."""
        return self.fragments.plan

    @cached_property
    def pairs(self) -> frozenset[tuple[int, int]]:
        """Return the pairs of devices with transfers between them, the smaller number first."""
        return frozenset(
            (min(each.source, each.target), max(each.source, each.target)) for each in plan_transfers(self.plan)
        )

    @property
    def dials(self) -> tuple[tuple[int, int], ...]:
        """Return the pairs of workers with a connection: (the one that opens it, the other)."""
        return tuple(sorted(pair for pair in self.pairs if COORDINATOR not in pair))

    @property
    def taking_part(self) -> tuple[int, ...]:
        """Return the workers with something to do, ascending."""
        return tuple(sorted({device for pair in self.pairs for device in pair} - {COORDINATOR}))

    def coordinator(self) -> Machine:
        """Return the coordinator's machine."""
        return Machine(decode(self.fragments.coordinator), operators_of(self.network))

    def machine(self, device: int) -> HostWorker:
        """Return a worker's machine. Raises RuntimeUnavailableError without a C compiler."""
        return HostWorker(self.fragments.workers[device])

    def peers(self, device: int) -> frozenset[int]:
        """Return the workers that a worker has connections with."""
        return frozenset(other for pair in self.dials for other in pair if device in pair) - {device}

    def worker(self, name: str) -> int:
        """Return a worker's number by its name. Raises UsageError if there is none."""
        names = [worker.name for worker in self.cluster.workers]
        if name not in names:
            raise UsageError(f"the plan has no worker {name!r}; it has {', '.join(names)}{nearest(name, names)}")
        return names.index(name)


def read_deployment(folder: Path) -> Deployment:
    """Return the deployment in a folder.

    Raises:
        UsageError: the folder lacks a file, or one is damaged or belongs to another plan.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: is no folder; tflite-fuse split -o writes one")
    content = read_file(folder / "model.tflite")
    cluster = cluster_of_file(read_file(folder / "workers.toml"), folder / "workers.toml")
    path = folder / "plan.json"
    try:
        document = json.loads(read_file(path))
        network = network_of(load_model(content, str(folder / "model.tflite")))
        plan = read_document(document, network, content)
        network = network_of_plan(network, plan)
        check_plan(network, plan)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is no JSON ({error})") from error
    except PlanError as error:
        raise UsageError(f"{path}: {error}") from error
    except ModelError as error:
        raise UsageError(str(error)) from error
    fragments = _read_fragments(folder, plan.workers)
    names = [worker.name for worker in cluster.workers]
    if names != document["workers"]:
        raise UsageError(f"{path}: is for other workers than {folder / 'workers.toml'} names")
    return Deployment(network, plan, cluster, fragments)


def fragment_files(fragments: Fragments) -> dict[str, bytes]:
    """Return names inside the folder → contents."""
    workers = {_fragment_name(device): data for device, data in enumerate(fragments.workers)}
    return {**workers, _fragment_name(COORDINATOR): fragments.coordinator}


def _fragment_name(device: int) -> str:
    return f"fragments/{'coordinator' if device == COORDINATOR else device}.fragment"


def _read_fragments(folder: Path, workers: int) -> Fragments:
    files, plans = {}, set[int]()
    for device in (*range(workers), COORDINATOR):
        path = folder / _fragment_name(device)
        files[device] = read_file(path)
        try:
            fragment = decode(files[device])
        except PlanError as error:
            raise UsageError(f"{path}: {error}") from error
        if (fragment.header.device, fragment.header.workers) != (device, workers):
            raise UsageError(f"{path}: is of another device")
        plans.add(fragment.plan)
    if len(plans) > 1:
        raise UsageError(f"{folder / 'fragments'}: the fragments belong to different plans: split again")
    coordinator = files.pop(COORDINATOR)
    return Fragments(plans.pop(), tuple(files.values()), coordinator)


def addresses(deployment: Deployment, by_name: Mapping[str, str]) -> dict[int, str]:
    """Return the address of each worker with something to do: from ``by_name``, else from ``workers.toml``.

    Raises:
        UsageError: a worker has no address, or ``by_name`` names one that does not exist.
    """
    by_number = {deployment.worker(name): address for name, address in by_name.items()}
    by_device = {}
    for device in deployment.taking_part:
        worker = deployment.cluster.workers[device]
        by_device[device] = by_number.get(device, worker.address)
        if not by_device[device]:
            raise UsageError(
                f'no address of {worker.name!r} is known: give --at {worker.name}=host:port, or address = "host:port" '
                "in workers.toml"
            )
    return by_device
