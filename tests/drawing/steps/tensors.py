"""Parts of random blocks: tensors, numbers for stages, and the final block."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import numpy as np

from tflite_fuse.ir.block import Block, BlockTensor, ElementType, Int8Array, Requantization, Stage, StageKind, Storage
from tflite_fuse.ops.kinds.real import OPERATIONS, RealPairParameters, dequantize_parameters, quantize_parameters

UNCLAMPED = (StageKind.PAD, StageKind.CONCATENATION, StageKind.LOOKUP, StageKind.CHANNELS, StageKind.RESIZE)
UNCLAMPED += (StageKind.QUANTIZE, StageKind.DEQUANTIZE, StageKind.REAL_PAIR)
UNCLAMPED += (StageKind.SPACE_TO_DEPTH, StageKind.DEPTH_TO_SPACE, StageKind.ARG_MAX, StageKind.FLOAT_ARG_MAX)
UNCLAMPED += (StageKind.TRANSPOSE,)


class TensorMaker:
    """A block as it grows: every stage reads the newest tensor, so that none is dead."""

    def __init__(self, rng: Random, *, largest: int = 12, plain_inputs: bool = False, reals: bool = False) -> None:
        self.rng = rng
        self.largest = largest
        self.plain_inputs = plain_inputs
        self.reals = reals
        self.noise = np.random.default_rng(rng.randrange(2**32))
        self.tensors: list[BlockTensor] = []
        self.stages: list[Stage] = []
        self.newest = self.add_input((rng.randint(1, largest), rng.randint(1, largest), rng.randint(1, 6)))

    def add_tensor(self, shape: tuple[int, int, int], storage: Storage = Storage.SCRATCH) -> int:
        index = len(self.tensors)
        self.tensors.append(BlockTensor(f"t{index}", *shape, self.rng.randint(-128, 127), storage))
        return index

    def add_input(self, shape: tuple[int, int, int]) -> int:
        kind = Storage.INPUT if self.plain_inputs else self.rng.choice([Storage.INPUT] * 4 + [Storage.EXTERNAL, None])
        index = self.add_tensor(shape, kind or Storage.SCRATCH)
        if kind is None:
            self.stages.append(Stage(StageKind.SOURCE, (), index))
        if self.reals and self.rng.random() < 0.15:
            self.make_real(index)
            index = self.quantized(index)
        return index

    def make_real(self, index: int) -> None:
        self.tensors[index] = replace(self.tensors[index], zero_point=0, element_type=ElementType.FLOAT32)

    def quantized(self, source: int) -> int:
        """A float32 tensor as int8; scales as random operands ask for, now and then much larger or smaller ones."""
        real = self.tensors[source]
        index = self.add_tensor((real.height, real.width, real.channels))
        scale = self.rng.choice([0.5, 1 / 127, 0.0123, 1e-40, 1e30])
        parameters = quantize_parameters(float(np.float32(scale)), self.tensors[index].zero_point)
        self.stages.append(Stage(StageKind.QUANTIZE, (source,), index, parameters=parameters))
        return index

    def dequantization(self) -> None:
        """float32, which nothing but a QUANTIZE reads."""
        scale, point = self.rng.uniform(1e-3, 1.0), self.source.zero_point
        shape = (self.source.height, self.source.width, self.source.channels)
        stage = Stage(StageKind.DEQUANTIZE, (self.newest,), -1, parameters=dequantize_parameters(scale, point))
        self.add_stage(stage, shape)
        self.make_real(self.newest)

    def real_pair(self) -> None:
        """Numbers of all sizes, subnormal and zero among them, as tables of either side."""
        newest, partner = self.newest, self.partner(same_channels=True)
        inputs = (newest, partner) if self.rng.random() < 0.5 else (partner, newest)
        self.newest = newest
        widest = self.rng.choice([1, 10, 37])
        sides = [
            (self.noise.normal(0, 1, 256) * 10.0 ** self.noise.integers(-widest - 7, widest, 256)).astype("<f4")
            for _ in range(2)
        ]
        sides[0][self.noise.random(256) < 0.1] = 0
        scale, low = self.rng.choice([0.1, 1e-3, 1e-40, 1e20]), self.rng.choice([-np.inf, 0.0, -1.0])
        quantize = quantize_parameters(float(np.float32(scale)), self.rng.randint(-128, 127), low)
        operation = self.rng.choice(sorted(OPERATIONS))
        parameters = RealPairParameters(operation, sides[0].tobytes(), sides[1].tobytes(), quantize)
        shape = (self.source.height, self.source.width, self.source.channels)
        self.add_stage(Stage(StageKind.REAL_PAIR, inputs, -1, parameters=parameters), shape)

    def there_and_back(self) -> None:
        self.dequantization()
        self.newest = self.quantized(self.newest)

    def add_stage(self, stage: Stage, shape: tuple[int, int, int]) -> None:
        self.newest = self.add_tensor(shape)
        low = self.rng.randint(-128, 20) if self.rng.random() < 0.3 else -128
        high = self.rng.randint(low, 127) if self.rng.random() < 0.3 else 127
        if stage.kind in UNCLAMPED:
            low, high = -128, 127
        self.stages.append(replace(stage, output=self.newest, activation_min=low, activation_max=high))

    @property
    def extent(self) -> tuple[int, int, int]:
        """Height, width and channels of the newest tensor."""
        return self.source.height, self.source.width, self.source.channels

    @property
    def source(self) -> BlockTensor:
        return self.tensors[self.newest]

    def requantization(self, channels: int, depth: int) -> Requantization:
        usual = -round(math.log2(math.sqrt(depth) * 70))
        spread = (usual - 1, usual + 2) if self.rng.random() < 0.9 else (-31, 30)
        multipliers = self.noise.integers(2**30, 2**31, channels)
        if self.rng.random() < 0.1:
            multipliers *= self.noise.choice([-1, 0, 1], channels)
        return Requantization(
            multipliers.astype(np.int32), self.noise.integers(spread[0], spread[1] + 1, channels).astype(np.int32)
        )

    def weights(self, *shape: int) -> Int8Array:
        return self.noise.integers(-127, 128, shape).astype(np.int8)

    def bias(self, channels: int) -> np.ndarray | None:
        if self.rng.random() < 0.2:
            return None
        most = 2**31 - 1 if self.rng.random() < 0.05 else 5000
        return self.noise.integers(-most, most + 1, channels).astype(np.int32)

    def partner(self, *, same_channels: bool) -> int:
        """An older tensor of the newest one's extent, or another input; now and then one pixel that goes with all."""
        shape = (self.source.height, self.source.width, self.source.channels)
        if same_channels and self.rng.random() < 0.2:
            return self.one_pixel(shape[2])
        alike = [
            index
            for index, tensor in enumerate(self.tensors)
            if (tensor.height, tensor.width) == shape[:2] and (tensor.channels == shape[2] or not same_channels)
            if not tensor.is_real
        ]
        return self.rng.choice(alike) if self.rng.random() < 0.85 else self.add_input(shape)

    def one_pixel(self, channels: int) -> int:
        """A single pixel: one that is there, an input, or what a stage makes of one."""
        single = [i for i, tensor in enumerate(self.tensors) if tensor.pixels == 1 and not tensor.is_real]
        alike = [i for i in single if self.tensors[i].channels == channels]
        if alike and self.rng.random() < 0.3:
            return self.rng.choice(alike)
        pixel = self.add_input((1, 1, self.rng.randint(1, 6) if self.rng.random() < 0.6 else channels))
        if self.tensors[pixel].channels == channels and self.rng.random() < 0.5:
            return pixel
        weights = self.weights(channels, 1, 1, self.tensors[pixel].channels)
        table = self.requantization(channels, weights.size // channels)
        self.add_stage(Stage(StageKind.CONV, (pixel,), -1, weights=weights, requantization=table), (1, 1, channels))
        return self.newest

    def finish(self, *, extra_outputs: bool) -> Block:
        chosen = {self.newest}
        written = [stage.output for stage in self.stages if stage.kind is not StageKind.SOURCE]
        if extra_outputs:
            chosen.update(index for index in written if self.rng.random() < 0.3)
        tensors = [
            replace(tensor, storage=Storage.OUTPUT) if index in chosen else tensor
            for index, tensor in enumerate(self.tensors)
        ]
        outputs = sorted(chosen, key=lambda _: self.rng.random())
        inputs = [index for index, tensor in enumerate(tensors) if tensor.storage is Storage.INPUT]
        self.rng.shuffle(inputs)
        return Block(tuple(tensors), tuple(self.stages), tuple(inputs), tuple(outputs))
