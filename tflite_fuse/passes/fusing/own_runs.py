"""Runs of their own for the stages of a block: long where few bytes hang on a pixel, short where many do.

The search knows one length for all stages of a block. What a pixel more in a run takes is the stage's input under it:
three bytes of a picture, hundreds behind the last stride. And before the strides lie most of the pixels: a run of one
pixel at the end of a block asks for two before a stride of 2, for four before another. So runs that grow with the width
of the map take fewer instructions in the same memory. And what a window asks for ends in the middle of a run: a stage
that runs ahead computes all of it, for a ring a few pixels longer. What a block needs is worked out exactly here, by
its schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from operator import ge

from tflite_fuse.cost.instructions import Core, block_instructions
from tflite_fuse.cost.schedule.schedule import Orders, Schedule, schedule, schedule_within
from tflite_fuse.cost.schedule.tiles import split_block
from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.ir.block import Block, BlockChoice, BlockConfig, StageKind
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT
from tflite_fuse.passes.fusing.candidate import Candidate, Site
from tflite_fuse.units import round_up

CHUNKS = (1, 2, 4, 8)
"""Runs of the driven tensor that are looked at, in pixels."""

LONGEST_RUN = 16
"""Pixels: longer runs save next to nothing, and the taps of a 3 x 3 convolution over them no longer fit one table."""

Ratio = tuple[int, int]
"""Times, and parts of that."""

Move = tuple[Ratio, range]
"""How much longer the runs of which stages become."""

LONGER: tuple[Ratio, ...] = ((2, 1), (3, 2), (5, 4))
"""How much longer runs are made."""


@dataclass
class OwnRuns:
    """Finds runs for the blocks of candidates.

    Attributes:
        site: the model they are of.
        followed: runs of stages followed so far.
    """

    site: Site
    followed: int = 0
    _in_tiles: dict[tuple[int, int, int], tuple[Block, Orders]] = field(default_factory=dict)  # blocks kept: ids hold
    _known: dict[tuple[tuple[int, ...], BlockConfig], _Needs] = field(default_factory=dict)

    def with_own_runs(self, chosen: Candidate, more: int = 0) -> Candidate:
        """A candidate whose blocks take fewer predicted instructions, or the same one.

        Args:
            chosen: the candidate.
            more: bytes its arena may grow by.
        """
        blocks = self._better(chosen, more)
        if blocks == chosen.point.blocks:
            return chosen
        found = self.site.realise(replace(chosen.point, blocks=blocks))
        better = found.arena <= chosen.arena + more and found.instructions < chosen.instructions
        return found if better else chosen

    def _better(self, chosen: Candidate, more: int) -> tuple[BlockChoice, ...]:
        """Its blocks, each in the fewest instructions in at most so many bytes of scratch more than it has."""
        choices = list(chosen.point.blocks)
        plans = [block.plan for block in chosen.blocks]
        needs = [self._needs(choice, plan, plan.config) for choice, plan in zip(choices, plans, strict=True)]
        for at in sorted(range(len(choices)), key=lambda at: -needs[at].instructions):
            worth = self.site.tuning.run_gain * chosen.instructions
            if self._goes_on and self._can_save(choices[at], plans[at]) > worth:
                choices[at] = replace(choices[at], config=self._best(choices[at], plans[at], needs[at], more))
        return tuple(choices)

    @property
    def _goes_on(self) -> bool:
        return self.followed < self.site.tuning.runs_followed

    def _can_save(self, choice: BlockChoice, plan: BlockPlan) -> int:
        """Instructions that runs as long as any save, whatever memory they take."""
        longest = _with_runs(plan.config, CHUNKS[-1], [LONGEST_RUN * (width > 0) for width in _widths(plan.block)])
        return self._needs(choice, plan, plan.config).instructions - self._needs(choice, plan, longest).instructions

    def _best(self, choice: BlockChoice, plan: BlockPlan, needs: _Needs, more: int) -> BlockConfig:
        """The best end of climbs from the best of a few starts; the block's own runs where that saves nothing."""
        most, start, least = round_up(needs.scratch, ALIGNMENT) + more // ALIGNMENT * ALIGNMENT, plan.config, needs
        for config in _starts(plan.block, plan.config, plan.config.chunk * (2 if more else 1)):
            found = self._needs_within(choice, plan, config, needs, most)
            if found is not None and found.instructions < least.instructions:
                start, least = config, found
        moves = [(longer, stages) for longer in LONGER for stages in _together(plan)]
        best = start
        for ahead_first in (False, True):
            end = self._ahead(choice, plan, start, most) if ahead_first else start
            end = self._ahead(choice, plan, self._climb(choice, plan, end, most, moves), most)
            found = self._needs(choice, plan, end)
            if found.instructions < least.instructions:
                best, least = end, found
        saves = least.instructions < needs.instructions * (1 - self.site.tuning.run_gain)
        return best if saves else choice.config

    def _ahead(self, choice: BlockChoice, plan: BlockPlan, best: BlockConfig, most: int) -> BlockConfig:
        """Lets stages run ahead where that saves instructions in ``most`` bytes, first those that save most a byte."""
        least, found = self._needs(choice, plan, best), []
        for stage in _able_to_run_ahead(plan.block):
            if self._goes_on and stage not in best.ahead and least.is_ragged(best, stage):
                needs = self._needs(choice, plan, _running_ahead(best, stage))
                saved = least.instructions - needs.instructions if needs.scratch <= most else 0
                found += [(saved / max(needs.scratch - least.scratch, 1), stage)] if saved > 0 else []
        for _, stage in sorted(found, reverse=True):
            needs = self._needs(choice, plan, _running_ahead(best, stage))
            if needs.scratch <= most and needs.instructions < least.instructions:
                best, least = _running_ahead(best, stage), needs
        return best

    def _climb(
        self, choice: BlockChoice, plan: BlockPlan, best: BlockConfig, most: int, moves: Sequence[Move]
    ) -> BlockConfig:
        """Makes runs longer, move by move, while that saves instructions and ``most`` bytes of scratch do.

        What was too long once is not asked for again by others that run as long and longer.
        """
        least, before = self._needs(choice, plan, best), None
        widths, too_long = _widths(plan.block), list[list[int]]()
        while before is not least:
            before = least
            for ratio, stages in moves:
                while self._goes_on:
                    longer = _longer(widths, best, [s for s in stages if least.is_cut(best, s)], ratio)
                    runs = [longer.longest_run(stage) for stage in range(len(widths))]
                    if longer == best or any(all(map(ge, runs, other)) for other in too_long):
                        break
                    found = self._needs_within(choice, plan, longer, least, most)
                    too_long += [runs] if found is None else []
                    if found is None or found.instructions >= least.instructions:
                        break
                    best, least = longer, found
        return best

    def _needs(self, choice: BlockChoice, plan: BlockPlan, config: BlockConfig) -> _Needs:
        key = choice.operators, config
        if key not in self._known:
            run = plan.schedule if config == plan.config else schedule(plan.block, config, self._orders(plan))
            self._note(key, _Needs(plan.block, run, self.site.core))
        return self._known[key]

    def _needs_within(
        self, choice: BlockChoice, plan: BlockPlan, config: BlockConfig, now: _Needs, most: int
    ) -> _Needs | None:
        """What a block needs; None for more than ``most`` bytes of scratch, soon so if all runs are longer than now.

        A ring may shrink where others grow, but hardly.
        """
        key = choice.operators, config
        if key not in self._known and not _runs_as_long(plan.block, config, now.schedule.config):
            self._needs(choice, plan, config)
        if key not in self._known:
            run = schedule_within(plan.block, config, self._orders(plan), most, now.schedule)
            if run is None:
                self.followed += sum(now.runs)
                return None
            self._note(key, _Needs(plan.block, run, self.site.core))
        found = self._known[key]
        return found if found.scratch <= most else None

    def _note(self, key: tuple[tuple[int, ...], BlockConfig], needs: _Needs) -> None:
        self._known[key] = needs
        self.followed += sum(needs.runs)

    def _orders(self, plan: BlockPlan) -> Orders:
        block, now = plan.block, plan.config
        key = id(block), now.tile_height, now.tile_width
        if key not in self._in_tiles:
            self._in_tiles[key] = block, Orders(block, now)
        return self._in_tiles[key][1]


