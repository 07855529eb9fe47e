"""Branches of a block that run early, where their outputs take less memory than their inputs.

Stages run when their readers pull pixels. Where two paths meet again, the branch with fewer windows runs late: its
input must be kept until the other path has caught up. If the branch has fewer channels or pixels than its input, as the
shortcut of a residual block with a stride or one half of a CSP stage, its output takes less memory for the same time.
The first stage of the other path then waits for the branch: both advance together.

    input -> conv -> conv -> add        late: the input is kept for two windows of rows
         `-> shortcut --------^         early: the shortcut's pixels are kept for the second one alone
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tflite_fuse.cost.schedule.schedule import Orders, schedule
from tflite_fuse.cost.schedule.tiles import is_one_tile, split_block
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, Stage, Storage


def with_early_branches(block: Block, config: BlockConfig) -> Block:
    """Return the block with those branches early that shrink its scratch, in bytes.

    Branches are tried one by one, each beside those that helped before. Blocks in several tiles have none.

    Raises:
        BlockError: the block cannot run under the configuration.
    """
    split = split_block(block)
    if not is_one_tile(block.tensors[split.driven], config) or block.keeps_state:
        return block
    best, tried = block, set[tuple[int, int]]()
    while waits := next((each for each in _waits(best, len(split.spatial)) if each[:2] not in tried), None):
        if not tried:
            orders = Orders(block, config)
            least = schedule(block, config, orders)
        output, awaited, shared = waits
        tried.add((output, awaited))
        if all(least.capacities[each] <= config.chunk for each in shared):
            continue
        early = _early(best, output, awaited)
        try:
            needs = schedule(early, config, orders)
        except BlockError:  # the block computes other pixels of the two tensors
            continue
        if needs.scratch_bytes < least.scratch_bytes:
            best, least = early, needs
    return best


def _waits(block: Block, spatial: int) -> Iterator[tuple[int, int, frozenset[int]]]:
    """Yield (output of a stage, tensor for which it may wait, tensors that both paths share and that it reads)."""
    stages = block.stages[:spatial]
    behind = _ancestors(stages)
    writers = {stage.output: number for number, stage in enumerate(stages)}
    for stage in stages:
        for tensor in stage.inputs:
            other_branches = [behind[writers[each]] for each in stage.inputs if each != tensor and each in writers]
            if tensor not in writers or block.tensors[tensor].storage is not Storage.SCRATCH or not other_branches:
                continue
            branch = behind[writers[tensor]].difference(*other_branches)
            written = {stages[number].output for number in branch}
            shared = {each for number in branch for each in stages[number].inputs} - written
            for number in sorted(set().union(*other_branches) - behind[writers[tensor]]):
                first = stages[number]
                read = shared.intersection(first.inputs)
                if first.waits_for < 0 and read and _alike(block, first.output, tensor):
                    yield first.output, tensor, frozenset(read)


def _ancestors(stages: tuple[Stage, ...]) -> list[frozenset[int]]:
    """Return for each stage its own number and those of all stages that must run before it."""
    ancestors: list[frozenset[int]] = []
    writers = {stage.output: number for number, stage in enumerate(stages)}
    for number, stage in enumerate(stages):
        needed = (*stage.inputs, stage.waits_for)
        before = (ancestors[writers[tensor]] for tensor in needed if tensor in writers)
        ancestors.append(frozenset((number,)).union(*before))
    return ancestors


def _alike(block: Block, first: int, second: int) -> bool:
    one, other = block.tensors[first], block.tensors[second]
    return (one.height, one.width) == (other.height, other.width)


def _early(block: Block, output: int, awaited: int) -> Block:
    """Return the block whose stage that writes ``output`` waits for a tensor, with the stages that make it in front."""
    writers = {stage.output: number for number, stage in enumerate(block.stages)}
    number, behind = writers[output], _ancestors(block.stages)[writers[awaited]]
    waiting = replace(block.stages[number], waits_for=awaited)
    moved = [block.stages[each] for each in sorted(behind) if each > number]
    later = [stage for index, stage in enumerate(block.stages) if index > number and index not in behind]
    return replace(block, stages=(*block.stages[:number], *moved, waiting, *later))
