"""The fuse pass: search the front of blocks, select the point for the goal, replace operators by blocks.

``FuseSpelled`` also tries operators in forms that blocks support; operators that remain outside of blocks keep their
form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import ClassVar

from tflite_fuse.cost.instructions import (
    LONGEST,
    Core,
    Cycles,
    PredictedCycles,
    Prediction,
    in_instructions,
    prediction_error,
)
from tflite_fuse.emit.in_model import program_overlaps, with_plans
from tflite_fuse.emit.insert_blocks import BlockMaker, InsertedBlock
from tflite_fuse.emit.outside import copies_of, inputs_to_move, lowerings_for, with_copies
from tflite_fuse.errors import BudgetError, LimitError
from tflite_fuse.ir.block import WeightForm
from tflite_fuse.ir.program import Program
from tflite_fuse.memory.arena import Arena, realise
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import prune, replace_operators
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.lowering.extract import flash_of_16_bits, with_weights
from tflite_fuse.ops.lowering.in_pieces import whole_and_in_pieces
from tflite_fuse.ops.lowering.lower import Lowerings
from tflite_fuse.ops.lowering.operands import tensor_name
from tflite_fuse.passes.base import PassResult
from tflite_fuse.passes.fusing.candidate import Candidate, Form, Site, Work
from tflite_fuse.passes.fusing.explore import NotReachedError, faster_with_more, solve, written_outside
from tflite_fuse.passes.fusing.fusion_claim import fusion_claim
from tflite_fuse.passes.fusing.in_memories import solve_in_memories
from tflite_fuse.passes.fusing.orders import candidate_orders
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.passes.preparing.by_columns import arriving_by_columns, by_columns
from tflite_fuse.passes.preparing.spell_out import pool_by_axes, spell_out
from tflite_fuse.passes.reorder import Reorder
from tflite_fuse.search.cut_graph import longest_block
from tflite_fuse.search.from_model import graph_from_model
from tflite_fuse.search.schemes import Scheme

DEFAULT_OPTIONS = FuseOptions()


@dataclass(frozen=True)
class FuseResult(PassResult):
    """Result of fusion.

    Attributes:
        prediction: predicted cost of the model with blocks; None without.
        chosen: the candidate selected; None without a search.
    """

    prediction: Prediction | None = None
    chosen: Candidate | None = None

    @property
    def blocks(self) -> tuple[InsertedBlock, ...]:
        """Return the blocks in execution order."""
        return () if self.chosen is None else self.chosen.blocks


@dataclass(frozen=True)
class Fuse:
    """Replace operators by fused blocks.

    Attributes:
        options: options of the rewrite.
        budget: work of orders and placements; None for a default budget for each placement, and orders searched to the
            end.
        outside: names of tensors; operators that write them are in no block.
        original: the file's model, to whose work limits on compute are relative; None for the fused one.
    """

    options: FuseOptions = DEFAULT_OPTIONS
    budget: Budget | None = None
    outside: frozenset[str] = frozenset()
    original: Model | None = None

    name: ClassVar[str] = "fuse"

    def run(self, model: Model) -> FuseResult:
        """Fuse a model.

        Raises:
            LimitError: the goal cannot be reached; the message has the nearest point and the limiting operator. Or no
                input can leave the arena; the message has the reason.
            ModelError: an arena tensor has a dynamic shape or elements without a size.
        """
        try:
            first = self.site(model)
        except BudgetError as error:
            if self.options.input_mode is not InputMode.RESIDENT:
                raise
            return FuseResult(model, False, (note("not fused", "budget", why=str(error)),))
        memories, goal = self.options.memory, self.options.effective_goal
        chosen = solve(first, goal) if memories is None else solve_in_memories(first, memories, goal)
        site, claim = chosen.site, None if chosen.program.slow else fusion_claim(chosen, self.options)
        point = replace(chosen.point, blocks=tuple(block.choice for block in chosen.blocks))
        notes = (*site.notes, *_block_notes(chosen), *site.front.explain(point), *_limited(len(site.graph.steps)))
        if not chosen.blocks:
            after, ordered = site.maker.model, chosen.ordered
            after = model if after.main.operators == model.main.operators else after
            if ordered is not None and ordered.changed:
                after = replace_operators(remove_plan(after), ordered.program.origin[1].operators)
            if chosen.program.absent:  # tensors without use, which take RAM
                after = prune(remove_plan(after))
            return FuseResult(after, after is not model, notes, claim, "fusion", None, chosen)
        alike = site.maker.model.main.operators == first.maker.model.main.operators
        expected = _prediction(first if alike else site, chosen)
        notes += (_expectation(expected), *_faster(site, chosen))
        notes += () if chosen.ordered is None else chosen.ordered.notes
        notes += tuple(_about_weights(chosen, WeightForm(self.options.weights)))
        model = site.maker.emit(chosen.program, chosen.blocks)
        return FuseResult(model, True, notes, claim, "fusion", expected, chosen, witness=site.witness)

    def site(self, model: Model) -> Site:
        """Return a model with the front of its blocks, and its other forms.

        Raises:
            LimitError: no block of the scheme can read or copy an input that should leave the arena, in any order.
            BudgetError: the model is too large to be searched.
        """
        forms, errors = list(self._forms(model)), list[LimitError]()
        for place, form in enumerate(forms, 1):
            try:
                site = self._with_forms(form)
            except BudgetError:
                raise
            except LimitError as error:
                errors.append(error)
                continue
            site.forms.extend(_form(partial(self._with_forms, each, site)) for each in forms[place:])
            return site
        no_map = LimitError("no input can arrive by columns: none is a map of rows and columns that blocks read")
        raise next(iter(errors), no_map)

    def _forms(self, model: Model) -> Iterator[PassResult]:
        """Yield forms of a model that blocks may need less memory for: by columns, pools over each axis."""
        walked = [PassResult(model, False)]
        if self.options.input_mode is InputMode.COLUMNS:
            walked = list(arriving_by_columns(model))
        elif self.options.scheme is Scheme.AUTO and (turned := by_columns(model)).changed:
            walked.append(turned)
        for each in walked:
            yield each
            pooled = pool_by_axes(each.model, self.outside)
            if pooled.changed and self.options.memory is None:
                yield replace(each, model=pooled.model, notes=(*each.notes, *pooled.notes))

    def _with_forms(self, form: PassResult, first: Site | None = None) -> Site:
        """Return the site of a form; its other forms read flat inputs in pieces, or copies of streamed inputs."""
        model, auto, mode = form.model, self.options.scheme is Scheme.AUTO, InputMode(self.options.input_mode)
        copies = auto and mode.streams
        try:
            site = self._site(form, first)
        except LimitError as error:
            copied = with_copies(model, ()) if copies and not isinstance(error, BudgetError) else None
            if copied is None:
                raise
            form, copies = replace(form, model=copied), False
            site = self._site(form, first)
        graph, moved = site.graph, site.maker.moved
        if auto and len(whole_and_in_pieces(site.maker.model, site.maker.lowerings, mode)) > 1:
            site.forms.append(_form(partial(self._site, form, first or site, pieces=True)))
        copied = with_copies(site.maker.model, moved) if copies else None
        if copied is not None:  # strips may read a copy twice, and its readers need not be in one block
            tail = graph.tail.fixed if self.options.count_tail else 0
            least = tail + min(graph.sizes[tensor] for tensor in moved)
            site.forms.append(_form(partial(self._site, replace(form, model=copied), first or site), least))
        return site

    def _site(self, form: PassResult, first: Site | None, pieces: bool = False) -> Site:
        """Return a form with its first front; flat inputs are read in ``pieces`` or whole. Raises LimitError."""
        options, mode = self.options, InputMode(self.options.input_mode)
        fused, model = form.model, with_plans(form.model)
        order = Reorder(self.budget, options.in_place, tuning=options.tuning) if "reorder" in options.passes else None
        orders = candidate_orders(model, order, options.tuning)
        lowered = self._lowered(orders.first, orders.lowered)
        lowered = whole_and_in_pieces(orders.first, lowered, mode)[-1] if pieces else lowered
        moved, why_not = inputs_to_move(orders.first, mode, lowered)
        searched, maker = options.search(moved), BlockMaker(orders.first, mode, moved, lowered, options.memory)
        graph = graph_from_model(orders.first, lowered, maker.macs, maker.moved)
        own_order = tuple(range(len(graph.steps)))
        _, *other_orders = dict.fromkeys((own_order, *map(graph.with_joined_branches, orders.other_orders)))
        own = None if self.original is None or self.original is fused else _own_work(self.original, options.core)

        def arena(program: Program) -> Arena:
            overlaps = program_overlaps(program) if options.shares else ()
            return realise(program, overlaps, options.arena(), self.budget)

        site = Site(
            graph=graph,
            other_orders=tuple(other_orders),
            maker=maker,
            requested=searched,
            count_tail=options.count_tail,
            arena=arena,
            order=order,
            target=options.counted,
            core=options.core,
            own=own,
            first=first,
            tuning=options.tuning,
            notes=(*form.notes, *orders.notes, *why_not),
            witness=form.witness,
        )
        site.front_of(site.options)  # raises if no input can leave the arena
        return site

    def _lowered(self, model: Model, ready: Lowerings | None = None) -> Lowerings:
        lowered = lowerings_for(model, InputMode(self.options.input_mode), ready)
        return _without(model, with_weights(lowered, WeightForm(self.options.weights)), self.outside)


def _form(make: Callable[[], Site], least_bytes: int = 0) -> Form:
    """Return a form whose site is made once; there is none if its blocks cannot read inputs that leave the arena."""

    def site() -> Site | None:
        try:
            return make()
        except LimitError:
            return None

    return Form(cache(site), least_bytes)


def _own_work(model: Model, core: Core) -> Work:
    graph, target = graph_from_model(model), core.target if isinstance(core, Cycles) else core
    cycles = in_instructions(graph, Cycles(target), LONGEST).work if target.has_cycles else 0
    return Work(graph.work, in_instructions(graph, target, LONGEST).work, cycles)


def _without(model: Model, lowerings: Lowerings, outside: frozenset[str]) -> Lowerings:
    """Return the lowerings, with a reason for operators that write one of the tensors ``outside``."""
    if not outside:
        return lowerings
    graph = model.main
    writes = [outside & {tensor_name(model, tensor) for tensor in op.outputs or ()} for op in graph.operators]
    return tuple(
        "its block could not be proven" if names else each for names, each in zip(writes, lowerings, strict=True)
    )


def _prediction(site: Site, chosen: Candidate) -> Prediction:
    target, cycles = site.core.target if isinstance(site.core, Cycles) else site.core, None
    if target.has_cycles:
        cycles = PredictedCycles(*_predicted_work(site, chosen, Cycles(target)), prediction_error(Cycles(target)))
    return Prediction(target.value, *_predicted_work(site, chosen, target), prediction_error(target), cycles)


def _predicted_work(site: Site, chosen: Candidate, core: Core) -> tuple[int, int, int]:
    """Return instructions or cycles of a candidate, of the file's model, and of the fused model without blocks."""
    on_core = replace(site, core=core)
    return on_core.time_of(chosen.blocks), on_core.own_time, sum(on_core.alone)


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


