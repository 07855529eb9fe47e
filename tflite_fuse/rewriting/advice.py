"""Advice on other options of ``rewrite``: their arenas, computed by the same passes, neither proven nor run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tflite_fuse.emit.outside import inputs_to_move
from tflite_fuse.errors import BudgetError, LimitError
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.checker import why_untouchable
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.passes.base import run_passes
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.int8_borders import Int8Borders
from tflite_fuse.passes.options import FuseOptions, RewriteOptions
from tflite_fuse.passes.pipeline import make_passes
from tflite_fuse.passes.preparing.by_columns import by_columns
from tflite_fuse.passes.preparing.fold_constants import FoldConstants
from tflite_fuse.report.report import Report
from tflite_fuse.report.sentences import WORTHWHILE
from tflite_fuse.rewriting.figures import arena_in_file, memory_table
from tflite_fuse.rewriting.rewrite import rewrite_model

MOST_OPERATORS = 120
"""Most operators of a model with advice, constant ones aside: larger ones take too long."""

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
        raise error.followed_by(clause_of_option(model, options)) from error
    return output, replace(report, advice=advice(model, load_model(output), options, report))


def advice(model: Model, rewritten: Model, options: FuseOptions, report: Report) -> tuple[str, ...]:
    """Return at most three sentences about a rewrite, each with figures of this run.

    Args:
        model: the original.
        rewritten: the rewritten model.
        options: of the rewrite.
        report: about it.
    """
    if not _has_advice(model) or options.stream is not None:
        return ()
    useful = [each for each in offers(model, options) if each.arena_bytes < WORTHWHILE * report.after.arena_bytes]
    sentences = (*_about_moving(model, options, report), *_about_inputs(rewritten, report, useful))
    return (*sentences, *_about_operators(rewritten, report))[:3]


def clause_of_option(model: Model, options: FuseOptions) -> str:
    """Return a clause on the option that keeps a refused limit on RAM, or comes nearest; empty if there is none."""
    limit = options.effective_goal.max_ram
    if limit is None or options.stream is not None or options.memory is not None or not _has_advice(model):
        return ""
    option = next(iter(_options_alone_and_together(model, options)), None)
    if option is not None:
        return f"; {option.option} would: {option.arena_bytes:,} bytes"
    least = replace(options, goal=Goal(least_ram=True))
    nearest = min(_options_alone_and_together(model, least), key=lambda each: each.arena_bytes, default=None)
    return "" if nearest is None else f"; nor with {nearest.option}, which needs {nearest.arena_bytes:,} bytes at least"


def _has_advice(model: Model) -> bool:
    return len(FoldConstants().run(model).model.main.operators) <= MOST_OPERATORS and why_untouchable(model) is None


def _options_alone_and_together(model: Model, options: FuseOptions) -> Iterator[Offer]:
    """Yield the arena with each option, and with two of them together."""
    yield from offers(model, options)
    both = replace(options, int8_io=True, input_mode=InputMode.STREAMED)
    one = options.input_mode is InputMode.RESIDENT and not options.int8_io and "fuse" in options.passes
    if one and Int8Borders().run(model).changed:
        yield from _offer("--int8-io --input streamed", model, both)


def offers(model: Model, options: FuseOptions) -> Iterator[Offer]:
    """Yield options that need a change of the application, with their arenas; options without effect are left out."""
    bare = Int8Borders().run(model)
    if bare.changed and not options.int8_io:
        yield from _offer("--int8-io", model, replace(options, int8_io=True))
    if options.input_mode is not InputMode.RESIDENT or "fuse" not in options.passes:
        return
    folded = FoldConstants().run(bare.model if options.int8_io else model).model
    for mode in (InputMode.STREAMED, InputMode.EXTERNAL):
        try:
            inputs_to_move(folded, mode)
        except LimitError:
            continue
        moved = list(_offer(f"--input {mode.value}", model, replace(options, input_mode=mode)))
        yield from moved
        if moved and by_columns(model).changed:
            yield from _offer("--input columns", model, replace(options, input_mode=InputMode.COLUMNS))
        if moved:
            return


def _offer(option: str, model: Model, options: FuseOptions) -> Iterator[Offer]:
    try:
        changed, _ = run_passes(model, make_passes(options, None, Budget()))
    except (LimitError, BudgetError):
        return
    yield Offer(option, arena_in_file(changed, serialize_model(changed), options.runtime).needed)


def _about_moving(model: Model, options: FuseOptions, report: Report) -> Iterator[str]:
    """Yield a sentence if inputs outside the arena save none of it.

    In the arena a block's output may overlap its input, and a streamed input needs line buffers.
    """
    if options.input_mode is InputMode.RESIDENT:
        return
    for resident in _offer("--input resident", model, replace(options, input_mode=InputMode.RESIDENT)):
        if resident.arena_bytes <= report.after.arena_bytes:
            mode = InputMode(options.input_mode).value
            yield f"--input {mode} saves nothing: {resident.option} needs {resident.arena_bytes:,} B"


def _about_inputs(rewritten: Model, report: Report, useful: Sequence[Offer]) -> Iterator[str]:
    if not useful:
        return
    kept = sum(tensor_nbytes(rewritten.main.tensors[tensor]) for tensor in rewritten.main.inputs)
    options = "; ".join(f"with {each.option}: {each.arena_bytes:,} B" for each in useful)
    if kept and kept >= _MOSTLY * report.after.head_bytes:
        yield f"{kept:,} B of the head of {report.after.head_bytes:,} B are the input; {options}"
    else:
        yield options


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
