#!/usr/bin/env python3
"""Streaming models before and after: bench_streams.py [MODEL ...] [--target NAME] [--json] [--write].

Models with variables (default: microWakeWord's of ``shared/real`` beside the project) run the same time steps before
and after the rewrite in TensorFlow Lite Micro on this machine, steps that make their outputs vary, with a reset in the
middle: every byte of every step is compared, and the rings' content with the variables. Without MODEL, models over
windows are converted to streams, too, and compared with the original on every window. Models of only blocks are counted
on emulated microcontrollers: instructions of a step. Exit codes: 0 done, 1 outputs differ, 2 bad usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console

from scripts.mains import chosen_targets, in_one_sentence
from scripts.readme import write_part
from scripts.streams import variables, windows

ROOT = Path(__file__).resolve().parents[1]
REAL = ROOT.parent / "shared" / "real"
CORES = ("cortex-m4", "cortex-m7", "rv32imc", "xtensa-lx106")


@in_one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="a .tflite file that keeps variables")
    parser.add_argument("--steps", type=int, default=1000, help="steps to compare (default 1000)")
    parser.add_argument("--windows", type=int, default=500, help="windows to compare (default 500)")
    cores = f"a core to count on, or none (default {', '.join(CORES)})"
    parser.add_argument("--target", action="append", metavar="NAME", help=cores)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="replace the tables in docs/streaming.md")
    options = parser.parse_args(arguments)
    names = [name for name in options.target or CORES if name != "none"]
    targets = chosen_targets(names) if names else []
    paths = options.models or sorted(REAL.glob("microwakeword*.tflite"))
    kept = [variables.measure(path, targets, max(options.steps, 2)) for path in paths]
    cases = [] if options.models else windows.cases()
    slid = [windows.measure(*case, targets, max(options.windows, 2)) for case in cases]
    if options.json:
        results = {"variables": [asdict(each) for each in kept], "windows": [asdict(each) for each in slid]}
        print(json.dumps(results, indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 200)
        console.print(variables.as_table(kept, targets))
        if slid:
            console.print(windows.as_table(slid, targets))
    if options.write and slid:
        page, steps = ROOT / "docs" / "streaming.md", {each.model: each.instructions for each in kept}
        write_part("streams", f"{windows.as_markdown(slid)}\n", page)
        if targets:
            write_part("stream-counts", f"{windows.counts_as_markdown(slid, steps)}\n", page)
    return 1 if any(each.different for each in kept) or any(each.different for each in slid) else 0


if __name__ == "__main__":
    sys.exit(main())
