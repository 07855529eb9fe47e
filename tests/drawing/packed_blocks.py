"""Random blocks of shapes for the kernels of packed weights, and the build of these kernels here."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from tests.drawing.random_blocks import BlockMaker
from tflite_fuse.ir.block import Block, Requantization, Stage, StageKind, WeightForm

DEVICE = Path(__file__).resolve().parents[1] / "device"


def _emulated(extension: str) -> tuple[str, ...]:
    """Flags for the kernels made for an instruction set extension. The sum makes the cache see an edited header."""
    header = DEVICE / f"{extension.lower()}_emulation.h"
    macro = f"TFLITE_FUSE_{extension}_EMULATION"
    return f'-D{macro}="{header.name}"', f"-D{macro}_CRC={zlib.crc32(header.read_bytes())}", f"-I{DEVICE}"


PORTABLE: tuple[str, ...] = ()
DSP = _emulated("DSP")
MVE = _emulated("MVE")
BUILDS = {"portable": PORTABLE, "DSP": DSP, "dual issue": (*DSP, "-DTFLITE_FUSE_DUAL_ISSUE=1"), "MVE": MVE}
"""Compiler flags for the kernels in plain C, with DSP instructions of two kinds of cores, and with Helium."""


class PackedMaker(BlockMaker):
    """Grows a block of convolutions that can be packed; a deep one of few pixels with many channels."""

    def __init__(self, rng: Random, deep: bool = False) -> None:
        super().__init__(rng)
        self.tensors.clear()
        self.stages.clear()
        self.depths = [2, 33, 36, 64, 67] if deep else [1, 2, 3, 4, 5, 6, 8, 11, 16, 20]
        shape = rng.randint(1, 9), rng.randint(1, 11), rng.choice([1, 3, 4, 6, 8, 12, 20])
        if deep:
            shape = rng.randint(1, 3), rng.randint(1, 5), rng.choice([36, 64, 128, 132, 164, 324])
        self.newest = self.add_input(shape)

    def requantization(self, channels: int, depth: int) -> Requantization:
        """Mostly scales such as real models have; now and then dead channels, left shifts, negative filter scales."""
        table = super().requantization(channels, depth)
        if self.rng.random() < 0.7:
            return replace(table, multiplier=np.abs(table.multiplier), shift=np.minimum(table.shift, -1))
        if self.rng.random() < 0.5:
            dead = self.noise.random(channels) < 0.3
            return replace(table, shift=np.where(dead, -31, table.shift).astype(np.int32))
        return table

    def conv(self) -> None:
        stage, (height, width) = self.window(StageKind.CONV)
        if self.rng.random() < 0.5:
            stage = Stage(StageKind.CONV, (self.newest,), -1)
            height, width = self.source.height, self.source.width
        self._weigh(stage, (height, width, self.rng.choice(self.depths)))

    def depthwise(self) -> None:
        size = self.rng.choice([3, 3, 5, 7])
        kernel = size if self.rng.random() < 0.9 else self.rng.randint(1, 7), size
        stride = self.rng.choice([1, 1, 2, 3]), self.rng.choice([1, 1, 2])
        multiplier = 5 if self.source.channels == 1 else 1
        before = tuple(self.rng.randint(0, k - 1) for k in kernel)
        sizes = [self.source.height, self.source.width]
        after = [
            max(self.rng.randint(0, k - 1), k - size - b) for k, size, b in zip(kernel, sizes, before, strict=True)
        ]
        height, width = (
            (size + b + a - k) // s + 1 for size, b, a, k, s in zip(sizes, before, after, kernel, stride, strict=True)
        )
        stage = Stage(StageKind.DEPTHWISE, (self.newest,), -1, -1, kernel, stride, padding=(before[0], before[1]))
        self._weigh(replace(stage, depth_multiplier=multiplier), (height, width, self.source.channels * multiplier))

    def _weigh(self, stage: Stage, shape: tuple[int, int, int]) -> None:
        channels, depth = shape[2], self.source.channels
        depthwise = stage.kind is StageKind.DEPTHWISE
        form = (*stage.kernel_size, channels) if depthwise else (channels, *stage.kernel_size, depth)
        weights = self.weights(*form)
        if self.rng.random() < 0.1:
            weights[self.noise.random(form) < 0.2] = -128
        table = self.requantization(channels, weights.size // channels)
        stage = replace(stage, weight_form=self.rng.choice((WeightForm.EIGHT, WeightForm.SIXTEEN, WeightForm.PAIRED)))
        self.add_stage(replace(stage, weights=weights, bias=self.bias(channels), requantization=table), shape)


def packed_block(rng: Random) -> Block:
    """A block of one to five convolutions, now and then with a fully connected tail."""
    maker = PackedMaker(rng)
    for _ in range(rng.randint(1, 5)):
        rng.choice([maker.conv, maker.depthwise])()
    if rng.random() < 0.2:
        maker.tail()
    return maker.finish(extra_outputs=False)


def deep_block(rng: Random) -> Block:
    """One or two convolutions too large for some kernels to do in one go; now and then with a tail."""
    maker = PackedMaker(rng, deep=True)
    for _ in range(rng.randint(1, 2)):
        maker.conv()
    if rng.random() < 0.4:
        maker.tail()
    return maker.finish(extra_outputs=False)


def one_column_block(rng: Random, dilation: int | None = None, channels: int | None = None) -> Block:
    """A convolution of dilated windows of one column, of more channels than there is room to copy if none are given."""
    maker = PackedMaker(rng)
    maker.tensors.clear()
    maker.stages.clear()
    rows = rng.randint(1, 2)
    channels = channels or rng.choice([65, 66, 79] if rows == 2 else [65, 67, 98, 157])
    maker.newest = maker.add_input((rng.randint(2, 4), rng.randint(1, 6), channels))
    height, width = maker.source.height - rows + 1, maker.source.width
    stage = Stage(StageKind.CONV, (maker.newest,), -1, -1, (rows, 1), dilation=(1, dilation or rng.randint(2, 3)))
    maker._weigh(stage, (height, width, rng.randint(1, 6)))
    return maker.finish(extra_outputs=False)
