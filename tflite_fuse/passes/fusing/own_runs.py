"""Runs of their own for the stages of a block: long where few bytes hang on a pixel, short where many do.

The search knows one length for all stages of a block. What a pixel more in a run takes is the stage's input under it:
three bytes of a picture, hundreds behind the last stride. And before the strides lie most of the pixels: a run of one
pixel at the end of a block asks for two before a stride of 2, for four before another. So runs that grow with the width
of the map take fewer instructions in the same memory. What a block needs is worked out exactly here, by its schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tflite_fuse.fusion.block.stages import Block, BlockConfig
from tflite_fuse.fusion.encoding.block_plan import BlockPlan
from tflite_fuse.fusion.instructions.targets import block_instructions
from tflite_fuse.fusion.schedule.schedule import schedule
from tflite_fuse.fusion.schedule.tiles import split_block
from tflite_fuse.fusion.search.front import BlockChoice
from tflite_fuse.passes.fusing.candidate import Candidate, Site

CHUNKS = (1, 2, 4, 8)
"""Runs of the driven tensor that are looked at."""

LONGEST_RUN = 16
"""Longer ones save next to nothing, and what a 3 x 3 convolution looks at in them no longer fits one table."""

SMALL = 1 / 32
"""Shares of a model's instructions that a block has, and of a block's runs that a stage has, to be looked at."""

WORTH = 1 / 200
"""Share of a block's predicted instructions that must be saved for it to be run in another way."""

MOST_FOLLOWED = 3_000_000
"""Runs of stages that are followed at most for all blocks of a model, those with most work first: about three
seconds."""


@dataclass
class OwnRuns:
    """Finds runs for the blocks of candidates.

    Attributes:
        site: the model they are of.
        followed: runs of stages followed so far.
    """

    site: Site
    followed: int = 0
    _known: dict[tuple[tuple[int, ...], BlockConfig], tuple[int, int]] = field(default_factory=dict)

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
        for at in sorted(range(len(choices)), key=lambda at: -needs[at][1]):
            if self.followed < MOST_FOLLOWED and needs[at][1] > SMALL * chosen.instructions:
                choices[at] = replace(choices[at], config=self._best(choices[at], plans[at], needs[at], more))
        return tuple(choices)

    def _best(self, choice: BlockChoice, plan: BlockPlan, needs: tuple[int, int], more: int) -> BlockConfig:
        widths, now = _widths(plan.block), plan.config
        most, best, least = needs[0] + more, now, needs[1]
        strided, longest = any(width > 1 for width in widths), now.chunk * (2 if more else 1)
        for chunk in (chunk for chunk in CHUNKS if strided and chunk <= longest):
            config = _with_runs(now, chunk, [chunk * width for width in widths])
            scratch, instructions = self._needs(choice, plan, config)
            if scratch <= most and instructions < least:
                best, least = config, instructions
        counts = [sum(lengths.values()) for lengths in plan.schedule.stage_runs]
        for stage in (stage for stage, width in enumerate(widths) if width and counts[stage] > SMALL * sum(counts)):
            while (run := best.longest_run(stage)) < LONGEST_RUN:
                runs = [best.longest_run(other) if widths[other] else 0 for other in range(len(widths))]
                config = _with_runs(best, best.chunk, [*runs[:stage], 2 * run, *runs[stage + 1 :]])
                scratch, instructions = self._needs(choice, plan, config)
                if scratch > most or instructions >= least:
                    break
                best, least = config, instructions
        return best if least < needs[1] * (1 - WORTH) else choice.config

    def _needs(self, choice: BlockChoice, plan: BlockPlan, config: BlockConfig) -> tuple[int, int]:
        """Bytes of scratch and predicted instructions."""
        key = choice.operators, config
        if key not in self._known:
            run = plan.schedule if config == plan.config else schedule(plan.block, config)
            self.followed += sum(sum(lengths.values()) for lengths in run.stage_runs)
            self._known[key] = run.scratch_bytes, block_instructions([(plan.block, run)], self.site.core)
        return self._known[key]


def _widths(block: Block) -> list[int]:
    """How many times as wide as the driven tensor each stage's output is; 0 of those that have no runs of their own."""
    split = split_block(block)
    driven = block.tensors[split.driven].width
    return [
        max(1, block.tensors[stage.output].width // driven) if stage.inputs and stage.output != split.driven else 0
        for stage in split.spatial
    ]


def _with_runs(config: BlockConfig, chunk: int, runs: list[int]) -> BlockConfig:
    """The configuration with other runs; an entry of 0 stays, and what is as long as ``chunk`` needs none."""
    own = tuple(0 if run in (0, chunk) else min(run, LONGEST_RUN) for run in runs)
    return replace(config, chunk=chunk, longest_runs=own)
