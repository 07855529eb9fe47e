"""A deployment on simulated devices."""

from __future__ import annotations

from tflite_fuse.split.cluster.devices import COORDINATOR
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.costs.needs import Accountant
from tflite_fuse.split.fragments.decode import decode
from tflite_fuse.split.simulate.devices import Course, acts_of, run_devices


def simulated(deployment: Deployment, inferences: int = 1) -> Course:
    """Inferences of the fragments as they are, every block for as long as its predicted instructions take."""
    accountant = Accountant(deployment.network)
    acts = {COORDINATOR: tuple(acts_of(decode(deployment.fragments.coordinator), ()))}
    for device in deployment.taking_part:
        worker = deployment.cluster.workers[device]
        tasks = [task for phase in deployment.plan.phases for task in phase.tasks if task.worker == device]
        parts = [part for task in tasks for part in accountant.parts(task)]
        seconds = [worker.seconds(accountant.part_instructions(part, worker.target)) for part in parts]
        acts[device] = tuple(acts_of(decode(deployment.fragments.workers[device]), seconds))
    return run_devices(acts, deployment.cluster, inferences)
