"""Rewrites a model to a file and a report: runs the passes, proves the result, runs it, and collects notes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from zlib import crc32

from tflite_fuse.check import Certificate, validate
from tflite_fuse.claim import Claim
from tflite_fuse.emit.in_model import block_overlaps, with_plans
from tflite_fuse.emit.insert_blocks import InsertedBlock
from tflite_fuse.errors import LimitError, VerificationError
from tflite_fuse.memory.arena import Arena
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.checker import plan_fault, why_untouchable
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.memories import Memories
from tflite_fuse.model.operators import labelled, operator_name
from tflite_fuse.model.outside import InputMode, outside_inputs
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.model.witness import set_witness
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.kinds.state import STATE_OPERATOR
from tflite_fuse.passes.base import PassResult, run_passes, witness_of
from tflite_fuse.passes.fusing.fuse import FuseResult
from tflite_fuse.passes.options import FuseOptions, Hop, RewriteOptions
from tflite_fuse.passes.pipeline import make_passes
from tflite_fuse.passes.plan import PlanResult
from tflite_fuse.passes.preparing.constant_channels import Accepts
from tflite_fuse.passes.preparing.dilate import Dilate
from tflite_fuse.report.report import BlockReport, Figures, Proven, Report, StreamReport, Verified
from tflite_fuse.report.wording import sentence, sentences_of
from tflite_fuse.rewriting.figures import arena_in_file, figures, measured_head, memory_report, outside_notes
from tflite_fuse.rewriting.proving import Unproven, UnprovenError, prove
from tflite_fuse.rewriting.quantized import conversion_offer, missing_operators
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.comparison import Comparison, Comparisons, not_compared

if TYPE_CHECKING:
    from tflite_fuse.passes.sliding.stream import Streamed


def rewrite_model(model: Model, data: bytes, options: RewriteOptions) -> tuple[bytes, Report]:
    """Return the file of a rewritten model and the report about it.

    Args:
        model: a model as loaded.
        data: its file.
        options: of the passes and of the comparison; ``advise`` has no effect here.

    Raises: as ``api.rewrite``.
    """
    budget, model = Budget(seconds=options.time_limit), with_plans(model)
    before = figures(model, data, arena_in_file(model, data, options.runtime), options.runtime)
    untouchable = why_untouchable(model)
    if untouchable is not None:
        return _unchanged(model, data, before, options, note("kept", "file", why=untouchable))
    original, repaired = model, Dilate().run(model)
    if repaired.changed:
        # The runtime leaves bytes that the file reads unwritten: compare with the intended model from here on.
        model = repaired.model
    sound = plan_fault(model, block_overlaps(model)) is None
    may_stay = sound and options.stream is None and not InputMode(options.input_mode).streams
    try:
        result = _proven_rewrite(model, options, budget)
        _check_limit(result.after, options)
    except UnprovenError as error:
        return _unchanged(model, data, before, options, note("kept", "file, not proven", why=str(error)))
    except LimitError as error:
        if not may_stay or not _fits(before, options, error):
            raise
        return _unchanged(model, data, before, options, _larger(int(error.reached or 0), before))
    if may_stay and result.after.arena_bytes > before.arena_bytes:
        return _unchanged(model, data, before, options, _larger(result.after.arena_bytes, before))
    files = data if sound and not repaired.changed else serialize_model(remove_plan(model)), result.file
    inputs, seed = options.inputs, crc32(data) if options.seed is None else options.seed
    over = None if result.streamed is None else result.streamed.time
    comparisons = not_compared(options.verify)
    if comparisons is None:
        from tflite_fuse.runtime.comparing.witnesses import run_both

        models = model, result.model
        comparisons = run_both(models, files, bool(options.verify), inputs, seed, result.certificate, over)
    elif options.verify is None and not tflm.built_for_this_machine():
        from tflite_fuse.runtime.comparing.witnesses import blocks_beside_reference

        comparisons = replace(comparisons, notes=blocks_beside_reference(result.model, seed))
    if repaired.changed:
        comparisons = _of_repaired(comparisons, repaired, options.verify)
        if comparisons.why_not and not_compared(options.verify) is None:
            from tflite_fuse.runtime.comparing.witnesses import compare_in_litert

            comparisons = compare_in_litert(comparisons, (original, result.model), (data, result.file), inputs, seed)
    spent = (*_about_arena(result.arena), *_about_budget(budget, options))
    offers = (*conversion_offer(model, result.model), *missing_operators(result.model))
    notes = (*repaired.notes, *result.notes, *outside_notes(result.model), *spent, *comparisons.notes, *offers)
    report = _report(result, before, comparisons, repaired.notes, options.runtime, options.memory)
    return result.file, replace(report, records=notes, reproducible=not budget.braked)


@dataclass(frozen=True)
class _Rewritten:
    """A rewritten model, proven to match the original.

    Attributes:
        model: the rewritten model.
        file: its bytes.
        streamed: the stream that the original was converted to, if requested.
        results: of the passes.
        certificate: of the proof.
        arena: its plan and arena bytes.
        after: its figures.
        unproven: a note for each operator that stays outside of blocks because a block with it was not proven.
    """

    model: Model
    file: bytes
    streamed: Streamed | None
    results: tuple[PassResult, ...]
    certificate: Certificate
    arena: Arena
    after: Figures
    unproven: tuple[Note, ...] = ()

    @property
    def fused(self) -> FuseResult | None:
        return next((result for result in self.results if isinstance(result, FuseResult)), None)

    @property
    def notes(self) -> tuple[Note, ...]:
        streamed = () if self.streamed is None else self.streamed.notes
        return (*self.unproven, *streamed, *(each for result in self.results for each in result.notes))


_MOST_ATTEMPTS = 8
"""Most rewrites of one model, each with more operators outside of blocks than the one before."""


def _proven_rewrite(model: Model, options: FuseOptions, budget: Budget) -> _Rewritten:
    """Run the passes and prove the result; if the proof fails, rewrite with fewer changes.

    The second attempt proves each removal of channels by itself: doing so at once would double the time for every
    model, and few need it. Further attempts keep operators of unproven blocks outside, finally all of them.

    Raises:
        LimitError: the search gave up before all states of a stream were in blocks.
        ModelError: the original cannot be compared.
        UnprovenError: not even a model without blocks can be proven.
    """
    outside = dict[str, Unproven]()
    accepts: Accepts | None = None
    refused: UnprovenError | None = None
    for attempt in range(_MOST_ATTEMPTS):
        try:
            result = _attempt(model, options, budget, accepts, outside)
            return replace(result, unproven=tuple(each.note for each in outside.values()))
        except UnprovenError as error:
            accepts, refused = _are_proven_equal, error
            if attempt:
                more = {each.writes: each for each in error.operators}
                if more.keys() <= outside.keys():
                    break
                outside |= more
        except LimitError as error:
            if refused is None:
                raise
            raise error.followed_by(f" ({refused})") from error
    if options.input_mode is not InputMode.RESIDENT or options.stream is not None:
        raise LimitError(
            f"only blocks read inputs outside the arena and streams, and these blocks could not be proven ({refused}): "
            "please report this sentence together with the model"
        )
    result = _attempt(model, options.without_fusion, budget, accepts, {})
    return replace(result, unproven=(note("limited", "no proof of blocks", why=str(refused)),))


def _are_proven_equal(before: Model, after: Model) -> bool:
    return validate(before, after).proven


def _attempt(
    model: Model, options: FuseOptions, budget: Budget, accepts: Accepts | None, outside: Collection[str]
) -> _Rewritten:
    """Run all passes once, and prove the written file.

    Args:
        model: the model.
        options: of the passes.
        budget: of all searches.
        accepts: whether channels may be left out.
        outside: names of tensors that no block may write.

    Raises:
        LimitError: states of a stream remained outside of blocks.
        UnprovenError: the file is not proven equal to the model.
    """
    streamed = None if options.stream is None else _streamed(model, options.stream)
    intended = model if streamed is None else streamed.model

    def passed(model: Model, *, states: bool) -> tuple[Model, list[PassResult]]:
        def measured(each: Model) -> int | None:
            return measured_head(serialize_model(each))

        measure = measured if options.runtime == DEFAULT_RUNTIME else None
        steps = make_passes(options, measure, budget, states=states, accepts=accepts, outside=outside, original=model)
        rewritten, results = run_passes(model, steps)
        return labelled(set_witness(rewritten, witness_of(results))), results

    rewritten, results = passed(intended, states=True)
    if any(operator_name(rewritten, operator) == f"CUSTOM:{STATE_OPERATOR}" for operator in rewritten.main.operators):
        # The search gave up and left states outside of blocks, where no runtime runs them.
        if streamed is not None:
            raise LimitError("the search for blocks gave up before all states of the stream were in blocks")
        rewritten, results = passed(model, states=False)
    output = serialize_model(rewritten)
    inserted = [
        block for each in results if isinstance(each, FuseResult) and each.chosen for block in each.chosen.blocks
    ]
    certificate = prove(intended, output, rewritten, inserted)
    planned = next((result.arena for result in results if isinstance(result, PlanResult)), None)
    arena = arena_in_file(rewritten, output, options.runtime) if planned is None else planned
    after = figures(rewritten, output, arena, options.runtime)
    return _Rewritten(rewritten, output, streamed, tuple(results), certificate, arena, after)


def _streamed(model: Model, hop: Hop) -> Streamed:
    from tflite_fuse.passes.sliding.stream import to_stream

    return to_stream(model, hop)


def _fits(before: Figures, options: FuseOptions, missed: LimitError) -> bool:
    """Return whether the file as it is keeps the limit on RAM that no rewrite keeps."""
    goal = options.effective_goal
    in_ram = goal.max_ram is not None and missed.limit == goal.max_ram and before.arena_bytes <= goal.max_ram
    return in_ram and (goal.max_compute is None or goal.max_compute >= 1)


def _larger(nbytes: int, before: Figures) -> Note:
    """Return the note that a rewrite needs so many bytes, more than the file."""
    return note("kept", "file, larger otherwise", arena_bytes=nbytes, before_bytes=before.arena_bytes)


def _check_limit(after: Figures, options: FuseOptions) -> None:
    limit = options.effective_goal.max_ram if options.memory is None else options.memory.fast.nbytes
    if limit is not None and after.arena_bytes > limit:
        raise LimitError(
            f"an arena of {limit:,} bytes cannot be reached with the passes {', '.join(options.passes)}: "
            f"the rewritten model needs {after.arena_bytes:,} bytes",
            limit=limit,
            reached=after.arena_bytes,
        )


def _report(
    result: _Rewritten,
    before: Figures,
    comparisons: Comparisons,
    repairs: Sequence[Note],
    runtime: str,
    memories: Memories | None,
) -> Report:
    """Return the report of a rewrite without its notes.

    Args:
        repairs: notes on repairs before the comparison, which limit the proof.
        runtime: the runtime for which the arenas suffice.
        memories: memories of the device, if given.
    """
    fused, after, certificate = result.fused, result.after, result.certificate
    chosen = None if fused is None else fused.chosen
    limits = (*certificate.notes, *sentences_of(repairs))
    return Report(
        before=before,
        after=after,
        estimate_bytes=None if chosen is None else chosen.point.ram_bytes,
        compute_factor=round(after.macs / before.macs, 6) if before.macs else 1.0,
        optimal=_claims(result.results),
        proven=Proven(len(certificate.blocks), certificate.plain, certificate.counts, limits),
        verified=_verified(comparisons.oracle),
        unverified=comparisons.why_not,
        second_witness=_verified(comparisons.second),
        records=(),
        blocks=() if fused is None else tuple(map(_block_report, fused.blocks)),
        outside=outside_inputs(result.model),
        prediction=None if fused is None else fused.prediction,
        stream=None if result.streamed is None else _about_stream(result.streamed, result.model, before, after),
        runtime=runtime,
        memories=None if memories is None else memory_report(result.model, after.arena_bytes, memories),
    )


def _unchanged(model: Model, data: bytes, before: Figures, options: FuseOptions, kept: Note) -> tuple[bytes, Report]:
    """Return the unchanged file and its report.

    Raises:
        LimitError: other inputs or outputs, or less RAM, were requested.
    """
    limit, reason = options.effective_goal.max_ram, sentence(kept)
    limit = limit if options.memory is None else options.memory.fast.nbytes
    if options.input_mode is not InputMode.RESIDENT or options.int8_io or options.stream is not None:
        raise LimitError(f"{reason}; the requested inputs and outputs are not possible")
    if limit is not None and before.arena_bytes > limit:
        raise LimitError(
            f"{reason}; an arena of {limit:,} bytes cannot be reached", limit=limit, reached=before.arena_bytes
        )
    proven = Proven(0, len(model.main.operators), {}, ())
    outside = outside_inputs(model)
    notes = (kept, *conversion_offer(model), *missing_operators(model))
    report = Report(before, before, None, 1.0, {}, proven, None, notes, outside=outside, unchanged=reason)
    return data, replace(report, runtime=options.runtime)


def _of_repaired(comparisons: Comparisons, repaired: PassResult, verify: bool | None) -> Comparisons:
    """Return the comparisons of a repaired model, with which the runs compared the rewrite instead of with the file.

    Raises:
        VerificationError: the file was to be verified.
    """
    why = f"the runtime leaves bytes of the original undefined. {sentence(repaired.notes[0])}"
    if verify:
        raise VerificationError(
            f"it cannot be verified: {why}; nothing was written (without --verify it is proven and written)"
        )
    if comparisons.oracle is None:
        return comparisons
    run = note("run", "stands for", runtime=comparisons.oracle.runtime, inputs=comparisons.oracle.inputs)
    return replace(comparisons, oracle=None, why_not=why, notes=(run, *comparisons.notes))


def _about_stream(streamed: Streamed, rewritten: Model, before: Figures, after: Figures) -> StreamReport:
    state = sum(tensor_nbytes(tensor) for tensor in rewritten.main.tensors if tensor.is_variable)
    return StreamReport(
        hop=streamed.time.hop,
        window=streamed.time.window,
        valid_after=streamed.time.calls,
        state_bytes=state,
        scratch_bytes=after.head_bytes,
        tail_bytes=after.tail_bytes - state,
        macs_of_window=before.macs,
        macs_of_call=after.macs,
    )


def _verified(comparison: Comparison | None) -> Verified | None:
    return (
        None
        if comparison is None
        else Verified(comparison.runtime, comparison.version, comparison.inputs, comparison.bit_exact)
    )


def _claims(results: Sequence[PassResult]) -> dict[str, Claim]:
    """Return the claims by name; the last run of a pass counts, and the order found with blocks is the last order."""
    claims = {result.proves: result.claim for result in results if result.claim is not None}
    for result in results:
        if isinstance(result, FuseResult) and result.chosen is not None and result.chosen.ordered is not None:
            claims["order"] = result.chosen.ordered.claim
    return claims


def _about_arena(arena: Arena) -> Iterator[Note]:
    """Yield a note if loading needs more than head and tail, as with small models."""
    if arena.while_loading > arena.total:
        yield note("expected", "loading", loading_bytes=arena.while_loading, used_bytes=arena.total)


def _about_budget(budget: Budget, options: FuseOptions) -> Iterator[Note]:
    if budget.braked and options.time_limit is not None:
        yield note("limited", "time", seconds=options.time_limit)
    elif budget.is_over():
        yield note("limited", "work")


def _block_report(inserted: InsertedBlock) -> BlockReport:
    choice = inserted.choice
    return BlockReport(
        operators=inserted.labels,
        input=inserted.input,
        output=inserted.output,
        scheme=choice.scheme,
        strip_width=choice.config.tile_width,
        band_height=choice.config.tile_height,
        scratch_bytes=inserted.plan.schedule.scratch_bytes,
        macs=inserted.plan.schedule.macs,
        extra_macs=inserted.extra_macs,
    )
