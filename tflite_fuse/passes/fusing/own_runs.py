"""Individual run lengths for the stages of a block, computed with exact schedules.

The search uses one run length for all stages of a block. One more pixel in a run costs the stage's input under it:
three bytes of an image, hundreds behind the last stride. Most pixels lie before the strides: a run of one pixel at the
end of a block needs two pixels before a stride of 2, and four before another. Runs that grow with the width of the map
therefore take fewer instructions in the same memory. The pixels needed for a window end in the middle of a run; a stage
that runs ahead computes the whole run, for a ring that is a few pixels longer.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil

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
    _in_tiles: dict[tuple[tuple[int, ...], int, int], Orders] = field(default_factory=dict)
    _cache: dict[tuple[tuple[int, ...], BlockConfig], _Needs] = field(default_factory=dict)

    def with_own_runs(self, chosen: Candidate, more: int = 0) -> Candidate:
        """Return a candidate whose blocks take fewer predicted instructions, or the same one.

        Args:
            chosen: the candidate.
            more: bytes by which its arena may grow.
        """
        blocks = self._better(chosen, [more + unused for unused in chosen.unused])
        if blocks == chosen.point.blocks:
            return chosen
        candidate = self.site.realise(replace(chosen.point, blocks=blocks))
        better = candidate.arena <= chosen.arena + more and candidate.time < chosen.time
        return candidate if better else chosen

    def _better(self, chosen: Candidate, more: Sequence[int]) -> tuple[BlockChoice, ...]:
        """Return its blocks, each with the fewest instructions in its number of additional bytes of scratch."""
        choices, added = list(chosen.point.blocks), [each // ALIGNMENT * ALIGNMENT for each in more]
        blocks = [
            _BlockSearch(self, choice, plan, plan.config, round_up(plan.schedule.scratch_bytes, ALIGNMENT) + room)
            for choice, plan, room in zip(choices, (block.plan for block in chosen.blocks), added, strict=True)
        ]
        for at in sorted(range(len(choices)), key=lambda at: -blocks[at].least.time):
            if self.has_budget and blocks[at].most_saved > self.site.tuning.run_gain * chosen.time:
                choices[at] = replace(choices[at], config=blocks[at].improved())
        return tuple(choices)

    @property
    def has_budget(self) -> bool:
        """Return whether more runs may be simulated."""
        return self.followed < self.site.tuning.runs_followed

    def needs(self, choice: BlockChoice, plan: BlockPlan, config: BlockConfig) -> _Needs:
        """Return the needs of a block under a configuration, which are computed once."""
        key = choice.operators, config
        if key not in self._cache:
            run = plan.schedule if config == plan.config else schedule(plan.block, config, self._orders(choice, plan))
            self._cache[key] = _Needs(plan.block, run, self.site.core)
            self.followed += sum(self._cache[key].runs)
        return self._cache[key]

    def _orders(self, choice: BlockChoice, plan: BlockPlan) -> Orders:
        key = choice.operators, plan.config.tile_height, plan.config.tile_width
        if key not in self._in_tiles:
            self._in_tiles[key] = Orders(plan.block, plan.config)
        return self._in_tiles[key]


@dataclass
class _BlockSearch:
    """Search of the run lengths of one block.

    Attributes:
        search: the search for all blocks.
        choice, plan: the block.
        best: the configuration of the least time so far.
        most: largest scratch in bytes.
    """

    search: OwnRuns
    choice: BlockChoice
    plan: BlockPlan
    best: BlockConfig
    most: int

    @property
    def least(self) -> _Needs:
        """Return the needs under the best configuration."""
        return self._needs(self.best)

    @property
    def most_saved(self) -> int:
        """Return the instructions that the longest runs would save, regardless of memory."""
        longest = [self._longest_run * (width > 0) for width in _widths(self.plan.block)]
        return self.least.time - self._needs(_with_runs(self.best, self._longest_run, longest)).time

    def improved(self) -> BlockConfig:
        """Return the better end of two climbs from the best start, or the present configuration if little is saved."""
        before = self.least
        for config in _starts(self.plan.block, self.plan.config, self._longest_run):
            self._improve(config)
        other = replace(self)
        self._lengthen()
        self._run_ahead()
        other._run_ahead()
        other._lengthen()
        other._run_ahead()
        self._improve(other.best)
        saves = self.least.time < before.time * (1 - self.search.site.tuning.run_gain)
        return self.best if saves else self.choice.config

    def _lengthen(self) -> None:
        """Double the runs of as many first stages as fit, then of single ones, as long as that saves time.

        The more of the first stages have longer runs, the more scratch the block needs: bisection finds how many fit.
        """
        before = None
        while before != self.best:
            before, count = self.best, len(self.plan.schedule.stage_runs)
            while count and self.search.has_budget:
                if not self._fits(self._doubled(range(count))):
                    fewer = range(1, count)
                    count = bisect(fewer, False, key=lambda first: not self._fits(self._doubled(range(first))))
                elif not self._improve(self._doubled(range(count))):
                    break
            for stage in _frequent(self.plan):
                while self.search.has_budget and self._improve(self._doubled([stage])):
                    pass

    def _run_ahead(self) -> None:
        """Let stages run ahead if that saves time, in order of savings per byte."""
        before, savings = self.least, list[tuple[float, int]]()
        for stage in self._ragged(_able_to_run_ahead(self.plan.block)):
            if self.search.has_budget:
                needs = self._needs(_running_ahead(self.best, stage))
                if needs.scratch <= self.most and needs.time < before.time:
                    savings.append(((before.time - needs.time) / max(needs.scratch - before.scratch, 1), stage))
        for stage in self._ragged(stage for _, stage in sorted(savings, reverse=True)):
            self._improve(_running_ahead(self.best, stage))

    def _ragged(self, stages: Iterable[int]) -> Iterator[int]:
        """Yield the stages with more runs than needed that do not run ahead when their turn comes."""
        yield from (s for s in stages if s not in self.best.ahead and self.least.is_ragged(self.best, s))

    def _improve(self, config: BlockConfig) -> bool:
        """Take a configuration that fits and saves time; return whether it does."""
        if not self._fits(config) or self._needs(config).time >= self.least.time:
            return False
        self.best = config
        return True

    def _fits(self, config: BlockConfig) -> bool:
        return self._needs(config).scratch <= self.most

    def _doubled(self, stages: Iterable[int]) -> BlockConfig:
        """Return the configuration with twice as long runs of those stages whose runs a limit cuts."""
        runs = [self.best.longest_run(s) if width else 0 for s, width in enumerate(_widths(self.plan.block))]
        for stage in stages:
            if self.least.is_cut(self.best, stage):
                runs[stage] = min(2 * runs[stage], self._longest_run)
        return _with_runs(self.best, self.best.chunk, runs)

    def _needs(self, config: BlockConfig) -> _Needs:
        return self.search.needs(self.choice, self.plan, config)

    @property
    def _longest_run(self) -> int:
        return self.search.site.tuning.longest_run


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


def _starts(block: Block, config: BlockConfig, longest: int) -> Iterator[BlockConfig]:
    """Yield configurations with equal runs for all stages, and with runs that grow with the width of the map.

    Args:
        block: the block.
        config: its present configuration.
        longest: pixels of the longest runs.
    """
    widths = _widths(block)
    for chunk in (*CHUNKS, longest):  # whole rows where memory permits; a tensor that is stored whole needs no more
        yield _with_runs(config, chunk, [])
        yield _with_runs(config, chunk, [min(chunk * width, longest) for width in widths])


def _frequent(plan: BlockPlan) -> list[int]:
    """Return the stages with at least as many runs as a block's average stage."""
    counts = [sum(lengths.values()) for lengths in plan.schedule.stage_runs]
    return [stage for stage, count in enumerate(counts) if len(counts) * count >= sum(counts)]


def _able_to_run_ahead(block: Block) -> list[int]:
    """Return the stages that may run ahead."""
    return [s for s, width in enumerate(_widths(block)) if width and block.stages[s].kind is not StageKind.STATE]


def _running_ahead(config: BlockConfig, stage: int) -> BlockConfig:
    return replace(config, ahead=config.ahead | {stage})


def _with_runs(config: BlockConfig, chunk: int, runs: Sequence[int]) -> BlockConfig:
    """Return the configuration with other runs; 0 stays, and runs equal to ``chunk`` need no entry."""
    own = tuple(0 if run in (0, chunk) else run for run in runs)
    return replace(config, chunk=chunk, longest_runs=own)
