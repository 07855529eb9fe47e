"""A report as lines of text: five for every reader, the rest for ``--verbose``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME, runtime_named
from tflite_fuse.notes import Note
from tflite_fuse.report.inspection import Inspection
from tflite_fuse.report.int8_code import CODE
from tflite_fuse.report.report import Figures, Report, change
from tflite_fuse.report.wording import grouped, sentences_of


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
    step = f"{_export(target, report.runtime)}{more} (--verbose lists what was done and why)"
    not_run = "" if report.unverified is None else ", NOT RUN" if report.second_witness is None else ", not run in TFLM"
    return (
        f"{target}: {reached}{not_run}",
        _allocate(report.after, report.runtime),
        fit,
        report.claim() if report.unverified is None else f"UNVERIFIED: {report.unverified}; {report.claim()}",
        f"next: {_quantize(report.records) or step}",
    )


def inspection_headline(
    found: Inspection, rewritten: Report | None, typed: str, arena: int | None, fit: str, *, fits: bool = True
) -> tuple[str, ...]:
    """Return five lines: RAM now and after a rewrite, RAM to allocate, boards, what was checked, the next step.

    Args:
        found: in a model as it is.
        rewritten: report of the rewrite that was tried; None where none was possible.
        typed: its options.
        arena: bytes that must be allocated after it; None where it saves nothing.
        fit: clause about boards.
        fits: whether the board that was named has the RAM and the flash.
    """
    now = found.figures.arena_bytes
    saved = " bytes; a rewrite saves nothing"
    step, checked = _export(found.model, found.runtime), "nothing was rewritten, nothing was run"
    if rewritten is None:
        saved = " bytes; a rewrite is not possible"
    elif arena is not None:
        saved = f" -> {arena:,} bytes ({change(now, arena)}) by a rewrite"
        step = f"tflite-fuse rewrite {found.model} small.tflite {typed}".rstrip()
        checked = f"the rewrite: {rewritten.claim()}"
    if not fits:
        step = "a smaller model, or a board with more memory: `tflite-fuse boards` lists them"
    refused = next((note for note in found.records if note.reason == "runtime refuses"), None)
    return (
        f"{found.model}: arena {now:,}{saved}",
        _allocate(found.figures, found.runtime),
        fit,
        checked if refused is None else f"{sentences_of((refused,))[0]}; {checked}",
        f"next: {_quantize(found.records) or f'{step} (--verbose lists operators, reasons and notes)'}",
    )


def _quantize(records: Sequence[Note]) -> str:
    """The next step of a model that is not of int8; empty for all others."""
    found = next((note for note in records if note.reason == "full int8"), None)
    if found is None:
        return ""
    return f"quantize the {found.details['kind']} model to int8 (--verbose prints the lines of Python that do it)"


def int8_lines(records: Sequence[Note]) -> Iterator[str]:
    """Yield the code that quantizes a Keras model, where a note offers that."""
    if _quantize(records):
        yield "- to quantize the model it was converted from, with typical inputs as its representative data set:"
        yield from (f"    {line}".rstrip() for line in CODE.splitlines())


def _export(model: str, runtime: str) -> str:
    return f"tflite-fuse export {model} project --format {'esp-idf' if runtime.startswith('esp32') else 'arduino'}"


def _allocate(figures: Figures, runtime: str) -> str:
    other = " (--runtime names another)" if runtime == DEFAULT_RUNTIME else ""
    return (
        f"allocate a tensor arena of {figures.arena_bytes:,} bytes for {runtime_named(runtime)}{other}; "
        f"the model takes {figures.file_bytes:,} bytes of flash"
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
    yield from int8_lines(report.records)
