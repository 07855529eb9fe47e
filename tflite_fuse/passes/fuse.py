"""The fusion pass: search the front of blocks, pick the point the user asked for, replace operators by blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from tflite_fuse.errors import BudgetError
from tflite_fuse.fusion.encoding.in_model import KnownBlocks, block_overlaps
from tflite_fuse.fusion.instructions.targets import Prediction, Target, prediction_error
from tflite_fuse.fusion.lower.operators import lower_model
from tflite_fuse.fusion.lower.outside import inputs_to_move
from tflite_fuse.fusion.search.cut_graph import longest_block
from tflite_fuse.fusion.search.from_model import graph_from_model
from tflite_fuse.fusion.search.front import Front, Point
from tflite_fuse.fusion.search.fusion_front import fusion_front
from tflite_fuse.memory.arena import Arena, realise
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.tflm.offline_plan import has_plan, remove_plan
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.base import PassResult
from tflite_fuse.passes.candidate import Candidate, Site
from tflite_fuse.passes.choose import Chooser
from tflite_fuse.passes.insert_blocks import BlockMaker, InsertedBlock
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.passes.reorder import Reorder, ReorderResult

NOTHING_SPECIAL = FuseOptions()


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
class Fuse:
    """Replace operators by fused blocks.

    Attributes:
        options: how.
        budget: what the placement of candidates takes its work from; None for one of its own for each.
        known: where the plans of blocks are noted down, for those who ask for them later.
    """

    options: FuseOptions = NOTHING_SPECIAL
    budget: Budget | None = None
    known: KnownBlocks | None = field(default=None, compare=False)

    name: ClassVar[str] = "fuse"

    def run(self, model: Model) -> FuseResult:
        """Fuse a model.

        Raises:
            LimitError: the goal cannot be reached, with the nearest point and the operator that blocks it; or no input
                can leave the arena, with the reason.
            ModelError: an arena tensor has a dynamic shape or elements without a size.
        """
        options, goal = self.options, self.options.reached_for
        bare = remove_plan(model) if has_plan(model) else model
        lowered, known = lower_model(bare), self.known if self.known is not None else {}
        moved, why_not = inputs_to_move(bare, options.input_mode, lowered)
        searched, maker = options.search(moved), BlockMaker(bare, options.input_mode, moved, known, lowered)
        graph = graph_from_model(bare, lowered, maker.macs)
        try:
            front = fusion_front(graph, searched)
        except BudgetError as error:
            if moved:
                raise
            return FuseResult(model, False, (f"not fused: {error}",))

        def arena(draft: Model) -> Arena:
            overlaps = block_overlaps(draft, known) if options.shares else ()
            return realise(draft, overlaps, options.arena(), self.budget)

        order = Reorder(options.time_limit, options.in_place, arena=arena) if "reorder" in options.passes else None
        alone = tuple(layer.macs for layer in front.graph.layers)
        site = Site(graph, maker, options.count_tail, arena, order, options.target, alone)
        chooser = Chooser(goal, site, searched)
        chosen = chooser.with_longer_runs(front, chooser.choose(front))
        unfused = front.explain(chosen.point, goal.max_ram)
        notes = (*_done(bare, chosen), *why_not, *unfused, *_limited(len(graph.layers)))
        optimal = front.optimal if options.target is None else None  # of expectations, which prove nothing
        if not chosen.point.blocks:
            return FuseResult(model, False, notes, optimal, "fusion", (), chosen.point, front)
        expected = _prediction(options.target, front, chosen)
        notes += () if expected is None else (_expectation(expected),)
        notes += () if chosen.ordered is None else chosen.ordered.notes
        model = maker.finish(chosen.draft)
        return FuseResult(
            model, True, notes, optimal, "fusion", chosen.blocks, chosen.point, front, expected, chosen.ordered
        )


def _prediction(target: Target | None, front: Front, chosen: Candidate) -> Prediction | None:
    if target is None:
        return None
    return Prediction(target.value, chosen.compute, front.unfused.macs, prediction_error(target))


def _limited(layers: int) -> Iterator[str]:
    longest = longest_block(layers)
    if longest < layers:
        yield f"of {layers:,} operators, blocks of up to {longest:,} were looked at"


def _expectation(expected: Prediction) -> str:
    return (
        f"{expected.instructions:,} instructions of {expected.target} expected, {expected.factor:.3f} times those of "
        f"its operators one by one in the same library; predictions were {expected.error}"
    )


def _done(model: Model, chosen: Candidate) -> Iterator[str]:
    for block in chosen.blocks:
        ends = block.choice.operators[0], block.choice.operators[-1]
        labels = [operator_label(model, index) for index in ends]
        where = f"{labels[0]} to {labels[-1]}" if labels[0] != labels[-1] else f"{labels[0]} alone"
        height, width = block.choice.config.tile_height, block.choice.config.tile_width
        shape = f"tiles of {height} x {width}" if block.choice.scheme == "tiles" else f"strips of width {width}"
        recomputes = block.choice.scheme != "line-buffers" and block.extra_macs != 0
        how = f"in {shape}" if recomputes else "without recompute"
        less = f"; {-block.extra_macs:,} MACs fewer, as pixels no operator reads are skipped" * (block.extra_macs < 0)
        scratch = block.plan.schedule.scratch_bytes
        yield f"{where} fused {how}: {scratch:,} B of scratch instead of whole inner tensors{less}"
