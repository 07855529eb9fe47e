"""Simulates a deployment."""

from __future__ import annotations

from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.fragments.decode import decode
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.simulate.devices import Course, acts_of, run_devices


def simulated(deployment: Deployment, inferences: int = 1, accountant: Accountant | None = None) -> Course:
    """Return the course of inferences of the fragments as they are; blocks take their predicted instructions.

    Args:
        deployment: the devices and their fragments.
        inferences: their number; as many overlap as the workers allow.
        accountant: of the deployment's network, if it already has the plan's blocks.
    """
    accountant = accountant or Accountant(deployment.network)
    acts = {COORDINATOR: tuple(acts_of(decode(deployment.fragments.coordinator), ()))}
    for device in deployment.taking_part:
        worker = deployment.cluster.workers[device]
        tasks = [task for phase in deployment.plan.phases for task in phase.tasks if task.worker == device]
        parts = [part for task in tasks for part in accountant.parts(task)]
        seconds = [worker.seconds(accountant.part_instructions(part, worker.target)) for part in parts]
        acts[device] = tuple(acts_of(decode(deployment.fragments.workers[device]), seconds))
    return run_devices(acts, deployment.cluster, inferences)
