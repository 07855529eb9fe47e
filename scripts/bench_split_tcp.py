#!/usr/bin/env python3
"""A split model on worker processes in C over TCP: compares outputs, and every message's bytes with the simulator's.

    bench_split_tcp.py ARCH.json [--workers 1,3,8]

Proxies between the processes count the bytes. Exit code 1 if outputs or bytes differ.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.sweep_split import equal
from scripts.zoo.architectures import build_architecture_file
from tests.arduino.fake_runtime import build, compiler
from tests.split.cluster.cases import as_bytes
from tests.split.cluster.shaping import Proxy
from tests.split.cluster.test_c_worker import processes
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.runtime.library.sources import library_directory, library_sources
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.link.messages import HEADER_BYTES, Kind
from tflite_fuse.split.cluster.running.coordinator import Contact, Coordinator
from tflite_fuse.split.cluster.simulation import simulated
from tflite_fuse.split.fragments.encode import encode_plan
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.splitting import SplitOptions, split_model

PROGRAMS = Path(__file__).resolve().parents[1] / "tests" / "split" / "cluster" / "c"
COUNTED = (Kind.START, Kind.DATA, Kind.STEP)


class Counting(Proxy):
    """Counts the messages of inferences, whichever way they go."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.messages = self.payload = self.frames = 0

    async def _changed(self, fault: str, frame: bytes) -> list[bytes]:
        if frame[3] in COUNTED:
            self.messages += 1
            self.payload += len(frame) - HEADER_BYTES
            self.frames += len(frame)
        return [frame]


async def run(
    deployment: Deployment, contacts: dict[int, Contact], samples: list[object]
) -> tuple[list[bytes], list[int]]:
    """Return the first output of each sample, and messages, payload and frames of one inference."""
    proxies = {device: Counting(contact.address) for device, contact in contacts.items()}
    between = {device: Contact(contacts[device].name, await proxy.listen()) for device, proxy in proxies.items()}
    devices = Coordinator(deployment.coordinator(), deployment.number, between, deployment.dials, 300.0)
    outputs = [(await devices.infer(as_bytes(sample)))[0].tobytes() for sample in samples]  # type: ignore[arg-type]
    devices.close()
    counts = [(each.messages, each.payload, each.frames) for each in proxies.values()]
    for proxy in proxies.values():
        proxy.close()
    return outputs, [sum(column) // len(samples) for column in zip(*counts, strict=True)]


def worker_program(folder: Path) -> Path:
    """Return the path of a worker in C, built for this machine."""
    own = [PROGRAMS / "worker.c", PROGRAMS / "mac.c", PROGRAMS / "host.c", *library_sources()]
    build([compiler("gcc"), "-std=c11", "-O2", f"-I{library_directory()}", *own, "-o", folder / "worker", "-lm"])
    return folder / "worker"


def deployed(model: Model, workers: int) -> Deployment:
    """Return the plan for the least time."""
    split = split_model(model, equal(workers), SplitOptions())
    fragments = encode_plan(split.network, split.plan, Accountant(split.network).parts)
    return Deployment(split.network, split.plan, split.cluster, fragments)


def main() -> int:
    """Run with each number of workers; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architecture", type=Path)
    parser.add_argument("--workers", default="1,3,8")
    chosen = parser.parse_args()
    model = build_architecture_file(chosen.architecture)
    samples = generate_inputs(model, 2)
    expected = [np.asarray(each[0]).tobytes() for each in tflm.run(serialize_model(model), samples).outputs]
    worst = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = worker_program(folder)
        for workers in map(int, chosen.workers.split(",")):
            deployment = deployed(model, workers)
            with processes(program, deployment, folder) as (contacts, _):
                outputs, counts = asyncio.run(run(deployment, contacts, list(samples)))
            course = simulated(deployment)
            payload = sum(each.payload_bytes for each in course.messages)
            predicted = [len(course.messages), payload, sum(each.frame_bytes for each in course.messages)]
            same = "same bytes as TFLM" if outputs == expected else "OTHER BYTES"
            pairs = zip(counts, predicted, strict=True)
            words = [f"{count:,} ({'as simulated' if count == each else each})" for count, each in pairs]
            print(f"{workers} workers: {same}; messages {words[0]}, payload {words[1]}, frames {words[2]}", flush=True)
            worst |= outputs != expected or counts != predicted
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