@dataclass(frozen=True, eq=False)
class _Needs:
    """What a block needs as it is run. Instructions are counted when asked for: what is too large is not looked at."""

    block: Block
    schedule: Schedule
    core: Core

    @property
    def scratch(self) -> int:
        """Bytes."""
        return self.schedule.scratch_bytes

    @cached_property
    def instructions(self) -> int:
        """Predicted ones."""
        return block_instructions([(self.block, self.schedule)], self.core)

    @cached_property
    def longest(self) -> tuple[int, ...]:
        """The longest run of each spatial stage."""
        return tuple(max(lengths, default=0) for lengths in self.schedule.stage_runs)

    @cached_property
    def runs(self) -> tuple[int, ...]:
        """Of each spatial stage how many there are."""
        return tuple(sum(lengths.values()) for lengths in self.schedule.stage_runs)

    def is_ragged(self, config: BlockConfig, stage: int) -> bool:
        """Whether a stage has more runs than rows of whole ones would, by a share that matters."""
        output = self.block.tensors[self.block.stages[stage].output]
        whole = output.height * ceil(output.width / config.longest_run(stage))
        return self.runs[stage] > whole

    def is_cut(self, config: BlockConfig, stage: int) -> bool:
        """Whether a stage would perhaps run longer if it might: else a longer run allowed changes nothing."""
        return self.longest[stage] >= config.longest_run(stage)


