#!/usr/bin/env python3
"""One model over several microcontrollers: the published scheme and the search, beside published figures.

    scripts/bench_split.py ARCH.json FACTS [--part scheme ratings scaling search memory heterogeneous boards many]

ARCH.json is the layer list of MobileNetV2 at 112x112, FACTS the folder of the published tables. Nothing runs on a
device: times are those of simulated workers and links, with work from the published rate of output (K1, for the parts
that repeat the paper) or from predicted instructions of the device library (for the search).
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.zoo import ModelBuilder
from scripts.zoo.architectures import build_architecture_file
from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.model import Model
from tflite_fuse.split.cut.network import Network, network_of
from tflite_fuse.split.cut.plan import Plan, Task
from tflite_fuse.split.cut.regions import volume
from tflite_fuse.split.devices import Cluster, Device, Link
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.search.estimates import Estimates
from tflite_fuse.split.search.paper import paper_plan, rating, travelling_share
from tflite_fuse.split.simulate import simulate
from tflite_fuse.split.splitting import Split, SplitOptions, seconds_alone, split_model

RATE = 12_500.0
"""Kilobytes per second of 100 Mbit/s."""


def devices(mhz: Sequence[float], delays: Sequence[float], direct: bool, latency: float = 0.0) -> Cluster:
    """Return Teensy-like workers; ``delays`` in ms occupy their links for each message."""
    workers = tuple(
        Device(f"w{index}", Target.CORTEX_M7, each, link=Link(RATE, latency, 0.0, delay))
        for index, (each, delay) in enumerate(zip(mhz, delays, strict=True))
    )
    count = len(workers)
    pairs = frozenset((a, b) for b in range(count) for a in range(b)) if direct else frozenset()
    return Cluster(workers, Device("computer", Target.GENERIC, 1000.0, link=Link(RATE, latency)), pairs)


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a published table."""
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def k1_by_frequency(facts: Path) -> Callable[[float], float]:
    """Return kilobytes of output per million cycles, interpolated between the measured frequencies."""
    rates_by_mhz: dict[float, list[float]] = {}
    for row in rows_of(facts / "split_inference_table1_k1.csv"):
        rates_by_mhz.setdefault(float(row["frequency_mhz"]), []).append(float(row["k1_kb_per_mcycle"]))
    points = sorted((mhz, sum(each) / len(each)) for mhz, each in rates_by_mhz.items())
    return lambda mhz: float(np.interp(mhz, *zip(*points, strict=True)))


def published_seconds(plan: Plan, cluster: Cluster, k1: Callable[[float], float]) -> tuple[float, float]:
    """Return the seconds of a plan at the published rate of output, and the busiest worker's computing."""

    def seconds(_: int, task: Task) -> float:
        mhz = cluster.workers[task.worker].mhz
        produced = sum(volume(region) for _, region in task.owned) / 1000
        return produced / k1(mhz) / mhz

    timeline = simulate(plan, cluster, seconds)
    return timeline.seconds, max(timeline.busy)


def scheme(network: Network) -> None:
    """Print traffic in bytes, the busiest layer and RAM in bytes of the published scheme."""
    plan = paper_plan(network, [1.0] * 3, "")
    busiest = max(plan.phases, key=lambda phase: phase.moved)
    print(f"three workers, even: {plan.moved:,} B moved (published 4,210,000)")
    each = busiest.moved // plan.workers
    print(f"busiest layer: {busiest.name}, {each:,} B per worker (published around 480,000 per worker)")
    needs = Accountant(network).of_plan(plan, devices([600.0] * 3, [0.0] * 3, False))
    print(f"RAM per worker: {', '.join(f'{each.ram_bytes:,}' for each in needs)} B, most for {needs[0].largest}")


