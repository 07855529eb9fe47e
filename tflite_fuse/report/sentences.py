"""A report as lines of text around its table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tflite_fuse.report.report import Report

_SITE = re.compile(r"^(?P<first>\S+?)_(?P<from>\d+)(?: to \S+_(?P<to>\d+))? (?P<fate>not fused|kept): (?P<why>.+)$")
_TENSOR = re.compile(r"\btensor \S+")
_ORDER = ("order of operators kept", "operators reordered")


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
    yield from (f"- {note}" for note in grouped(report.notes))
    yield from (f"- {name} {claim}" for name, claim in report.optimal.items())
    if report.estimate_bytes is not None:
        yield f"- the search for blocks estimated {report.estimate_bytes:,} B"
    if report.stream is not None:
        yield f"- {report.stream}"
    yield from (f"- advice: {line}" for line in report.advice)
    before, after = report.before.arena_bytes, report.after.arena_bytes
    yield f"{target}: arena {before:,} -> {after:,} bytes; {report.claim()}"


def grouped(notes: Sequence[str]) -> tuple[str, ...]:
    """Notes with those of one reason as one, ``31 PRELU not fused: ...``, and the order of operators told once."""
    sites: dict[tuple[str, str], list[re.Match[str]]] = {}
    for note in notes:
        if (site := _SITE.match(note)) is not None:
            sites.setdefault(_reason(site), []).append(site)
    order = [note for note in notes if note.startswith(_ORDER)][-1:]
    told: list[str] = []
    for note in notes:
        site = _SITE.match(note)
        if site is None:
            told += [note] * (not note.startswith(_ORDER) or note in order)
            continue
        alike = sites.pop(_reason(site), [])
        if len(alike) == 1:
            told.append(note)
        elif alike:
            told.append(_together(alike))
    return tuple(dict.fromkeys(told))


def unnamed(why: str) -> str:
    """A reason without its tensor's name: what sites have in common that are told of together."""
    return _TENSOR.sub("a tensor", why)


def _reason(site: re.Match[str]) -> tuple[str, str]:
    return site["fate"], unnamed(site["why"])


def _together(sites: Sequence[re.Match[str]]) -> str:
    kinds: Counter[str] = Counter()
    for site in sites:
        count = 1 if site["to"] is None else int(site["to"]) - int(site["from"]) + 1
        kinds[site["first"] if count == 1 else "operators in a row"] += count
    what = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    fate, why = _reason(sites[0])
    return f"{what} {fate}: {why}"
