#!/usr/bin/env python3
"""Time of reports, estimates and sweeps: bench_pipelines.py [--part report|metrics|sweep].

- report: ``tflite-fuse report`` of the largest model of ``--data`` and its default rewrite, elapsed and CPU time.
- metrics: an estimate of a network of 72 operators, CPU time of one call in a process that has made another before.
- sweep: N small models by one process, by two, by an existing Dask cluster of two workers in Dask's default
  configuration, and by one that the command makes; elapsed time of the command, and the most memory of any process for
  N and a quarter of them. Existing workers are fresh: their imports count, their start does not.

Ratios of a sweep are meaningful only on an idle machine; CPU time includes child processes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.zoo.networks import inverted_residual_network
from tflite_fuse.model import save_model, serialize_model

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "models"
OPERATORS = 72


def timed(arguments: Sequence[Any]) -> tuple[float, float, int]:
    """Return seconds of the clock, seconds of CPU and peak resident bytes of a command of this package."""
    command = [sys.executable, "-m", "tflite_fuse", *map(str, arguments)]
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def report(folder: Path, work: Path, count: int) -> None:
    """Time the page of the largest model."""
    largest = max(folder.glob("*.tflite"), key=lambda path: path.stat().st_size, default=None)
    if largest is None:
        raise SystemExit(f"{folder} has no .tflite in it: name a folder with --data")
    small, page = work / "small.tflite", work / "page.html"
    tflite_fuse.rewrite(largest, verify=False).save(small)
    runs = [timed(["report", largest, small, "-o", page]) for _ in range(count)]
    clock, cpu = (statistics.median(run[at] for run in runs) for at in (0, 1))
    operators = len(tflite_fuse.load(largest).main.operators)
    print(f"report of {largest.stem} ({operators} operators): {clock:.2f} s, {cpu:.2f} s of CPU", end="")
    print(f", {page.stat().st_size:,} bytes", flush=True)


def metrics() -> None:
    """Time an estimate of a network of a number of operators."""
    found = (inverted_residual_network(size=96, blocks=blocks) for blocks in range(8, 40))
    small = next(found)
    model = next(each for each in found if len(each.main.operators) >= OPERATORS)
    data = serialize_model(model)
    tflite_fuse.metrics(serialize_model(small))
    start = time.process_time()
    tflite_fuse.metrics(data)
    print(f"estimate of {len(model.main.operators)} operators: {time.process_time() - start:.2f} s of CPU", flush=True)


def sweep(count: int, work: Path, dask: bool) -> None:
    """Time the sweep of small models by one process, two processes and clusters."""
    everything, few = work / "models", work / "few"
    for folder, models in ((everything, count), (few, count // 4)):
        folder.mkdir()
        for seed in range(models):
            model = inverted_residual_network(size=24 + 4 * (seed % 5), channels=4 + 4 * (seed % 3), seed=seed)
            save_model(model, folder / f"{seed:03}.tflite")
    two, with_dask = ("--jobs", 2), ("--jobs", 2, "--executor", "dask")
    with dask_cluster() if dask else nullcontext() as address:
        ways: dict[str, tuple[Any, ...]] = {"one": ("--jobs", 1), "two": two}
        if address is not None:
            ways |= {"Dask": (*with_dask[2:], "--scheduler", address), "Dask made here": with_dask}
        seconds: dict[str, float] = {}
        for name, options in ways.items():
            took, cpu, memory = timed(["sweep", everything, "-o", work / name, *options])
            seconds[name] = took
            spent = f"{cpu:.1f} s of CPU, {memory:,} bytes at most" if name != "Dask" else "its workers not counted"
            print(f"sweep of {count} models, {name}: {took:.1f} s, {spent}", flush=True)
    if count >= 8:
        _, _, memory = timed(["sweep", few, "-o", work / "of few", *two])
        print(f"sweep of {count // 4} models, two: {memory:,} bytes at most")
    reached = [f"{name} reaches {seconds['two'] / seconds[name]:.2f} of that" for name in seconds if "Dask" in name]
    print(", ".join([f"two processes are {seconds['one'] / seconds['two']:.2f} times as fast as one", *reached]))


@contextmanager
def dask_cluster() -> Iterator[str]:
    """Yield the address of a cluster of two workers in another process."""
    code = (
        "import sys\nfrom distributed import LocalCluster\nif __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:\n"
        "        print(cluster.scheduler_address, flush=True)\n        sys.stdin.read()\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "cluster.py"  # its workers import it
        script.write_text(code)
        paths = os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        environment = {**os.environ, "PYTHONPATH": paths}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, script], text=True, env=environment, **pipes) as process:
            assert process.stdin is not None and process.stdout is not None
            yield process.stdout.readline().strip()
            process.stdin.close()


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("report", "metrics", "sweep"))
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--data", type=Path, default=SHARED, help="where models are (default: shared/models)")
    parser.add_argument("--without-dask", action="store_true", help="no cluster")
    parser.add_argument("--runs", type=int, default=3, help="reports of which the middle one counts")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if chosen.part in (None, "report"):
            report(chosen.data, Path(name), chosen.runs)
        if chosen.part in (None, "metrics"):
            metrics()
        if chosen.part in (None, "sweep"):
            sweep(chosen.models, Path(name), not chosen.without_dask)


if __name__ == "__main__":
    main()
