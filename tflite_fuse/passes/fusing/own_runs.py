"""Individual run lengths for the stages of a block, computed with exact schedules.

The search uses one run length for all stages of a block. One more pixel in a run costs the stage's input under it:
three bytes of an image, hundreds behind the last stride. Most pixels lie before the strides: a run of one pixel at the
end of a block needs two pixels before a stride of 2, and four before another. Runs that grow with the width of the map
therefore take fewer instructions in the same memory. The pixels needed for a window end in the middle of a run; a stage
that runs ahead computes the whole run, for a ring that is a few pixels longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from operator import ge

from tflite_fuse.cost.instructions import Core, block_instructions
from tflite_fuse.cost.schedule.schedule import Orders, Schedule, schedule
from tflite_fuse.cost.schedule.tiles import split_block
from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.ir.block import Block, BlockChoice, BlockConfig, StageKind
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT
from tflite_fuse.passes.fusing.candidate import Candidate, Site
from tflite_fuse.search.fusion_front import CHUNKS
from tflite_fuse.units import round_up


@dataclass
class OwnRuns:
    """Search of run lengths for the blocks of candidates.

    Attributes:
        site: model of the candidates.
        followed: number of stage runs simulated so far.
    """

    site: Site
    followed: int = 0
    # The values hold the blocks, so that their ids stay valid.
    _in_tiles: dict[tuple[int, int, int], tuple[Block, Orders]] = field(default_factory=dict)
    _cache: dict[tuple[tuple[int, ...], BlockConfig], _Needs] = field(default_factory=dict)

    def with_own_runs(self, chosen: Candidate, more: int = 0) -> Candidate:
        """Return a candidate whose blocks take fewer predicted instructions, or the same one.

        Args:
            chosen: the candidate.
            more: bytes by which its arena may grow.
        """
        blocks = self._better(chosen, more)
        if blocks == chosen.point.blocks:
            return chosen
        candidate = self.site.realise(replace(chosen.point, blocks=blocks))
        better = candidate.arena <= chosen.arena + more and candidate.time < chosen.time
        return candidate if better else chosen

    def _better(self, chosen: Candidate, more: int) -> tuple[BlockChoice, ...]:
        """Return its blocks, each with the fewest instructions in at most ``more`` additional bytes of scratch."""
        choices = list(chosen.point.blocks)
        plans = [block.plan for block in chosen.blocks]
        needs = [self._needs(choice, plan, plan.config) for choice, plan in zip(choices, plans, strict=True)]
        for at in sorted(range(len(choices)), key=lambda at: -needs[at].time):
            least_gain = self.site.tuning.run_gain * chosen.time
            if self._has_budget and self._can_save(choices[at], plans[at]) > least_gain:
                choices[at] = replace(choices[at], config=self._best(choices[at], plans[at], needs[at], more))
        return tuple(choices)

    @property
    def _has_budget(self) -> bool:
        return self.followed < self.site.tuning.runs_followed

    def _can_save(self, choice: BlockChoice, plan: BlockPlan) -> int:
        """Return the instructions that the longest runs would save, regardless of memory."""
        most = self.site.tuning.longest_run
        longest = _with_runs(plan.config, CHUNKS[-1], [most * (width > 0) for width in _widths(plan.block)])
        return self._needs(choice, plan, plan.config).time - self._needs(choice, plan, longest).time

    def _best(self, choice: BlockChoice, plan: BlockPlan, needs: _Needs, more: int) -> BlockConfig:
        """Return the best result of climbs from a few starts; the block's own runs if that saves too little."""
        most, start, least = round_up(needs.scratch, ALIGNMENT) + more // ALIGNMENT * ALIGNMENT, plan.config, needs
        longest = plan.config.chunk * (2 if more else 1), self.site.tuning.longest_run
        for config in _starts(plan.block, plan.config, *longest):
            trial = self._needs(choice, plan, config)
            if trial.scratch <= most and trial.time < least.time:
                start, least = config, trial
        moves = _together(plan)
        best = start
        for ahead_first in (False, True):
            end = self._ahead(choice, plan, start, most) if ahead_first else start
            end = self._ahead(choice, plan, self._climb(choice, plan, end, most, moves), most)
            trial = self._needs(choice, plan, end)
            if trial.time < least.time:
                best, least = end, trial
        saves = least.time < needs.time * (1 - self.site.tuning.run_gain)
        return best if saves else choice.config

    def _ahead(self, choice: BlockChoice, plan: BlockPlan, best: BlockConfig, most: int) -> BlockConfig:
        """Let stages run ahead if that saves instructions within ``most`` bytes, in order of savings per byte."""
        least, savings = self._needs(choice, plan, best), []
        for stage in _able_to_run_ahead(plan.block):
            if self._has_budget and stage not in best.ahead and least.is_ragged(best, stage):
                needs = self._needs(choice, plan, _running_ahead(best, stage))
                saved = least.time - needs.time if needs.scratch <= most else 0
                savings += [(saved / max(needs.scratch - least.scratch, 1), stage)] if saved > 0 else []
        for _, stage in sorted(savings, reverse=True):
            needs = self._needs(choice, plan, _running_ahead(best, stage))
            if needs.scratch <= most and needs.time < least.time:
                best, least = _running_ahead(best, stage), needs
        return best

    def _climb(
        self, choice: BlockChoice, plan: BlockPlan, best: BlockConfig, most: int, moves: Sequence[range]
    ) -> BlockConfig:
        """Double runs of the stages of each move while that saves instructions within ``most`` bytes of scratch.

        Run lengths that exceeded the limit once are not tried again, nor are longer ones.
        """
        least, before = self._needs(choice, plan, best), None
        widths, too_long = _widths(plan.block), list[list[int]]()
        while before is not least:
            before = least
            for stages in moves:
                while self._has_budget:
                    cut = [s for s in stages if least.is_cut(best, s)]
                    longer = _doubled(widths, best, cut, self.site.tuning.longest_run)
                    runs = [longer.longest_run(stage) for stage in range(len(widths))]
                    if longer == best or any(all(map(ge, runs, other)) for other in too_long):
                        break
                    trial = self._needs(choice, plan, longer)
                    too_long += [runs] if trial.scratch > most else []
                    if trial.scratch > most or trial.time >= least.time:
                        break
                    best, least = longer, trial
        return best

    def _needs(self, choice: BlockChoice, plan: BlockPlan, config: BlockConfig) -> _Needs:
        key = choice.operators, config
        if key not in self._cache:
            run = plan.schedule if config == plan.config else schedule(plan.block, config, self._orders(plan))
            self._cache[key] = _Needs(plan.block, run, self.site.core)
            self.followed += sum(self._cache[key].runs)
        return self._cache[key]

    def _orders(self, plan: BlockPlan) -> Orders:
        block, config = plan.block, plan.config
        key = id(block), config.tile_height, config.tile_width
        if key not in self._in_tiles:
            self._in_tiles[key] = block, Orders(block, config)
        return self._in_tiles[key][1]


