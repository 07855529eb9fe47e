#!/usr/bin/env python3
"""A split model on workers in C, each in its own network namespace behind a link of limited rate.

    bench_split_namespaces.py ARCH.json [--workers 1,3] [--kilobytes-per-second 500]

The kernel limits the traffic of each worker in both directions (token buckets of `tc`), without a proxy. Prints the
time of an inference, and the time that the busiest link needs for the simulator's frames. Exit code 1 if outputs differ
or an inference was quicker than its links; 3, with the reason, if privileges, `ip` or `tc` are missing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.bench_split_tcp import deployed, worker_program
from scripts.zoo.architectures import build_architecture_file
from tests.split.cluster.cases import as_bytes
from tflite_fuse.model import serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.running.coordinator import Contact, Coordinator
from tflite_fuse.split.cluster.simulation import simulated
from tflite_fuse.split.devices import COORDINATOR

PORT = 7001
BURST = 3000
"""Bytes a link lets through at once."""


class MissingError(Exception):
    """What this machine does not let us do."""


def tell(*words: object) -> None:
    """Run a command. Raises MissingError where it cannot be run or is not permitted."""
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise MissingError(f"{words[0]}: {error.strerror}") from error
    if done.returncode:
        raise MissingError(f"{' '.join(map(str, words))}: {done.stderr.strip() or done.returncode}")


class Network:
    """A bridge with the coordinator on it, and a namespace for each worker."""

    def __init__(self, count: int, kilobytes_per_second: int) -> None:
        self._id, self._rate = os.getpid() % 10000, f"{kilobytes_per_second * 8}kbit"
        self._undo: list[Sequence[object]] = []
        self.bridge = f"tfb{self._id}"
        self.spaces = [f"tfn{self._id}-{number}" for number in range(count)]

    def address(self, number: int) -> str:
        """Return the address of a worker, of the coordinator for -1."""
        return f"198.18.{self._id % 250}.{number + 2}"

    def open(self) -> None:
        """Create the namespaces and links. Raises MissingError."""
        self._make(("ip", "link", "del", self.bridge), "ip", "link", "add", self.bridge, "type", "bridge")
        tell("ip", "addr", "add", f"{self.address(COORDINATOR)}/24", "dev", self.bridge)
        tell("ip", "link", "set", self.bridge, "up")
        for number, space in enumerate(self.spaces):
            inside, outside = f"tfi{self._id}-{number}", f"tfo{self._id}-{number}"
            self._make(("ip", "netns", "del", space), "ip", "netns", "add", space)
            self._make(
                ("ip", "link", "del", outside), "ip", "link", "add", outside, "type", "veth", "peer", "name", inside
            )
            tell("ip", "link", "set", inside, "netns", space)
            tell("ip", "link", "set", outside, "master", self.bridge, "up")
            within = ("ip", "netns", "exec", space)
            tell(*within, "ip", "addr", "add", f"{self.address(number)}/24", "dev", inside)
            tell(*within, "ip", "link", "set", inside, "up")
            bucket = ("root", "tbf", "rate", self._rate, "burst", BURST, "latency", "2s")
            tell("tc", "qdisc", "add", "dev", outside, *bucket)
            tell(*within, "tc", "qdisc", "add", "dev", inside, *bucket)

    def _make(self, undo: Sequence[object], *words: object) -> None:
        tell(*words)
        self._undo.append(undo)

    def close(self) -> None:
        for undo in reversed(self._undo):
            subprocess.run([str(word) for word in undo], capture_output=True, check=False)


@contextmanager
def workers(network: Network, program: Path, deployment: Deployment, folder: Path) -> Iterator[dict[int, Contact]]:
    """Start each worker in a network namespace."""
    started: list[subprocess.Popen[str]] = []
    contacts = {}
    try:
        network.open()
        for place, device in enumerate(deployment.taking_part):
            (folder / f"{device}.fragment").write_bytes(deployment.fragments.workers[device])
            address = f"{network.address(place)}:{PORT}"
            call = ["ip", "netns", "exec", network.spaces[place], program, folder / f"{device}.fragment", address]
            quiet = subprocess.DEVNULL
            started.append(subprocess.Popen(list(map(str, call)), stdout=subprocess.PIPE, stderr=quiet, text=True))
            output = started[-1].stdout
            if output is None or not output.readline():
                raise MissingError(f"the worker at {address} does not start")
            contacts[device] = Contact(f"w{device}", address)
        yield contacts
    finally:
        for process in started:
            process.kill()
            process.wait()
        network.close()


async def run(
    deployment: Deployment, contacts: dict[int, Contact], samples: list[list[object]]
) -> tuple[list[bytes], float]:
    """Return the first output of each sample, and seconds of one of them, the first one's connections left out."""
    coordinator = Coordinator(deployment.coordinator(), deployment.number, contacts, deployment.dials, 300.0)
    outputs = [(await coordinator.infer(as_bytes(samples[0])))[0].tobytes()]
    began = time.monotonic()
    outputs += [(await coordinator.infer(as_bytes(sample)))[0].tobytes() for sample in samples[1:]]
    seconds = (time.monotonic() - began) / (len(samples) - 1)
    coordinator.close()
    return outputs, seconds


def busiest(deployment: Deployment, kilobytes_per_second: int) -> float:
    """Return the seconds for which the frames of one inference occupy the busiest link, one way."""
    lanes: dict[tuple[str, int], int] = {}
    for each in simulated(deployment).messages:
        for lane in (("send", each.source), ("receive", each.target)):
            if lane[1] != COORDINATOR:
                lanes[lane] = lanes.get(lane, 0) + each.frame_bytes
    return max(lanes.values()) / 1000 / kilobytes_per_second


def main() -> int:
    """Run with each number of workers; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architecture", type=Path)
    parser.add_argument("--workers", default="1,3")
    parser.add_argument("--kilobytes-per-second", type=int, default=500)
    chosen = parser.parse_args()
    model = build_architecture_file(chosen.architecture)
    samples = [list(each) for each in generate_inputs(model, 3)]
    expected = [np.asarray(each[0]).tobytes() for each in tflm.run(serialize_model(model), samples).outputs]
    worst = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = worker_program(folder)
        for count in map(int, chosen.workers.split(",")):
            deployment = deployed(model, count)
            network = Network(len(deployment.taking_part), chosen.kilobytes_per_second)
            try:
                with workers(network, program, deployment, folder) as contacts:
                    outputs, seconds = asyncio.run(run(deployment, contacts, samples))
            except MissingError as missing:
                print(f"no network namespaces with limited rates here: {missing}", file=sys.stderr)
                return 3
            least = busiest(deployment, chosen.kilobytes_per_second)
            same = "same bytes as TFLM" if outputs == expected else "OTHER BYTES"
            words = f"{seconds:.3f} s an inference, the busiest link alone {least:.3f} s"
            print(f"{count} workers at {chosen.kilobytes_per_second} kB/s: {same}; {words}", flush=True)
            worst |= outputs != expected or seconds < 0.9 * least
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
