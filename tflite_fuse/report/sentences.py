"""A report as lines of text: five for every reader, the rest for ``--verbose``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME, runtime_named
from tflite_fuse.notes import Note
from tflite_fuse.report.inspection import Inspection
from tflite_fuse.report.int8_code import CODE
from tflite_fuse.report.report import Figures, Report, change
from tflite_fuse.report.wording import grouped, sentences_of

WORTHWHILE = 0.95
"""Share of the current arena below which an option or plain C is mentioned."""

MOVED_IN_VAIN = "moved input"
"""Reason of the note on inputs outside the arena that save none of it."""


def headline(report: Report, target: str, fit: str, plain_bytes: int | None = None) -> tuple[str, ...]:
    """Return five lines: RAM before and after, RAM to allocate, boards that have it, the checks, the next step.

    Args:
        report: of a rewrite.
        target: path of the written model.
        fit: clause about boards or the limit, such as ``fits nano33ble``.
        plain_bytes: of the arena in plain C; None if the model needs TensorFlow Lite Micro.
    """
    before, after = report.before.arena_bytes, report.after.arena_bytes
    reached = f"arena {before:,} -> {after:,} bytes ({change(before, after)})"
    if report.unchanged is not None:
        reached = f"unchanged, arena {after:,} bytes; {report.unchanged}"
    step = _export(target, report.runtime)
    if plain_bytes is not None and plain_bytes < WORTHWHILE * report.after.arena_bytes:
        step += f", or --format c, which needs {plain_bytes:,} bytes without TensorFlow Lite Micro"
    costly = [f"; less RAM: {each}" for each in sentences_of(_of(MOVED_IN_VAIN, report.records))]
    if report.advice and not costly:
        step += f"; less RAM: {report.advice[0]}"
    not_run = "" if report.unverified is None else ", NOT RUN" if report.second_witness is None else ", not run in TFLM"
    return (
        f"{target}: {reached}{not_run}",
        _allocate(report.after, report.runtime) + ("" if report.memories is None else f"; {report.memories}"),
        fit,
        report.claim() if report.unverified is None else f"UNVERIFIED: {report.unverified}; {report.claim()}",
        "".join([_next(report.records, step, "what was done and why"), *costly]),
    )


def inspection_headline(
    inspection: Inspection,
    tried: tuple[Report | None, int | None] | None,
    typed: str,
    fit: str,
    *,
    fits: bool | None = None,
    inputs: str = "",
) -> tuple[str, ...]:
    """Return five lines: RAM before and after a rewrite, RAM to allocate, boards, the checks, the next step.

    Args:
        inspection: of the model.
        tried: (report of a trial rewrite, None if it was impossible; bytes to allocate after it, None if it saves
            nothing). None if no rewrite was tried.
        typed: its options.
        fit: clause about boards.
        fits: whether the named board has the RAM and the flash; None if none is named.
        inputs: clause about inputs that fill most of the rewritten model's head; empty if they do not.
    """
    arena_bytes, records = inspection.figures.arena_bytes, inspection.records
    step, checked = (
        f"tflite-fuse rewrite {inspection.model} small.tflite {typed}".rstrip(),
        "nothing was rewritten, nothing was run",
    )
    if tried is None:
        saved = " bytes; no rewrite was tried"
    elif tried[0] is None:
        saved, step = " bytes; a rewrite is not possible", _export(inspection.model, inspection.runtime)
    elif tried[1] is None:
        checked = "a rewrite was tried, nothing was run"
        saved, step = " bytes; a rewrite saves nothing", _export(inspection.model, inspection.runtime)
        records = records if fits is False else (*records, *_of("own operators", tried[0].records))
        if fits:
            saved = " bytes; it fits as it is, and no rewrite is predicted to be faster"
            step += f"; to look for less RAM: tflite-fuse rewrite {inspection.model} small.tflite"
    else:
        saved = f" -> {tried[1]:,} bytes ({change(arena_bytes, tried[1])}) by a rewrite"
        checked = f"the rewrite: {tried[0].claim()}"
        step += f"; less RAM: {inputs}" if inputs else ""
    if fits is False and tried is not None:
        step = "a smaller model, or a board with more memory: `tflite-fuse boards` lists them"
    refused = sentences_of(_of("runtime refuses", inspection.records))
    return (
        f"{inspection.model}: arena {arena_bytes:,}{saved}",
        _allocate(inspection.figures, inspection.runtime),
        fit,
        "; ".join([*refused[:1], checked]),
        _next(records, step, "operators, reasons and notes"),
    )


def _of(reason: str, records: Sequence[Note]) -> list[Note]:
    return [note for note in records if note.reason == reason]


def _next(records: Sequence[Note], step: str, lists: str) -> str:
    """Return the line of the next step: a better conversion, and the step as it is where TFLM runs the model."""
    offers = {note.reason: note.details for note in records if note.fate == "offered"}
    lines = "(--verbose prints the lines of Python that do it)"
    if "fixed batch" in offers:
        return f"next: convert the model anew with a batch of 1, so that no layer is a loop of TensorFlow's own {lines}"
    if "pruning stripped" in offers:
        return "next: convert the model anew without the wrappers of pruning (tfmot.sparsity.keras.strip_pruning)"
    if "other operators" in offers:
        names = offers["other operators"]["names"]
        return f"next: convert the model anew without {names}, which TensorFlow Lite Micro lacks"
    if "own operators" in offers:
        step = f"a program of yours that registers {offers['own operators']['names']}, as no export does"
    if "full int8" not in offers:
        return f"next: {step} (--verbose lists {lists})"
    kind = offers["full int8"]["kind"]
    as_it_is = f"as it is: {step}" if kind == "float32" else f"TensorFlow Lite Micro runs no {kind} one"
    return f"next: quantize the {kind} model to int8 {lines}; {as_it_is}"


def int8_lines(records: Sequence[Note]) -> Iterator[str]:
    """Yield the code that quantizes a Keras model of a batch of 1 if a note offers it."""
    if any(note.reason in ("full int8", "fixed batch") for note in records):
        yield "- to quantize the source model to int8, with typical inputs as its representative data set:"
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
    """Yield the notes, the claims of optimality, and advice."""
    yield from (f"- {each}" for each in grouped(report.records))
    yield from (f"- {name} {claim}" for name, claim in report.optimal.items())
    if report.estimate_bytes is not None:
        yield f"- the search for blocks estimated {report.estimate_bytes:,} B"
    if report.stream is not None:
        yield f"- {report.stream}"
    yield from (f"- advice: {line}" for line in report.advice)
    yield from int8_lines(report.records)