def _about_weights(chosen: Candidate, form: WeightForm) -> Iterator[Note]:
    if form is WeightForm.SIXTEEN:
        more = flash_of_16_bits(block.plan.block for block in chosen.blocks)
        yield note("expected", "16-bit weights", flash_bytes=more)


def _faster(site: Site, chosen: Candidate) -> Iterator[Note]:
    if (faster := faster_with_more(site, chosen)) is not None:
        saved = 1 - faster.time / chosen.time
        more, unit = faster.arena - chosen.arena, "cycles" if isinstance(site.core, Cycles) else "instructions"
        yield note("offered", "more RAM", more_bytes=more, saved=saved, unit=unit, max_ram_bytes=faster.arena)


def _block_notes(chosen: Candidate) -> Iterator[Note]:
    """Yield a note for each block, and before it one for each input that it copies."""
    model = chosen.site.maker.model
    copies = {model.main.operators[index].output for index in copies_of(model)}
    for block in chosen.blocks:
        for tensor in copies.intersection(block.extraction.outputs):
            yield note(
                "changed", "input copied", tensor=tensor_name(model, tensor), copied_bytes=chosen.program.sizes[tensor]
            )
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
"""Searches with replaced operators: the second one without the replacements that the first left outside of blocks."""


@dataclass(frozen=True)
class FuseSpelled:
    """``Fuse`` with CONCATENATIONs along rows and convolutions of groups in forms that blocks support.

    Attributes:
        fuse: the pass.
    """

    fuse: Fuse

    name: ClassVar[str] = "fuse"

    def run(self, model: Model) -> FuseResult:
        """Fuse a model. Raises: as ``Fuse.run``.

        Operators that no block holds keep their form.
        """
        kept = set[int]()
        for _ in range(MOST_TRIED):
            spelled, result = spell_out(model, kept), None
            if not spelled.replaced:
                break
            try:
                result = self.fuse.run(spelled.model)
                plain = written_outside(result.model)
            except NotReachedError as error:
                if error.outside is None:
                    break
                plain = error.outside
            except LimitError:
                break
            outside = {index for index, names in spelled.replaced.items() if not plain.isdisjoint(names)}
            if result is not None and not outside:
                return replace(result, notes=(*spelled.notes, *result.notes))
            kept |= outside or set(spelled.replaced)
        return self.fuse.run(model)
