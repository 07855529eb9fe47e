"""Counts of the fuzzers so far, stored in a file, so each continues where it stopped."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tflite_fuse.files import write_atomically

FILE = Path(__file__).with_name("counts.json")

GOALS = {
    "inspect": 100_000,
    "rewrite": 5_000,
    "guided": 100_000,
    "differential": 1_000,
    "executor64": 5_000_000,
    "executor32": 5_000_000,
    "executor32_registers": 1_000_000,
    "executor64_dsp": 1_000_000,
    "executor64_mve": 1_000_000,
    "link": 1_000_000,
    "serial": 1_000_000,
    "worker64": 1_000_000,
    "worker32": 1_000_000,
    "kill": 500,
    "interrupt": 200,
}
"""Cases each fuzzer must have had at least once."""


def load() -> dict[str, Any]:
    """Return for each fuzzer ``next``, the number of its next case, and ``outcomes``, counts by outcome."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def add(name: str, following: int, outcomes: Counter[str]) -> None:
    """Add the outcomes of a run; ``following`` is the number of the next case."""
    counts = load()
    total = Counter(counts.get(name, {}).get("outcomes", {})) + outcomes
    counts[name] = {"next": following, "outcomes": dict(sorted(total.items()))}
    write_atomically((json.dumps(counts, indent=1, sort_keys=True) + "\n").encode(), FILE)


def missing(name: str) -> int:
    """Return the number of cases that a fuzzer lacks to its promised count."""
    return max(0, GOALS[name] - sum(load().get(name, {}).get("outcomes", {}).values()))


def report() -> str:
    """Return the table of all counts as Markdown."""
    lines = ["| fuzzer | cases | of | outcomes |", "|---|---:|---:|---|"]
    for name, kinds in sorted(load().items()):
        outcomes = kinds["outcomes"]
        words = ", ".join(f"{word} {number:,}" for word, number in outcomes.items())
        lines.append(f"| {name} | {sum(outcomes.values()):,} | {GOALS[name]:,} | {words} |")
    return "\n".join(lines)
