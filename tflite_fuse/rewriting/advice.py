"""Advice on other options of ``rewrite``: their arenas, computed by the same passes, neither proven nor run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tflite_fuse.emit.outside import inputs_to_move
from tflite_fuse.errors import BudgetError, LimitError
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.checker import why_untouchable
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.notes import Note, note
from tflite_fuse.passes.base import run_passes
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.int8_borders import Int8Borders
from tflite_fuse.passes.options import FuseOptions, RewriteOptions
from tflite_fuse.passes.pipeline import make_passes
from tflite_fuse.passes.preparing.by_columns import by_columns
from tflite_fuse.passes.preparing.fold_constants import FoldConstants
from tflite_fuse.report.report import Report
from tflite_fuse.report.sentences import MOVED_IN_VAIN, WORTHWHILE
from tflite_fuse.rewriting.figures import arena_in_file, memory_table
from tflite_fuse.rewriting.rewrite import rewrite_model

MOST_OPERATORS = 250
"""Most operators of a model whose options are tried, constant ones aside: larger ones take too long."""

_MOSTLY = 0.75
"""Least share of the head that inputs fill where advice mentions them."""


@dataclass(frozen=True)
class Offer:
    """An option of ``rewrite`` as typed, and the arena in bytes with it."""

    option: str
    arena_bytes: int


def rewrite_with_advice(model: Model, data: bytes, options: RewriteOptions) -> tuple[bytes, Report]:
    """Return ``rewrite_model``'s result with advice in the report.

    Raises:
        LimitError: a limit is out of reach; the message names options that would reach it.
        Other errors: as ``rewrite_model``.
    """
    try:
        output, report = rewrite_model(model, data, options)
    except LimitError as error:
        raise error.followed_by(_clause_of_option(error, model, options)) from error
    records = (*report.records, *_about_moving(model, options, report))
    return output, replace(report, advice=advice(model, load_model(output), options, report), records=records)


def advice(model: Model, rewritten: Model, options: FuseOptions, report: Report) -> tuple[str, ...]:
    """Return at most three sentences about a rewrite, each with figures of this run.

    Args:
        model: the original.
        rewritten: the rewritten model.
        options: of the rewrite.
        report: about it.
    """
    if why_untouchable(model) is not None or options.stream is not None:
        return ()
    inputs = _about_inputs if _is_tried(model) else _about_untried_inputs
    return (*inputs(model, rewritten, options, report), *_about_operators(rewritten, report))[:3]


def about_inputs(model: Model, report: Report) -> str:
    """Return a clause with the options that move inputs, if these fill most of a rewritten head; else an empty one.

    No option is tried.

    Args:
        model: the original.
        report: about the rewrite.
    """
    if why_untouchable(model) is not None:
        return ""
    return next(iter(_about_untried_inputs(model, model, FuseOptions(runtime=report.runtime), report)), "")


def _clause_of_option(missed: LimitError, model: Model, options: FuseOptions) -> str:
    """Return a clause on the option that keeps the limits, or comes nearest to a missed one on RAM; empty without one.

    Only goals with a limit on RAM have one.
    """
    limit = options.effective_goal.max_ram
    if limit is None or options.stream is not None or options.memory is not None or why_untouchable(model) is not None:
        return ""
    if not _is_tried(model):
        kept, untried = _input_bytes(model), _untried(model, options)
        return f"; inputs alone take {kept:,} bytes: try {untried}" if untried and kept > limit else ""
    option = next(iter(_offers(model, options)), None)
    if option is not None:
        return f"; {option.option} would: {option.arena_bytes:,} bytes"
    if missed.limit != limit:
        return ""
    least = replace(options, goal=Goal(least_ram=True))
    nearest = min(_offers(model, least), key=lambda each: each.arena_bytes, default=None)
    return "" if nearest is None else f"; nor with {nearest.option}, which needs {nearest.arena_bytes:,} bytes at least"


def _is_tried(model: Model) -> bool:
    """Return whether a model is small enough to be rewritten with other options."""
    return len(FoldConstants().run(model).model.main.operators) <= MOST_OPERATORS


def _untried(model: Model, options: FuseOptions) -> str:
    """Return the options that need one change of the application, as typed; empty without one."""
    return " or ".join(typed for typed, keywords in changes(model, options) if len(keywords) == 1)


def _input_bytes(model: Model) -> int:
    return sum(tensor_nbytes(model.main.tensors[tensor]) for tensor in model.main.inputs)


def changes(model: Model, options: FuseOptions) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield options that need a change of the application, as typed and by keyword; those without effect are left out.

    Those of the least change come first, then two together.
    """
    bare = Int8Borders().run(model)
    can_quantize = bare.changed and not options.int8_io
    can_move = options.input_mode is InputMode.RESIDENT and "fuse" in options.passes
    if can_quantize:
        yield "--int8-io", {"int8_io": True}
    for mode in _modes(bare.model if options.int8_io else model) if can_move else ():
        yield f"--input {mode}", {"input_mode": mode}
    for mode in _modes(bare.model) if can_move and can_quantize else ():
        yield f"--int8-io --input {mode}", {"int8_io": True, "input_mode": mode}


