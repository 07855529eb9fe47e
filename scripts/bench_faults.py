#!/usr/bin/env python3
"""Inferences on 1 to 8 worker processes over TCP under injected faults; prints the outcome of each.

    bench_faults.py --inferences 1000

Every inference has one kind of fault (WORDS of tests/split/cluster/campaign.py), at moments of a seeded generator. It
must end with the bytes of TensorFlow Lite Micro or with an error that names a device. Exit code 1 if one did not.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.bench_split_tcp import worker_program
from tests.split.cluster.campaign import bad, campaign, table

WORKERS = range(1, 9)


def main() -> int:
    """Run all faults; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inferences", type=int, default=1000, help="shared out over 1 to 8 workers")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    ends: Counter[tuple[str, str]] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = worker_program(folder)
        for workers in WORKERS:
            before, after = (arguments.inferences * each // len(WORKERS) for each in (workers - 1, workers))
            ends += asyncio.run(campaign(program, folder, workers, after - before, arguments.seed))
            print(f"{workers} workers: {sum(ends.values())} in {time.monotonic() - began:.0f} s", file=sys.stderr)
    print("\n".join(table(ends)))
    for each in bad(ends):
        print(each)
    return 1 if bad(ends) else 0


if __name__ == "__main__":
    sys.exit(main())
