"""The fusion pass: search the front of blocks, pick the point the user asked for, replace operators by blocks.

The fusion pass with some operators as others that blocks hold; those that stay outside of blocks as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tflite_fuse.cost.estimate.shapes import Shapes
from tflite_fuse.cost.instructions import Prediction, prediction_error
from tflite_fuse.emit.in_model import KnownBlocks, block_overlaps, blocks_in
from tflite_fuse.emit.insert_blocks import BlockMaker, InsertedBlock, Plans
from tflite_fuse.emit.outside import inputs_to_move, lowerings_for
from tflite_fuse.errors import BudgetError, LimitError
from tflite_fuse.ir.block import WeightForm
from tflite_fuse.ir.memory_graph import FUSED_OPERATOR
from tflite_fuse.memory.arena import Arena, realise
from tflite_fuse.memory.budget import Budget
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.lowering.extract import flash_of_16_bits, with_weights
from tflite_fuse.ops.lowering.lower import Lowerings
from tflite_fuse.ops.lowering.operands import tensor_name
from tflite_fuse.passes.base import PassResult
from tflite_fuse.passes.fusing.candidate import Candidate, Site
from tflite_fuse.passes.fusing.choose import NEAR, Chooser, with_first_blocks_joined
from tflite_fuse.passes.fusing.fusion_claim import fusion_claim
from tflite_fuse.passes.fusing.orders import OrderedModel, orders_at_hand
from tflite_fuse.passes.fusing.speed import Speed
from tflite_fuse.passes.goal import NOTHING_RECOMPUTED, Goal
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.passes.preparing.spell_out import spell_out
from tflite_fuse.passes.reorder import Reorder, ReorderResult
from tflite_fuse.search.cut_graph import longest_block
from tflite_fuse.search.from_model import graph_from_model
from tflite_fuse.search.front import Front, Point
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front

NOTHING_SPECIAL = FuseOptions()

ROOMY = 4
"""Under a limit on RAM smaller ones are tried, too, that hold what is made unasked: so many parts of it, one by one."""


@dataclass(frozen=True)
class FuseResult(PassResult):
    """What fusion did: the blocks in execution order, the point they are, the whole front.

    ``prediction`` is what the blocks are expected to take where instructions were counted, ``ordered`` how the
    operators were put in order with the blocks in.
    """

    blocks: tuple[InsertedBlock, ...] = ()
    point: Point | None = None
    front: Front | None = None
    prediction: Prediction | None = None
    ordered: ReorderResult | None = None


@dataclass(frozen=True)
class Start:
    """One order of operators, the front of its blocks, and why inputs stay in the arena that were to leave it."""

    ordered: OrderedModel
    site: Site
    options: SearchOptions
    front: Front
    why_not: tuple[Note, ...]


@dataclass(frozen=True)
class Fused:
    """The candidate that meets the goal in one order of operators."""

    start: Start
    chosen: Candidate


@dataclass(frozen=True)
class Fuse:
    """Replace operators by fused blocks.

    Attributes:
        options: how.
        budget: what orders and placements take their work from; None for one of its own for each placement, and orders
            searched to the end.
        known: where the plans of blocks are noted down, for those who ask for them later.
        outside: names of tensors; operators that write one of them are in no block.
    """

    options: FuseOptions = NOTHING_SPECIAL
    budget: Budget | None = None
    known: KnownBlocks | None = field(default=None, compare=False)
    outside: frozenset[str] = frozenset()

    name: ClassVar[str] = "fuse"

    def run(self, model: Model) -> FuseResult:
        """Fuse a model.

        Raises:
            LimitError: the goal cannot be reached, with the nearest point and the operator that blocks it; or no input
                can leave the arena, with the reason.
            ModelError: an arena tensor has a dynamic shape or elements without a size.
        """
        try:
            starts = self.starts(model)
        except BudgetError as error:
            if self.options.input_mode is not InputMode.RESIDENT:
                raise
            return FuseResult(model, False, (note("not fused", "budget", why=str(error)),))
        goal = self.options.goal
        answer = asked_for(starts, goal)
        best, speed, chosen = answer.best, answer.speed, answer.chosen
        start = best.start
        claim = fusion_claim(start.site, chosen, self.options)
        notes = (*_about_orders(best, answer.tried), *_done(start.ordered.model, chosen), *start.why_not)
        point = replace(chosen.point, blocks=tuple(block.choice for block in chosen.blocks))
        notes = (*notes, *start.front.explain(point, goal.max_ram), *_limited(len(start.site.graph.layers)))
        if not chosen.point.blocks:
            before, order = start.ordered.model, start.site.order
            before = model if before.main.operators == model.main.operators else before
            ordered = None if order is None else order.run(before)
            after = before if ordered is None else ordered.model
            return FuseResult(
                after, after is not model, notes, claim, "fusion", (), chosen.point, start.front, ordered=ordered
            )
        expected = _prediction(start.site, chosen)
        notes += (_expectation(expected), *_faster(speed.faster_with_more(best.chosen, chosen), chosen))
        notes += () if chosen.ordered is None else chosen.ordered.notes
        notes += tuple(_about_weights(start.site, chosen, self.options.weights))
        model, point = start.site.maker.finish(chosen.draft), chosen.point
        if self.known is not None:
            self.known.update(start.site.maker.known)
        return FuseResult(
            model, True, notes, claim, "fusion", chosen.blocks, point, start.front, expected, chosen.ordered
        )

    def starts(self, model: Model) -> tuple[Start, ...]:
        """What every order of operators at hand leads to.

        Raises:
            LimitError: no block of the scheme can read an input that is to leave the arena, in any order.
            BudgetError: the model is too large to be searched.
        """
        found: list[Start] = []
        refused: LimitError | None = None
        plans: Plans = {}
        known = KnownBlocks() if self.known is None else self.known
        blocks_in(model, known)
        reorder = Reorder(self.budget, self.options.in_place, tuning=self.options.tuning)
        for ordered in orders_at_hand(model, reorder if "reorder" in self.options.passes else None):
            try:
                found.append(self._start(ordered, known, plans))
            except LimitError as error:
                refused = refused or error
        if refused is not None and not found:
            raise refused
        return tuple(found)

    def _start(self, ordered: OrderedModel, known: KnownBlocks, plans: Plans) -> Start:
        options, model = self.options, ordered.model
        lowered = with_weights(lowerings_for(model, options.input_mode, ordered.lowered), options.weights)
        lowered = _without(model, lowered, self.outside)
        known = KnownBlocks(known)  # drafts of one order mean nothing in another
        moved, why_not = inputs_to_move(model, options.input_mode, lowered)
        searched, maker = options.search(moved), BlockMaker(model, options.input_mode, moved, known, lowered, plans)
        graph = graph_from_model(model, lowered, maker.macs)
        shapes = Shapes(searched.chunks)
        front = fusion_front(graph, searched, shapes)

        def arena(draft: Model) -> Arena:
            overlaps = block_overlaps(draft, known) if options.shares else ()
            return realise(draft, overlaps, options.arena(), self.budget)

        order = (
            Reorder(self.budget, options.in_place, arena=arena, tuning=options.tuning)
            if "reorder" in options.passes
            else None
        )
        site = Site(graph, maker, options.count_tail, arena, order, options.counted, options.target, shapes)
        return Start(ordered, site, searched, front, why_not)


def _without(model: Model, lowerings: Lowerings, outside: frozenset[str]) -> Lowerings:
    """The lowerings, of operators that write one of some tensors the reason why they are in no block."""
    if not outside:
        return lowerings
    graph = model.main
    writes = [outside & {tensor_name(model, tensor) for tensor in op.outputs or ()} for op in graph.operators]
    return tuple(
        "its block could not be proven" if names else each for names, each in zip(writes, lowerings, strict=True)
    )


def tried(starts: Sequence[Start], goal: Goal) -> list[Fused]:
    """What meets a goal in each order, those whose fronts promise clearly more than the best needs left out.

    Raises:
        LimitError: nothing does, in any order; of the order that promises the least.
    """
    found: list[Fused] = []
    refused: LimitError | None = None
    for start in sorted(starts, key=lambda start: _promise(start.front, goal)):
        enough = min((each.chosen.arena for each in found), default=None)
        if enough is None or _promise(start.front, goal) <= enough + enough // NEAR:
            try:
                found.append(Fused(start, Chooser(goal, start.site, start.options).choose(start.front)))
            except LimitError as error:
                refused = refused or error
    if refused is not None and not found:
        raise refused
    return found


@dataclass(frozen=True)
class _Answer:
    """What meets a goal.

    Attributes:
        tried: in each order that was worth it.
        best: the best of them.
        speed: what looked for fewer instructions than its.
        chosen: what it found.
    """

    tried: Sequence[Fused]
    best: Fused
    speed: Speed
    chosen: Candidate


def asked_for(starts: Sequence[Start], goal: Goal) -> _Answer:
    """What meets a goal; what is made unasked where that meets it, too, and is the better deal.

    Of many points that take about as few instructions a search under a roomy limit places only some, and another one
    may save a few bytes at the price of much time.

    Raises:
        LimitError: nothing meets the goal.
    """
    found = _answered(starts, goal)
    if not found.chosen.blocks or goal == NOTHING_RECOMPUTED:
        return found
    try:
        others = [_answered(starts, NOTHING_RECOMPUTED)]
    except LimitError:
        return found
    if goal.max_ram is not None and goal.max_compute is None:
        parts = (goal.max_ram * part // ROOMY for part in range(1, ROOMY))
        others += [_answered(starts, Goal(max_ram=limit)) for limit in parts if limit >= others[0].chosen.arena]
    for other in others:
        if _is_better(other.chosen, found.chosen, other.best.start.site, goal):
            found = other
    return found


def _answered(starts: Sequence[Start], goal: Goal) -> _Answer:
    fused = tried(starts, goal)
    best = min(fused, key=lambda each: _merit(each.chosen, goal))
    site, options = best.start.site, best.start.options
    speed = Speed(goal, site, options)
    chosen = speed.answer(best.chosen)
    joined = with_first_blocks_joined(site, options, best.chosen) if goal.max_ram is None else best.chosen
    if joined.arena < min(best.chosen.arena, chosen.arena):
        chosen = speed.better([chosen, speed.answer(joined)], joined)
    return _Answer(fused, best, speed, chosen)


def _is_better(unasked: Candidate, found: Candidate, site: Site, goal: Goal) -> bool:
    """Whether what is made unasked keeps the limits of a goal, and is worth more than what was found for it.

    Where the least RAM is wanted it counts first. Under a limit on compute a hundredth of RAM pays for fewer
    instructions; under one on RAM alone a hundredth of the instructions for less RAM, if no more is computed: as little
    is to be computed twice as it allows.
    """
    if goal.max_ram is not None and unasked.arena > goal.max_ram:
        return False
    if goal.max_compute is not None and unasked.compute > goal.max_compute * site.unfused_compute:
        return False
    if goal.wants_every_byte:
        return (unasked.arena, unasked.instructions) < (found.arena, found.instructions)
    if goal.max_compute is not None:
        smaller = goal.max_ram is None and goal.longest(unasked.arena, site.share) < found.arena
        slight = unasked.arena <= found.arena * (1 + NOTHING_RECOMPUTED.worth_ram)
        return smaller or (slight and unasked.instructions < found.instructions)
    if unasked.compute > found.compute:
        return False
    enough = min(unasked.instructions, found.instructions) / (1 - NOTHING_RECOMPUTED.worth_ram)
    fast = [each for each in (found, unasked) if each.instructions <= enough]
    return min(fast, key=lambda each: (each.arena, each.instructions)) is unasked


def _promise(front: Front, goal: Goal) -> int:
    """The arena a front expects for a goal, the limit on RAM aside."""
    limit = goal.compute_limit
    allowed = [point for point in front.points if limit is None or point.work <= limit * front.unfused.work]
    return min(point.ram_bytes for point in allowed or front.points)


def _merit(candidate: Candidate, goal: Goal) -> tuple[int, int]:
    """What counts of a candidate that meets the goal, and what decides where that is equal."""
    needs = candidate.arena, candidate.compute
    return needs if goal.max_ram is None else (needs[1], needs[0])


def _about_orders(best: Fused, fused: Sequence[Fused]) -> Iterator[Note]:
    yield from best.start.ordered.notes
    others = {each.start.ordered.name: each.chosen.arena for each in fused if each is not best}
    if others:
        name, needed = best.start.ordered.name, best.chosen.arena
        yield note("expected", "arena by order", order=name, arena_bytes=needed, others=others)


def _prediction(site: Site, chosen: Candidate) -> Prediction:
    return Prediction(site.core.value, chosen.instructions, sum(site.alone), prediction_error(site.core))


def _limited(layers: int) -> Iterator[Note]:
    longest = longest_block(layers)
    if longest < layers:
        yield note("limited", "longest block", count=layers, longest=longest)


def _expectation(expected: Prediction) -> Note:
    return note(
        "expected",
        "instructions",
        instructions=expected.instructions,
        target=expected.target,
        factor=expected.factor,
        error=str(expected.error),
    )


def _about_weights(site: Site, chosen: Candidate, form: WeightForm) -> Iterator[Note]:
    if form is WeightForm.SIXTEEN:
        more = flash_of_16_bits(plan.block for plan in site.maker.plans_of(chosen.draft))
        yield note("expected", "16-bit weights", flash_bytes=more)


def _faster(found: Candidate | None, chosen: Candidate) -> Iterator[Note]:
    if found is not None:
        saved = 1 - found.instructions / chosen.instructions
        more = found.arena - chosen.arena
        yield note("offered", "more RAM", more_bytes=more, saved=saved, max_ram_bytes=found.arena)


def _done(model: Model, chosen: Candidate) -> Iterator[Note]:
    for block in chosen.blocks:
        config = block.choice.config
        recomputes = block.choice.scheme != "line-buffers" and block.extra_macs != 0
        tiled = "tiles" if block.choice.scheme == "tiles" else "strips"
        yield note(
            "fused",
            tiled if recomputes else "line buffers",
            *(operator_label(model, index) for index in block.choice.operators),
            tile_height=config.tile_height,
            tile_width=config.tile_width,
            scratch_bytes=block.plan.schedule.scratch_bytes,
            extra_macs=block.extra_macs,
        )


MOST_TRIED = 2
"""Searches with operators spelled out: behind the first without those that it left outside of blocks."""


@dataclass(frozen=True)
class FuseSpelled:
    """``Fuse``, which also sees CONCATENATIONs along rows and convolutions of groups as what blocks can do.

    Attributes:
        fuse: the pass.
    """

    fuse: Fuse

    name: ClassVar[str] = "fuse"

    def run(self, model: Model) -> FuseResult:
        """Fuse a model. Raises: as ``Fuse.run``."""
        kept: set[int] = set()
        for _ in range(MOST_TRIED):
            spelled = spell_out(model, kept)
            if not spelled.made:
                break
            try:
                result = self.fuse.run(spelled.model)
            except LimitError:
                break
            outside = {index for index, names in spelled.made.items() if _is_outside(result.model, names)}
            if not outside:
                return replace(result, notes=(*spelled.notes, *result.notes))
            kept |= outside
        return self.fuse.run(model)


def _is_outside(model: Model, names: Collection[str]) -> bool:
    """Whether an operator that is no block writes one of some tensors."""
    plain = (op for op in model.main.operators if operator_name(model, op) != FUSED_OPERATOR)
    return any(model.main.tensors[tensor].name in names for op in plain for tensor in op.outputs or ())
