"""Random configurations of blocks: tiles, chunks, runs of their own, stages that run ahead."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tflite_fuse.cost.schedule.tiles import split_block
from tflite_fuse.ir.block import Block, BlockConfig, StageKind
from tflite_fuse.ops.table import KINDS


def random_config(rng: Random, block: Block) -> BlockConfig:
    """Whole, strips, bands or tiles, a chunk, and often runs of their own for some stages."""
    tensor = max(block.tensors, key=lambda tensor: tensor.pixels)
    whole = rng.random() < 0.3
    in_order = any(KINDS[stage.kind].sums_in_order for stage in block.stages)
    height = 65535 if whole or rng.random() < 0.4 else rng.randint(1, tensor.height)
    width = 65535 if whole or rng.random() < 0.2 or in_order else rng.randint(1, tensor.width)
    chunk = rng.choice([1, 2, 3, 4, 4, 5, 8, 100])
    own = rng.random() < 0.5
    return BlockConfig(height, width, chunk, random_runs(rng, block) if own else (), random_ahead(rng, block))


def random_runs(rng: Random, block: Block) -> tuple[int, ...]:
    """Runs of their own for stages that may have one."""
    split = split_block(block)
    may = [bool(stage.inputs) and stage.output != split.driven for stage in split.spatial]
    return tuple(rng.choice([0, 0, 1, 2, 3, 5, 8, 17, 255]) if own else 0 for own in may)


def random_ahead(rng: Random, block: Block) -> frozenset[int]:
    """Stages that run ahead, of those that may; in half of all blocks none."""
    split, share = split_block(block), rng.choice([0.0, 0.0, 0.5, 1.0])
    bound = (StageKind.SOURCE, StageKind.STATE)
    may = (n for n, stage in enumerate(split.spatial) if stage.output != split.driven and stage.kind not in bound)
    return frozenset(number for number in may if rng.random() < share)


def one_tile(config: BlockConfig) -> BlockConfig:
    return replace(config, tile_height=65535, tile_width=65535)
