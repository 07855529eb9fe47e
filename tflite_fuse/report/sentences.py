"""A report as lines of text: five for every reader, the rest for ``--verbose``."""

from __future__ import annotations

from collections.abc import Iterator

from tflite_fuse.report.report import Report, change
from tflite_fuse.report.wording import grouped


def headline(report: Report, target: str, fit: str) -> tuple[str, ...]:
    """Return five lines: RAM before and after, RAM to allocate, boards that have it, what was checked, the next step.

    Args:
        report: of a rewrite.
        target: path of the written model.
        fit: clause about boards or the limit, such as ``fits nano33ble``.
    """
    before, after = report.before.arena_bytes, report.after.arena_bytes
    reached = f"arena {before:,} -> {after:,} bytes ({change(before, after)})"
    if report.unchanged is not None:
        reached = f"unchanged, arena {after:,} bytes; {report.unchanged}"
    more = f"; less RAM: {report.advice[0]}" if report.advice else ""
    return (
        f"{target}: {reached}",
        f"allocate a tensor arena of {report.allocate_bytes:,} bytes; the model takes {report.after.file_bytes:,} "
        "bytes of flash",
        fit,
        report.claim() if report.unverified is None else f"UNVERIFIED: {report.unverified}; {report.claim()}",
        f"next: tflite-fuse export {target} project --format arduino{more} (--verbose lists what was done and why)",
    )


def details(report: Report) -> Iterator[str]:
    """Yield what was done at each site and the reasons, what is proven to be the least, and advice."""
    yield from (f"- {each}" for each in grouped(report.records))
    yield from (f"- {name} {claim}" for name, claim in report.optimal.items())
    if report.estimate_bytes is not None:
        yield f"- the search for blocks estimated {report.estimate_bytes:,} B"
    if report.stream is not None:
        yield f"- {report.stream}"
    yield from (f"- advice: {line}" for line in report.advice)