def ratings(network: Network, facts: Path) -> None:
    """Print Table II: seconds by the choice of ratings."""
    k1 = k1_by_frequency(facts)
    kc = travelling_share(paper_plan(network, [1.0] * 3, ""), network)
    print(f"{'case':>4} {'even':>8} {'by freq.':>8} {'rated':>8}   published: even, by frequency, rated")
    for row in rows_of(facts / "split_inference_table2.csv"):
        mhz = [float(each) for each in row["freq_mhz"].split("/")]
        cluster = devices(mhz, [float(each) for each in row["delay_ms"].split("/")], False)
        rated = [rating(worker, k1(worker.mhz), kc) for worker in cluster.workers]
        ours = [published_seconds(paper_plan(network, each, ""), cluster, k1)[0] for each in ([1.0] * 3, mhz, rated)]
        theirs = [float(row[name]) for name in ("evenly_s", "freq_only_s", "rating_based_s")]
        said = "same order" if same_order(ours, theirs) else "another order"
        columns = " ".join(f"{each:8.2f}" for each in ours)
        print(f"{row['case']:>4} {columns}   {', '.join(f'{each:.2f}' for each in theirs)}   {said}")


def same_order(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Return whether every pair that differs where published differs in the same direction."""
    pairs = [(a, b) for b in range(3) for a in range(b) if theirs[a] != theirs[b]]
    return all((theirs[a] < theirs[b]) == (ours[a] < ours[b]) for a, b in pairs)


def scaling(network: Network, facts: Path) -> None:
    """Print Figures 9 and 12: bytes, computing and RAM over the number of workers."""
    k1 = k1_by_frequency(facts)
    published = {int(row["workers"]): row for row in rows_of(facts / "split_inference_scaling.csv")}
    print("workers  bytes moved  computing      time  RAM per worker   published: time, of it computing")
    accountant = Accountant(network)
    for count in (1, 3, 5, 8, 12, 20, 40, 120):
        cluster = devices([600.0] * count, [0.0] * count, False)
        plan = paper_plan(network, [1.0] * count, "")
        seconds, busy = published_seconds(plan, cluster, k1)
        ram = max(accountant.of_worker(plan, cluster, worker).ram_bytes for worker in {0, count // 2})
        row = published.get(count)
        theirs = "" if row is None else f"   {row['total_s']} s, {row['computation_s'] or 'not printed'}"
        print(f"{count:7} {plan.moved:12,} {busy:8.2f} s {seconds:7.2f} s {ram:14,} B{theirs}", flush=True)


Case = tuple[str, int, int | None, int]
"""Objective, workers, bytes of flash each, inputs to compare on."""


def search(path: Path) -> None:
    """Print the plans found for equal workers, joined directly or not, at 0.2 ms per message."""
    small: list[Case] = [(objective, 3, 1_500_000, 0) for objective in ("traffic", "time")]
    show(build_architecture_file(path), [*small, *(("time", count, None, 0) for count in range(1, 9))])
    print("through the coordinator alone")
    show(build_architecture_file(path), small, direct=False)


def memory(path: Path) -> None:
    """Print the plans found for the least memory and the highest throughput."""
    cases: list[Case] = [("ram", 3, None, 1), ("ram", 8, None, 1), ("time", 8, 600_000, 1), ("throughput", 3, None, 0)]
    show(build_architecture_file(path), cases)


def show(model: Model, cases: Sequence[Case], direct: bool = True) -> None:
    """Print a row for each plan; ``direct``: workers are joined without the coordinator."""
    print("objective  workers  flash each      moved       time  of one     period   RAM most   flash most")
    for objective, count, flash, verify in cases:
        cluster = devices([600.0] * count, [0.0] * count, direct, 0.2)
        try:
            found = split_model(model, cluster, SplitOptions("auto", objective, max_flash=flash, verify=verify))
        except TfliteFuseError as error:
            print(f"{objective:10} {count:7} {flash or 0:11,}  {error}")
            continue
        print(f"{objective:10} {count:7} {flash or 0:11,} {figures(found)}", flush=True)


def figures(found: Split) -> str:
    """Return the figures of a row."""
    timeline, used = found.timeline, [each for each in found.needs if each.by_phase]
    ram, flash = max(each.ram_bytes for each in used), max(each.flash_bytes for each in used)
    proved = ""
    if found.verified is not None:
        proved = " same bytes as TFLM" if found.verified.bit_exact else " OTHER BYTES THAN TFLM"
    return (
        f"{timeline.payload_bytes:10,} {timeline.seconds * 1000:7.1f} ms {timeline.seconds / found.one_seconds:7.3f} "
        f"{timeline.period * 1000:7.1f} ms {ram:10,} {flash:12,}{proved}"
    )


def boards() -> None:
    """Print the plans of a model of 2.5 MB for three workers of 64 KB of RAM and 1 MB of flash."""
    builder = ModelBuilder(1)
    x = builder.conv(builder.input((1, 40, 40, 3)), 16, 3, 1, "SAME", "RELU6")
    x = builder.conv(builder.depthwise(x, 3, 2, "SAME", "RELU6"), 24, 1, 1, "SAME", "RELU6")
    x = builder.max_pool(builder.conv(x, 24, 3, 2, "SAME", "RELU6"), 2, 2, "VALID", "NONE")
    x = builder.fully_connected(builder.reshape(x, (1, 5 * 5 * 24)), 1650)
    model = builder.build([builder.fully_connected(builder.fully_connected(x, 900), 10)])
    weights = sum(Estimates(network_of(model)).weight_bytes)
    cluster = devices([600.0] * 3, [0.0] * 3, False, 0.2)
    options = SplitOptions(max_ram=64 * 1024, max_flash=1024 * 1024, verify=2)
    print(f"{weights:,} B of weights on three: {figures(split_model(model, cluster, options))}")


def many(path: Path, count: int = 120) -> None:
    """Time the search of a plan for many workers."""
    model = build_architecture_file(path)
    cluster = devices([600.0] * count, [0.0] * count, True, 0.2)
    began = time.monotonic(), time.process_time()
    found = split_model(model, cluster, SplitOptions())
    wall, busy = time.monotonic() - began[0], time.process_time() - began[1]
    print(f"{count} workers: {wall:.1f} s, {busy:.1f} s of a processor; {figures(found)}")


def heterogeneous(path: Path, network: Network, facts: Path) -> None:
    """Print the cases of Table II with the device library's work, all through the coordinator."""
    model, accountant = build_architecture_file(path), Accountant(network)
    ratios = []
    for row in rows_of(facts / "split_inference_table2.csv"):
        mhz = [float(each) for each in row["freq_mhz"].split("/")]
        cluster = devices(mhz, [float(each) for each in row["delay_ms"].split("/")], False)
        seconds = {
            name: split_model(model, cluster, SplitOptions(name)).timeline.seconds
            for name in ("auto", "even", "frequency")
        }
        ratios.append(seconds["auto"] / min(seconds["even"], seconds["frequency"]))
        alone = seconds_alone(network, replace(cluster), accountant)
        columns = ", ".join(f"{name} {each:.3f} s" for name, each in seconds.items())
        print(
            f"case {row['case']}: {columns}; one alone {alone:.3f} s; auto over the better: {ratios[-1]:.3f}",
            flush=True,
        )
    print(f"geometric mean {float(np.exp(np.mean(np.log(ratios)))):.3f}, largest {max(ratios):.3f}")


def main() -> None:
    """Parse arguments and print the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architecture", type=Path)
    parser.add_argument("facts", type=Path)
    parts = ("scheme", "ratings", "scaling", "search", "memory", "heterogeneous", "boards", "many")
    parser.add_argument("--part", choices=parts, nargs="+", default=parts, help="by default all")
    chosen = parser.parse_args()
    if not chosen.facts.is_dir():
        parser.error(f"{chosen.facts} is no folder of published tables")
    try:
        network = network_of(build_architecture_file(chosen.architecture))
    except TfliteFuseError as error:
        parser.error(str(error))
    run: dict[str, Callable[[], None]] = {
        "scheme": lambda: scheme(network),
        "ratings": lambda: ratings(network, chosen.facts),
        "scaling": lambda: scaling(network, chosen.facts),
        "search": lambda: search(chosen.architecture),
        "memory": lambda: memory(chosen.architecture),
        "heterogeneous": lambda: heterogeneous(chosen.architecture, network, chosen.facts),
        "boards": boards,
        "many": lambda: many(chosen.architecture),
    }
    for name in chosen.part:
        print(f"\n== {name}")
        run[name]()


if __name__ == "__main__":
    main()
