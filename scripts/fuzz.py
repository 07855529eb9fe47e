#!/usr/bin/env python3
"""Fuzz the package for as long as asked, on from where the last run stopped, and count.

    fuzz.py --seconds 60                       every fuzzer, the seconds shared out
    fuzz.py inspect executor32 --seconds 600   some of them
    fuzz.py --report                           the table of all counts so far

Fuzzers: inspect and rewrite (damaged files, 2 s and 1 GB each), executor64 and executor32 (damaged blocks through the C
library, sanitized), kill and interrupt (rewrite and export ended at random moments). Exit code 1 if a defect showed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.fuzzing import counts, executor, kills, reader
from scripts.fuzzing.bounded import Budget, Case, run_cases

Run = Callable[[int, float], tuple[int, Counter[str], list[str]]]
"""(first case, seconds) → (next case, outcomes, what must not be)."""

_CHUNK = 200


def _files(case: Case) -> Run:
    def run(first: int, seconds: float) -> tuple[int, Counter[str], list[str]]:
        end, outcomes, bad = time.monotonic() + seconds, Counter[str](), list[str]()
        while time.monotonic() < end:
            for outcome in run_cases(case, range(first, first + _CHUNK), Budget()):
                outcomes[outcome.word] += 1
                first = outcome.number + 1
                if outcome.bad:
                    bad.append(f"case {outcome.number}: {outcome.word} {outcome.detail}")
                if time.monotonic() >= end:
                    break
        return first, outcomes, bad

    return run


def _executor(bits: int) -> Run:
    def run(first: int, seconds: float) -> tuple[int, Counter[str], list[str]]:
        done, why = executor.run(bits, first, max(1, int(seconds)))
        if why.startswith("not run"):
            print(f"executor{bits}: {why}", file=sys.stderr)
            return first, Counter(), [why] if os.environ.get("TFLITE_FUSE_NO_SKIPS") else []
        return first + 1, Counter({"report": 1} if why else {"silent": done}), [why] if why else []

    return run


def _deaths(death: signal.Signals) -> Run:
    def run(first: int, seconds: float) -> tuple[int, Counter[str], list[str]]:
        end, outcomes, bad = time.monotonic() + seconds, Counter[str](), list[str]()
        while time.monotonic() < end:
            kind = ("rewrite", "export")[first % 2]
            word = kills.case(kind, first, death)
            outcomes[f"{kind}: {word}"] += 1
            if word.startswith("bad"):
                bad.append(f"case {first}: {kind}: {word}")
            first += 1
        return first, outcomes, bad

    return run


FUZZERS: dict[str, Run] = {
    "inspect": _files(reader.INSPECT),
    "rewrite": _files(reader.REWRITE),
    "executor64": _executor(64),
    "executor32": _executor(32),
    "kill": _deaths(signal.SIGKILL),
    "interrupt": _deaths(signal.SIGINT),
}


def main() -> int:
    """Run what is asked for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="FUZZER", help=", ".join(FUZZERS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for all together")
    parser.add_argument("--first", type=int, help="number of the first case, instead of going on; nothing is kept")
    parser.add_argument("--report", action="store_true", help="print the counts so far")
    wanted = parser.parse_args()
    if wanted.report:
        print(counts.report())
        return 0
    unknown = set(wanted.names) - FUZZERS.keys()
    if unknown:
        parser.error(f"there is no fuzzer {sorted(unknown)[0]}; there are {', '.join(FUZZERS)}")
    names, defects = wanted.names or list(FUZZERS), 0
    for name in names:
        first = wanted.first if wanted.first is not None else counts.load().get(name, {}).get("next", 0)
        following, outcomes, bad = FUZZERS[name](first, wanted.seconds / len(names))
        print(f"{name}: cases {first:,} to {following - 1:,}: {dict(sorted(outcomes.items()))}", flush=True)
        for each in bad:
            print(f"  {each}", flush=True)
        defects += len(bad)
        if wanted.first is None and outcomes:
            counts.add(name, following, outcomes)
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