@dataclass(frozen=True, eq=False)
class _Needs:
    """Needs of a block under a schedule. Its time is computed on demand, not for blocks that are too large."""

    block: Block
    schedule: Schedule
    core: Core

    @property
    def scratch(self) -> int:
        """Return the bytes of scratch."""
        return self.schedule.scratch_bytes

    @cached_property
    def time(self) -> int:
        """Predicted instructions or cycles."""
        return block_instructions([(self.block, self.schedule)], self.core)

    @cached_property
    def longest(self) -> tuple[int, ...]:
        """Longest run of each spatial stage in pixels."""
        return tuple(max(lengths, default=0) for lengths in self.schedule.stage_runs)

    @cached_property
    def runs(self) -> tuple[int, ...]:
        """Number of runs of each spatial stage."""
        return tuple(sum(lengths.values()) for lengths in self.schedule.stage_runs)

    def is_ragged(self, config: BlockConfig, stage: int) -> bool:
        """Return whether a stage has more runs than rows of full runs need."""
        output = self.block.tensors[self.block.stages[stage].output]
        whole = output.height * ceil(output.width / config.longest_run(stage))
        return self.runs[stage] > whole

    def is_cut(self, config: BlockConfig, stage: int) -> bool:
        """Return whether longer runs of a stage may be used if permitted."""
        return self.longest[stage] >= config.longest_run(stage)


def _widths(block: Block) -> list[int]:
    """Return the ratio of each stage's output width to the driven tensor's; 0 for stages with a fixed run length."""
    split = split_block(block)
    driven = block.tensors[split.driven].width
    return [
        max(1, block.tensors[stage.output].width // driven) if stage.inputs and stage.output != split.driven else 0
        for stage in split.spatial
    ]


def _starts(block: Block, config: BlockConfig, chunk_to: int, run_to: int) -> Iterator[BlockConfig]:
    """Yield configurations with equal runs for all stages, and with runs that grow with the width of the map.

    Args:
        block: the block.
        config: its present configuration.
        chunk_to, run_to: pixels of the longest runs of the driven tensor, and of any other.
    """
    widths = _widths(block)
    for chunk in (chunk for chunk in CHUNKS if chunk <= chunk_to):
        yield _with_runs(config, chunk, [])
        yield _with_runs(config, chunk, [min(chunk * width, run_to) for width in widths])


def _together(plan: BlockPlan) -> list[range]:
    """Return stages whose runs are lengthened together: a stage and all before it, or a single one with many runs."""
    counts = [sum(lengths.values()) for lengths in plan.schedule.stage_runs]
    alone = [range(at, at + 1) for at, count in enumerate(counts) if count * len(counts) >= sum(counts)]
    return [range(stop) for stop in range(len(counts), 0, -1)] + alone


def _doubled(widths: Sequence[int], config: BlockConfig, stages: Sequence[int], most: int) -> BlockConfig:
    """Return the configuration with the runs of some stages twice as long, up to ``most`` pixels."""
    runs = [config.longest_run(stage) if width else 0 for stage, width in enumerate(widths)]
    for stage in stages:
        runs[stage] = min(2 * runs[stage], most)
    return _with_runs(config, config.chunk, runs)


def _able_to_run_ahead(block: Block) -> list[int]:
    """Return the stages that may run ahead."""
    return [s for s, width in enumerate(_widths(block)) if width and block.stages[s].kind is not StageKind.STATE]


def _running_ahead(config: BlockConfig, stage: int) -> BlockConfig:
    return replace(config, ahead=config.ahead | {stage})


def _with_runs(config: BlockConfig, chunk: int, runs: Sequence[int]) -> BlockConfig:
    """Return the configuration with other runs; 0 stays, and runs equal to ``chunk`` need no entry."""
    own = tuple(0 if run in (0, chunk) else run for run in runs)
    return replace(config, chunk=chunk, longest_runs=own)
