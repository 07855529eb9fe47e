#!/usr/bin/env python3
"""Fuzz the package for a given time, continuing where the last run stopped, and count the cases.

    fuzz.py --seconds 60                       every fuzzer, in equal shares of the time
    fuzz.py inspect executor32 --seconds 600   some of them
    fuzz.py --goals --seconds 6000             in turns, those with fewer cases than their goal
    fuzz.py --report                           the table of all counts so far

Fuzzers: inspect and rewrite (damaged files, 2 s and 1 GB each), guided (the same by coverage, with atheris),
differential (random models and options, both models run), executor64, executor32 and executor32_registers (damaged
blocks through the C library, sanitized; the last with the larger workspaces of RISC-V), executor64_dsp and
executor64_mve (the same with the kernels of Cortex-M4 and M7, and of Helium, their instructions emulated), worker64 and
worker32 (damaged fragments through its worker), link (damaged streams of messages through its parser), serial (any
bytes on a serial line), kill and interrupt (rewrite and export ended at random moments).

Exit code 1 if a defect was found.
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

from scripts.fuzzing import counts, differential, executor, guided, kills, link, reader, serial, worker
from scripts.fuzzing.bounded import Budget, Case, run_cases

Run = Callable[[int, float], tuple[int, Counter[str], list[str]]]
"""(first case, seconds) → (next case, outcomes, what must not be)."""

_CHUNK = 2000
_TURN = 150.0
"""Seconds until another fuzzer has its turn, and the counts are written down."""


def _cases(case: Case, budget: Budget) -> Run:
    def run(first: int, seconds: float) -> tuple[int, Counter[str], list[str]]:
        end, outcomes, bad = time.monotonic() + seconds, Counter[str](), list[str]()
        while time.monotonic() < end:
            for outcome in run_cases(case, range(first, first + _CHUNK), budget):
                outcomes[outcome.word] += 1
                first = outcome.number + 1
                if outcome.bad:
                    bad.append(f"case {outcome.number}: {outcome.word} {outcome.detail}")
                if time.monotonic() >= end:
                    break
        return first, outcomes, bad

    return run


def _driven(name: str, drive: Callable[[int, int], tuple[int, str]], optional: bool = False) -> Run:
    def run(first: int, seconds: float) -> tuple[int, Counter[str], list[str]]:
        done, why = drive(first, max(1, int(seconds)))
        if why.startswith("not run"):
            print(f"{name}: {why}", file=sys.stderr)
            missing = os.environ.get("TFLITE_FUSE_NO_SKIPS") and not optional
            return first, Counter(), [why] if missing else []
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


_TARGETS = (*executor.TARGETS, link.TARGET, serial.TARGET, *worker.TARGETS)

FUZZERS: dict[str, Run] = {
    "inspect": _cases(reader.INSPECT, Budget()),
    "rewrite": _cases(reader.REWRITE, Budget()),
    "guided": _driven("guided", guided.run, optional=True),
    "differential": _cases(differential.DIFFERENTIAL, Budget(60.0, 2 << 30)),
    **{target.name: _driven(target.name, target.run) for target in _TARGETS},
    "kill": _deaths(signal.SIGKILL),
    "interrupt": _deaths(signal.SIGINT),
}


def _once(name: str, seconds: float, first: int | None) -> list[str]:
    """Run one fuzzer for so many seconds; return the defects. ``first`` says where to begin."""
    start = first if first is not None else counts.load().get(name, {}).get("next", 0)
    following, outcomes, bad = FUZZERS[name](start, seconds)
    print(f"{name}: cases {start:,} to {following - 1:,}: {dict(sorted(outcomes.items()))}", flush=True)
    for each in bad:
        print(f"  {each}", flush=True)
    if first is None and outcomes:
        counts.add(name, following, outcomes)
    return bad


def _in_turns(names: list[str], seconds: float) -> list[str]:
    """Run those short of their goal one after the other, until none is or the time is over."""
    end, bad, unable = time.monotonic() + seconds, list[str](), set[str]()
    while time.monotonic() < end:
        short = [name for name in names if counts.missing(name) and name not in unable]
        if not short:
            break
        for name in short:
            before = counts.missing(name)
            bad += _once(name, min(_TURN, max(1.0, end - time.monotonic())), None)
            if counts.missing(name) == before:
                unable.add(name)
    return bad


def main() -> int:
    """Run the requested fuzzers; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="FUZZER", help=", ".join(FUZZERS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for all together")
    parser.add_argument("--first", type=int, help="number of the first case, instead of going on; nothing is kept")
    parser.add_argument("--goals", action="store_true", help="end where every fuzzer has had its number of cases")
    parser.add_argument("--report", action="store_true", help="print the counts so far")
    arguments = parser.parse_args()
    if arguments.report:
        print(counts.report())
        return 0
    unknown = set(arguments.names) - FUZZERS.keys()
    if unknown:
        parser.error(f"there is no fuzzer {sorted(unknown)[0]}; there are {', '.join(FUZZERS)}")
    names, bad = arguments.names or list(FUZZERS), list[str]()
    if arguments.goals:
        bad = _in_turns(names, arguments.seconds)
    else:
        for name in names:
            bad += _once(name, arguments.seconds / len(names), arguments.first)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