def _widths(block: Block) -> list[int]:
    """How many times as wide as the driven tensor each stage's output is; 0 of those that have no runs of their own."""
    split = split_block(block)
    driven = block.tensors[split.driven].width
    return [
        max(1, block.tensors[stage.output].width // driven) if stage.inputs and stage.output != split.driven else 0
        for stage in split.spatial
    ]


def _starts(block: Block, now: BlockConfig, longest: int) -> Iterator[BlockConfig]:
    """Runs as long for all stages, and such that grow with the width of the map."""
    widths = _widths(block)
    for chunk in (chunk for chunk in CHUNKS if chunk <= longest):
        yield _with_runs(now, chunk, [])
        yield _with_runs(now, chunk, [chunk * width for width in widths])


def _together(plan: BlockPlan) -> list[range]:
    """Stages whose runs become longer together: a stage and all before it, which it asks for more, or one alone."""
    counts = [sum(lengths.values()) for lengths in plan.schedule.stage_runs]
    alone = [range(at, at + 1) for at, count in enumerate(counts) if count * len(counts) >= sum(counts)]
    return [range(stop) for stop in range(len(counts), 0, -1)] + alone


def _longer(widths: Sequence[int], config: BlockConfig, stages: Sequence[int], ratio: Ratio) -> BlockConfig:
    """The configuration with runs of some stages so much longer, rounded down."""
    runs = [config.longest_run(stage) if width else 0 for stage, width in enumerate(widths)]
    for stage in stages:
        runs[stage] = min(runs[stage] * ratio[0] // ratio[1], LONGEST_RUN)
    return _with_runs(config, config.chunk, runs)


def _runs_as_long(block: Block, config: BlockConfig, other: BlockConfig) -> bool:
    """Whether no stage's runs are shorter than under another configuration, and the same run ahead."""
    stages = range(len(block.stages))
    return other.ahead == config.ahead and all(config.longest_run(s) >= other.longest_run(s) for s in stages)


def _able_to_run_ahead(block: Block) -> list[int]:
    """The stages that may, of those that have runs of their own."""
    return [s for s, width in enumerate(_widths(block)) if width and block.stages[s].kind is not StageKind.STATE]


def _running_ahead(config: BlockConfig, stage: int) -> BlockConfig:
    return replace(config, ahead=config.ahead | {stage})


def _with_runs(config: BlockConfig, chunk: int, runs: Sequence[int]) -> BlockConfig:
    """The configuration with other runs; an entry of 0 stays, and what is as long as ``chunk`` needs none."""
    own = tuple(0 if run in (0, chunk) else min(run, LONGEST_RUN) for run in runs)
    return replace(config, chunk=chunk, longest_runs=own)
