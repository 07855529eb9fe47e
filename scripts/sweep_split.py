#!/usr/bin/env python3
"""Split models over 1 to 8 workers with every objective, run all fragments and compare with TensorFlow Lite Micro.

    sweep_split.py MODEL.tflite ... [--workers 1,3,8] [--objectives time,ram]
    sweep_split.py --random 200 [--seed 0]

--random draws small networks of every kind of operator that a worker supports, clusters of 1 to 8 unequal workers with
and without direct links, memory limits, strategies and objectives. Exit code 1 if a split computes other bytes, or ends
neither with a split nor with a sentence on the memory that is missing.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.zoo import ModelBuilder, networks
from scripts.zoo.recording import Ref
from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import LimitError
from tflite_fuse.model import Model, load_model
from tflite_fuse.split.devices import Cluster, Device, Link
from tflite_fuse.split.search.auto import OBJECTIVES
from tflite_fuse.split.splitting import STRATEGIES, SplitOptions, split_model

LINK = Link(12_500.0, 0.2)
NAMED = {
    "branching": lambda: networks.branching_network(size=24),
    "big end": lambda: big_end(),
    "cells": lambda: networks.cell_network(size=24),
    "gated": lambda: networks.gated_network(size=24),
    "u": lambda: networks.u_network(size=24),
    "efficient": lambda: networks.efficient_network(),
}
TARGETS = (Target.CORTEX_M7, Target.CORTEX_M4, Target.GENERIC)


def big_end() -> Model:
    """Return a network with most weights in two fully connected layers."""
    builder = ModelBuilder(1)
    x = builder.conv(builder.input((1, 32, 32, 3)), 16, 3, 2, "SAME", "RELU6")
    x = builder.max_pool(builder.conv(x, 24, 3, 2, "SAME", "RELU6"), 2, 2, "VALID", "NONE")
    x = builder.fully_connected(builder.reshape(x, (1, 4 * 4 * 24)), 700)
    return builder.build([builder.fully_connected(x, 100)])


def equal(count: int) -> Cluster:
    """Return Teensy-like workers, each joined to each."""
    workers = tuple(Device(f"w{index}", Target.CORTEX_M7, 600.0, link=LINK) for index in range(count))
    pairs = frozenset((a, b) for b in range(count) for a in range(b))
    return Cluster(workers, Device("computer", Target.GENERIC, 1000.0, link=LINK), pairs)


def unequal(rng: Random) -> Cluster:
    """Return 1 to 8 workers of several speeds, links and amounts of memory."""
    count = rng.randrange(1, 9)
    limited = rng.random() < 0.4
    workers = []
    for index in range(count):
        link = Link(rng.choice([50.0, 1000.0, 12_500.0]), rng.choice([0.0, 0.2, 2.0]), 0.0, rng.choice([0.0, 0.5]))
        ram = rng.choice([None, 12_000, 24_000]) if limited else None
        flash = rng.choice([None, 50_000, 60_000]) if limited else None
        workers.append(Device(f"w{index}", rng.choice(TARGETS), rng.choice([60.0, 150.0, 600.0]), ram, flash, link))
    pairs = frozenset((a, b) for b in range(count) for a in range(b) if rng.random() < 0.6)
    return Cluster(tuple(workers), Device("computer", Target.GENERIC, 1000.0, link=LINK), pairs)


def random_network(rng: Random) -> Model:
    """Return a network of a few layers on a small image, some joined, with one or two outputs."""
    builder = ModelBuilder(rng.randrange(1000))
    tensors: list[Ref] = [builder.input((1, rng.randrange(3, 24), rng.randrange(3, 24), rng.choice([1, 3, 4])))]
    for _ in range(rng.randrange(2, 9)):
        tensors.append(_layer(builder, rng, tensors))
    last = tensors[-1]
    end = rng.random()
    if end < 0.4:
        last = builder.fully_connected(builder.mean(last), rng.randrange(1, 40))
    elif end < 0.6:
        size = last.shape[1] * last.shape[2] * last.shape[3]
        last = builder.fully_connected(builder.reshape(last, (1, size)), rng.randrange(1, 30))
    if end < 0.6 and rng.random() < 0.3:
        last = builder.log_softmax(last)
    outputs = [last]
    if rng.random() < 0.2 and len(tensors) > 3:
        outputs.append(tensors[-2])
    return builder.build(outputs)


def _layer(builder: ModelBuilder, rng: Random, tensors: list[Ref]) -> Ref:
    x = tensors[-1] if rng.random() < 0.8 else rng.choice(tensors)
    stride, padding = rng.choice([1, 1, 2]), rng.choice(["SAME", "SAME", "VALID"])
    kernel = rng.choice([1, 3, 3, (1, 5), 2])
    sides = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    if x.shape[1] < sides[0] or x.shape[2] < sides[1]:
        kernel, padding = 1, "SAME"
    activation = rng.choice(["NONE", "RELU", "RELU6"])
    kind = rng.randrange(8)
    if kind <= 2:
        return builder.conv(x, rng.randrange(1, 20), kernel, stride, padding, activation)
    if kind == 3:
        return builder.depthwise(x, kernel, stride, padding, activation, multiplier=rng.choice([1, 1, 2, 3]))
    if kind == 4:
        pool = rng.choice([builder.max_pool, builder.average_pool])
        return pool(x, kernel, stride, padding, "NONE")
    alike = [each for each in tensors if each.shape == x.shape and each is not x]
    if kind == 5 and alike:
        join = rng.choice([builder.add, builder.mul])
        return join(x, rng.choice(alike))
    if kind == 6:
        beside = [each for each in tensors if each.shape[1:3] == x.shape[1:3]]
        return builder.concat([x, rng.choice(beside)])
    if kind == 7:
        return builder.hard_swish(x) if rng.random() < 0.5 else builder.quantize(builder.logistic(x))
    wide = builder.conv(x, 2 * x.shape[3], 1, 1, "SAME", "RELU6")
    narrow = builder.conv(builder.depthwise(wide, 3, 1, "SAME", "RELU6"), x.shape[3])
    return builder.add(narrow, x)


def cases(chosen: argparse.Namespace) -> Iterator[tuple[str, Model, Cluster, SplitOptions]]:
    """Yield the networks and clusters."""
    if chosen.random:
        for number in range(chosen.first, chosen.first + chosen.random):
            rng = Random(f"{chosen.seed} {number}")
            model, devices = random_network(rng), unequal(rng)
            options = SplitOptions(
                rng.choice(["auto", "auto", "auto", *STRATEGIES[1:]]), rng.choice(OBJECTIVES), verify=2
            )
            limits = any(worker.ram is not None or worker.flash is not None for worker in devices.workers)
            what = f"{number}: {len(devices.workers)} workers, {options.strategy} {options.objective}"
            yield what + (", limits" if limits else ""), model, devices, options
        return
    for name in chosen.models:
        model = NAMED[name]() if name in NAMED else load_model(Path(name))
        for count in map(int, chosen.workers.split(",")):
            for objective in chosen.objectives.split(","):
                yield (
                    f"{Path(name).stem}: {count} workers, {objective}",
                    model,
                    equal(count),
                    SplitOptions("auto", objective, verify=1),
                )


def main() -> int:
    """Split all cases; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"files, or {', '.join(NAMED)}")
    parser.add_argument("--workers", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--objectives", default=",".join(OBJECTIVES))
    parser.add_argument("--random", type=int, default=0, help="how many networks to draw")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    parser.add_argument("--seed", type=int, default=0)
    ends: Counter[str] = Counter()
    for what, model, devices, options in cases(parser.parse_args()):
        began = time.monotonic()
        try:
            found = split_model(model, devices, options)
            assert found.verified is not None
            working = sum(bool(needs.by_phase) for needs in found.needs)
            ram = max((needs.ram_bytes for needs in found.needs if needs.by_phase), default=0)
            end = "same bytes" if found.verified.bit_exact else "OTHER BYTES"
            more = f"{working} work, {found.timeline.payload_bytes:,} B moved, {ram:,} B of RAM"
        except LimitError as error:
            end, more = "does not fit", str(error)
        except Exception:  # a defect, whatever it is
            end, more = "FAILED", traceback.format_exc()
        ends[end] += 1
        print(f"{what}: {end}; {more} ({time.monotonic() - began:.1f} s)", flush=True)
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())))
    return int(any(end.isupper() for end in ends))


if __name__ == "__main__":
    sys.exit(main())
