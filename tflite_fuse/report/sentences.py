"""A report as lines of text around its table."""

from __future__ import annotations

from collections.abc import Iterator

from tflite_fuse.report.report import Report
from tflite_fuse.report.wording import grouped


def heading(report: Report) -> Iterator[str]:
    """What must not be overlooked."""
    if report.unverified is not None:
        yield f"UNVERIFIED: {report.unverified}"


def sentences(report: Report, target: str) -> Iterator[str]:
    """What was done and why not, what is claimed, and the verdict.

    Args:
        report: of a rewrite.
        target: where its model was written.
    """
    yield from (f"- {note}" for note in grouped(report.records))
    yield from (f"- {name} {claim}" for name, claim in report.optimal.items())
    if report.estimate_bytes is not None:
        yield f"- the search for blocks estimated {report.estimate_bytes:,} B"
    if report.stream is not None:
        yield f"- {report.stream}"
    yield from (f"- advice: {line}" for line in report.advice)
    before, after = report.before.arena_bytes, report.after.arena_bytes
    yield f"{target}: arena {before:,} -> {after:,} bytes; {report.claim()}"
