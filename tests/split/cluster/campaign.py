"""Many inferences with injected faults: each must end with the right bytes or with an error that names a device."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import numpy as np

from tests.split.cluster import cases
from tests.split.cluster.shaping import FAULTS, Proxy, Shape
from tflite_fuse.errors import ClusterError
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.running.coordinator import Contact, Coordinator

KILL, NOTHING = "kill", "nothing"
WORDS = (NOTHING, KILL, *FAULTS)
PATIENCE = 1.0
"""Seconds an inference may take."""
HANGS = 20.0
"""Seconds after which one that has not ended counts as hanging."""

_NAMED = re.compile(r"(worker w\d|the coordinator) (is|sent|has|speaks|serves|cannot)")


class Processes:
    """Worker processes in C, each behind a proxy."""

    def __init__(self, program: Path, folder: Path, found: Deployment) -> None:
        self._program, self._folder, self._found = program, folder, found
        self.proxies: dict[int, Proxy] = {}
        self.contacts: dict[int, Contact] = {}
        self._processes: dict[int, subprocess.Popen[str]] = {}

    async def start(self) -> None:
        for device in self._found.taking_part:
            (self._folder / f"{device}.fragment").write_bytes(self._found.fragments.workers[device])
            self.proxies[device] = Proxy(self.spawn(device))
            self.contacts[device] = Contact(f"w{device}", await self.proxies[device].listen())

    def spawn(self, device: int) -> str:
        """A process; where it listens."""
        call = [str(self._program), str(self._folder / f"{device}.fragment"), "127.0.0.1:0"]
        self._processes[device] = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
        output = self._processes[device].stdout
        assert output is not None
        return f"127.0.0.1:{int(output.readline())}"

    def kill(self, device: int) -> None:
        self._processes[device].kill()
        self._processes[device].wait()

    def close(self) -> None:
        for proxy in self.proxies.values():
            proxy.close()
        for device in self._processes:
            self.kill(device)


@contextlib.asynccontextmanager
async def _running(program: Path, folder: Path, found: Deployment) -> AsyncIterator[Processes]:
    processes = Processes(program, folder, found)
    try:
        await processes.start()
        yield processes
    finally:
        processes.close()


async def campaign(program: Path, folder: Path, workers: int, count: int, seed: int) -> Counter[tuple[str, str]]:
    """(What went wrong, how it ended) of so many inferences on so many workers."""
    found = cases.deployment(workers)
    ends: Counter[tuple[str, str]] = Counter()
    async with _running(program, folder, found) as processes:
        coordinator = cases.coordinator(found, processes.contacts, PATIENCE)
        for number in range(count):
            rng = Random(f"{seed} {workers} {number}")
            word = WORDS[number % len(WORDS)]
            inputs, expected = cases.samples()[number % 3]
            proxy = processes.proxies[rng.choice(sorted(processes.proxies))]
            if word in FAULTS:
                proxy.shape = Shape(word, rng.choice([0.05, 0.3, 1.0]), rng)
            killing = asyncio.ensure_future(_kill(processes, rng)) if word == KILL else None
            try:
                outputs = await asyncio.wait_for(coordinator.infer(inputs), HANGS)
                end = "right" if all(map(np.array_equal, outputs, expected)) else "WRONG"
            except ClusterError as error:
                end = "named" if _NAMED.search(str(error)) else f"UNNAMED {error}"
            except asyncio.TimeoutError:
                end = "HANGS"
            ends[word, end] += 1
            if killing is not None:
                await killing
            proxy.shape = Shape()
            if end != "right":
                coordinator.close()
                for each in processes.proxies.values():
                    each.cut()
                await asyncio.sleep(0.01)
        coordinator.close()
        await _recovers(coordinator, ends)
    return ends


async def _kill(processes: Processes, rng: Random) -> None:
    """One worker at a random moment; another process takes its place."""
    await asyncio.sleep(rng.uniform(0, 0.03))
    device = rng.choice(sorted(processes.proxies))
    processes.kill(device)
    await asyncio.sleep(rng.uniform(0, 0.02))
    processes.proxies[device].target = processes.spawn(device)


async def _recovers(coordinator: Coordinator, ends: Counter[tuple[str, str]]) -> None:
    """With nothing wrong any more, an inference with retries is right."""
    inputs, expected = cases.samples()[0]
    outputs = await coordinator.infer(inputs, 8)
    coordinator.close()
    ends["afterwards", "right" if all(map(np.array_equal, outputs, expected)) else "WRONG"] += 1


def bad(ends: Counter[tuple[str, str]]) -> list[str]:
    """What must not be."""
    return [f"{word}: {end} ({number})" for (word, end), number in ends.items() if end not in ("right", "named")]


def table(ends: Counter[tuple[str, str]]) -> Iterator[str]:
    """Markdown: what went wrong, how often it ended how."""
    yield "| what goes wrong | inferences | right bytes | named error | anything else |"
    yield "|---|---:|---:|---:|---:|"
    for word in (*WORDS, "afterwards"):
        counts = Counter({end: number for (each, end), number in ends.items() if each == word})
        total, right, named = sum(counts.values()), counts["right"], counts["named"]
        yield f"| {word} | {total} | {right} | {named} | {total - right - named} |"
