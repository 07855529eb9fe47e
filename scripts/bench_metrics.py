#!/usr/bin/env python3
"""Error and time of the estimates of ``tflite_fuse.metrics`` against rewrites: bench_metrics.py MODEL ..."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import tflite_fuse

NAMES = ("arena_bytes", "macs", "instructions", "file_bytes")


def main(paths: list[str]) -> None:
    """Print one row per model, then the mean and the largest error of each number."""
    print("| model | operators | CPU s | " + " | ".join(NAMES) + " |\n|---|---:|---:|" + "---:|" * len(NAMES))
    off: dict[str, list[float]] = {name: [] for name in NAMES}
    for path in map(Path, paths):
        data = path.read_bytes()
        tflite_fuse.metrics(data)
        start = time.process_time()
        estimate = tflite_fuse.metrics(data)
        seconds = time.process_time() - start
        exact = tflite_fuse.metrics(data, effort="exact")
        shares = {name: estimate[name] / exact[name] - 1 if exact[name] else 0.0 for name in NAMES}
        for name, share in shares.items():
            off[name].append(abs(share))
        row = " | ".join(f"{share:+.1%}" for share in shares.values())
        print(f"| {path.stem} | {estimate['before_operators']:.0f} | {seconds:.2f} | {row} |", flush=True)
    for name, shares in off.items():
        print(f"{name}: {statistics.mean(shares):.1%} off on average, {max(shares):.1%} at most, {len(shares)} models")


if __name__ == "__main__":
    main(sys.argv[1:])
