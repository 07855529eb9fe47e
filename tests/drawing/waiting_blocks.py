"""Random blocks whose paths part and meet again, some of whose stages wait for the other path."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.drawing.random_blocks import BlockMaker
from tests.drawing.random_configs import one_tile, random_config
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, Stage, StageKind


def waiting_block(rng: Random) -> tuple[Block, BlockConfig]:
    """A block and a configuration in one tile; whether waiting saves memory is left to chance."""
    maker = BlockMaker(rng, largest=10, plain_inputs=rng.random() < 0.5)
    maker.windowed()
    for _ in range(rng.randint(1, 2)):
        _part_and_meet(maker)
    if rng.random() < 0.3:
        maker.tail()
    block = maker.finish(extra_outputs=rng.random() < 0.3)
    config = one_tile(random_config(rng, block))
    try:
        schedule(block, config)
    except BlockError as error:  # windows leave out the last rows of one of the two
        assert "waits for" in str(error)
        return waiting_block(rng)
    return block, config


def _part_and_meet(maker: BlockMaker) -> None:
    rng, fork = maker.rng, maker.newest
    stride = rng.choice([1, 2, 2])
    _conv(maker, 1, stride)
    if rng.random() < 0.5:
        maker.lookup()
    branch, first, maker.newest = maker.newest, len(maker.stages), fork
    _conv(maker, rng.choice([1, 3, 5]), stride)
    if rng.random() < 0.7:
        maker.stages[first] = replace(maker.stages[first], waits_for=branch)
    for _ in range(rng.randint(0, 3)):
        maker.keeping()
    inputs = rng.choice([(branch, maker.newest), (maker.newest, branch)])
    channels = sum(maker.tensors[tensor].channels for tensor in inputs)
    maker.add_stage(Stage(StageKind.CONCATENATION, inputs, -1), (*maker.extent[:2], channels))


def _conv(maker: BlockMaker, kernel: int, stride: int) -> None:
    """A convolution with as many rows and columns as any other of this stride."""
    height, width, channels = maker.extent
    out = maker.rng.choice([1, 2, 3, 4, 6])
    weights = maker.weights(out, kernel, kernel, channels)
    table = maker.requantization(out, weights.size // out)
    stage = Stage(
        StageKind.CONV,
        (maker.newest,),
        -1,
        kernel_size=(kernel, kernel),
        stride=(stride, stride),
        padding=(kernel // 2, kernel // 2),
        weights=weights,
        bias=maker.bias(out),
        requantization=table,
    )
    maker.add_stage(stage, (-(-height // stride), -(-width // stride), out))
