"""What the fuzzers have counted so far: kept beside them, so that each goes on where it stopped."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tflite_fuse.files import write_atomically

FILE = Path(__file__).with_name("counts.json")


def load() -> dict[str, Any]:
    """Name of each fuzzer → ``next``, the number of its next case, and ``outcomes``, how often each came."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def add(name: str, following: int, outcomes: Counter[str]) -> None:
    """Add a run's outcomes; ``following`` is the number of the next case."""
    counts = load()
    total = Counter(counts.get(name, {}).get("outcomes", {})) + outcomes
    counts[name] = {"next": following, "outcomes": dict(sorted(total.items()))}
    write_atomically((json.dumps(counts, indent=1, sort_keys=True) + "\n").encode(), FILE)


def report() -> str:
    """The table of all counts, as Markdown."""
    lines = ["| fuzzer | cases | outcomes |", "|---|---:|---|"]
    for name, found in sorted(load().items()):
        outcomes = found["outcomes"]
        words = ", ".join(f"{word} {number:,}" for word, number in outcomes.items())
        lines.append(f"| {name} | {sum(outcomes.values()):,} | {words} |")
    return "\n".join(lines)