def _modes(model: Model) -> Iterator[str]:
    """Yield the first mode in which inputs can leave the arena, and by columns if the model can be walked like that."""
    folded = FoldConstants().run(model).model
    for mode in (InputMode.STREAMED, InputMode.EXTERNAL):
        with suppress(LimitError):
            inputs_to_move(folded, mode)
            yield mode.value
            if by_columns(model).changed:
                yield InputMode.COLUMNS.value
            return


def _offers(model: Model, options: FuseOptions, *, together: bool = True) -> Iterator[Offer]:
    """Yield the arena with each change of the application that is possible, alone or also two together."""
    for typed, keywords in changes(model, options):
        if together or len(keywords) == 1:
            yield from _offer(typed, model, replace(options, **keywords))


def _offer(option: str, model: Model, options: FuseOptions) -> Iterator[Offer]:
    try:
        changed, _ = run_passes(model, make_passes(options, None, Budget()))
    except (LimitError, BudgetError):
        return
    yield Offer(option, arena_in_file(changed, serialize_model(changed), options.runtime).needed)


def _about_moving(model: Model, options: FuseOptions, report: Report) -> Iterator[Note]:
    """Yield a note if inputs outside the arena save none of it.

    In the arena a block's output may overlap its input, and a streamed input needs line buffers, or a copy.
    """
    stays = options.input_mode is InputMode.RESIDENT
    if stays or options.stream is not None or not _is_tried(model) or why_untouchable(model) is not None:
        return
    for resident in _offer("--input resident", model, replace(options, input_mode=InputMode.RESIDENT)):
        if resident.arena_bytes <= report.after.arena_bytes:
            mode = InputMode(options.input_mode).value
            yield note("warned", MOVED_IN_VAIN, mode=mode, resident_bytes=resident.arena_bytes)


def _about_inputs(model: Model, rewritten: Model, options: FuseOptions, report: Report) -> Iterator[str]:
    """Yield a sentence with the arena of each option that is worth a change of the application."""
    offers = _offers(model, options, together=False)
    useful = [each for each in offers if each.arena_bytes < WORTHWHILE * report.after.arena_bytes]
    if useful:
        share = "".join(f"{each}; " for each in _share_of_inputs(rewritten, report))
        yield share + "; ".join(f"with {each.option}: {each.arena_bytes:,} B" for each in useful)


def _about_untried_inputs(model: Model, rewritten: Model, options: FuseOptions, report: Report) -> Iterator[str]:
    """Yield a sentence with the options of a model that is too large to try them, if inputs fill most of its head."""
    if untried := _untried(model, options):
        yield from (f"{share}: try {untried}" for share in _share_of_inputs(rewritten, report))


def _share_of_inputs(rewritten: Model, report: Report) -> Iterator[str]:
    """Yield a clause about the share of the head that inputs fill, if that is most of it."""
    kept, head = _input_bytes(rewritten), report.after.head_bytes
    if kept and kept >= _MOSTLY * head:
        yield f"{kept:,} B of the head of {head:,} B are the input"


def _about_operators(rewritten: Model, report: Report) -> Iterator[str]:
    """Yield sentences about operators outside blocks with the largest working set."""
    rows = [row for row in memory_table(rewritten)[0] if row.blocked is not None]
    most = max((row.working_set_bytes for row in rows), default=0)
    if most < WORTHWHILE * report.after.head_bytes:
        return
    kinds: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.working_set_bytes >= WORTHWHILE * most:
            kind = row.name.rpartition("_")[0], row.blocked or ""
            kinds[kind] = kinds.get(kind, 0) + 1
    for (name, why), count in list(kinds.items())[:2]:
        holds = "holds" if count == 1 else "hold"
        yield f"{count} {name} in no block {holds} {most:,} B: {why}"
