#!/usr/bin/env python3
"""Compare the plans that `split` finds with all ways through the cuts of small random networks, simulated.

    scripts/bench_split_search.py [--networks 60] [--first 0]

Networks with too many ways are left out. A line for each: the number of ways, the time of the quickest and of the
search's plan, in milliseconds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from random import Random

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.sweep_split import random_network
from tests.split.every_way import every_way, timelines
from tflite_fuse.cost.instructions import Target
from tflite_fuse.split.cut.network import network_of
from tflite_fuse.split.devices import Cluster, Device, Link
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.search.auto import Search
from tflite_fuse.split.splitting import SplitOptions, split_model

MOST_CUTS, MOST_WAYS = 6, 4000


def cluster(rng: Random) -> Cluster:
    """Return 2 to 4 random workers, equal or not, joined directly or by the coordinator."""
    count, speeds = rng.choice([2, 3, 3, 4]), [60.0, 150.0, 600.0]
    link = Link(rng.choice([1000.0, 12_500.0]), rng.choice([0.0, 0.05, 0.2]))
    equal = rng.choice(speeds) if rng.random() < 0.5 else None
    mhz = [equal or rng.choice(speeds) for _ in range(count)]
    workers = tuple(Device(f"w{index}", Target.CORTEX_M7, each, link=link) for index, each in enumerate(mhz))
    direct = rng.random() < 0.6
    pairs = frozenset((a, b) for b in range(count) for a in range(b)) if direct else frozenset()
    return Cluster(workers, Device("computer", Target.GENERIC, 1000.0, link=link), pairs)


def ratio(number: int) -> float | None:
    """Return the time of the search's plan over that of the fastest plan; None where there are too many plans."""
    rng = Random(f"every way {number}")
    model, devices = random_network(rng), cluster(rng)
    network = network_of(model)
    accountant = Accountant(network)
    search = Search(network, devices, accountant, "time")
    paths = every_way(search, MOST_WAYS) if len(search.places) <= MOST_CUTS else None
    if paths is None:
        return None
    quickest = min(each.seconds for each in timelines(search, paths, accountant))
    ours = split_model(model, devices, SplitOptions()).timeline.seconds
    print(
        f"{number}: {len(devices.workers)} workers, {len(paths):,} ways, quickest {quickest * 1000:.3f} ms, "
        f"found {ours * 1000:.3f} ms: {ours / quickest:.3f}",
        flush=True,
    )
    return ours / quickest


def main() -> None:
    """Print a line for each network, then the number and size of misses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=60, help="how many to draw")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    chosen = parser.parse_args()
    numbers = range(chosen.first, chosen.first + chosen.networks)
    ratios = [measured for number in numbers if (measured := ratio(number)) is not None]
    if not ratios:
        print("0 networks: through each there are more ways than can be tried")
        return
    quickest = sum(each < 1.0005 for each in ratios)
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"{len(ratios)} networks, of {quickest} the quickest way found; mean {mean:.4f}, largest {max(ratios):.3f}")


if __name__ == "__main__":
    main()
