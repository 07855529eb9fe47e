#!/usr/bin/env python3
"""Check commit messages: a subject "area: imperative" under 72 characters, no full stop, no path of a machine.

commit_subjects.py [REVISIONS], as for git log; default: everything since the rule was made. Exit code 1 if a message
breaks it. Without git or its history there is nothing to check.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

SINCE = "1b90c773"
"""The last commit before the rule in its present form."""

LONGEST = 71

_FORM = re.compile(r"[a-z0-9_ ./-]+: \S+ \S")
_MACHINE_PATH = re.compile(r"(?:^|[\s'\"(])/(?:home|root|tmp|work|Users|mnt)/")


def complaints(message: str) -> Iterator[str]:
    """Yield the violations of one commit message."""
    subject = message.partition("\n")[0]
    if not _FORM.match(subject):
        yield "a subject without one area and two words"
    if len(subject) > LONGEST:
        yield f"a subject of {len(subject)} characters"
    if subject.endswith("."):
        yield "a full stop at the end"
    if _MACHINE_PATH.search(message):
        yield "a path of a machine"


def messages(revisions: str) -> dict[str, str]:
    """Return the messages of all commits by short name."""
    git = ["git", "-C", str(ROOT), "log", "--format=%h%n%B%x00", revisions]
    done = subprocess.run(git, capture_output=True, text=True)
    if done.returncode:
        print(f"commit_subjects.py: no history of {revisions} here", file=sys.stderr)
    entries = (entry.strip().partition("\n") for entry in done.stdout.split("\0") if entry.strip())
    return {name: message for name, _, message in entries}


def main() -> int:
    """Print the violations; return the exit code."""
    commits = messages(sys.argv[1] if len(sys.argv) > 1 else f"{SINCE}..HEAD")
    lines = [
        f"{name} {what}: {text.partition(chr(10))[0]}" for name, text in commits.items() for what in complaints(text)
    ]
    print(*lines, f"{len(commits)} messages, {len(lines)} complaints", sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
