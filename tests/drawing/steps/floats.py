"""Random blocks on float32: every kind of stage, sometimes with an int8 piece in between or at an end."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from tests.drawing.random_blocks import BlockMaker, random_reals
from tflite_fuse.cost.schedule.in_place import with_stages_in_place
from tflite_fuse.ir.block import Block, ElementType, Stage, StageKind, Storage
from tflite_fuse.ops.floats.common import ANY, FloatBounds, FloatWeights
from tflite_fuse.ops.floats.elementwise import JOIN, OPERATIONS, FloatCurve, FloatOperation
from tflite_fuse.ops.floats.library import CURVES, FloatSoftmax, LibraryCurve
from tflite_fuse.ops.floats.reductions import FloatReduction
from tflite_fuse.ops.floats.resize import FloatPlaces, Place, bilinear, copied, window_of
from tflite_fuse.ops.kinds.matrices import FloatMatrixParameters
from tflite_fuse.ops.kinds.moves import ChannelParameters
from tflite_fuse.ops.kinds.resize import nearest

_ROUNDED = sorted(set(range(len(OPERATIONS))) - {JOIN})
"""Operations whose results do not depend on which NaN they read."""

_BOUNDS = (ANY, (-3.4028234663852886e38, 3.4028234663852886e38), (0.0, 6.0), (-1.0, 1.0), (0.0, np.inf))


def _places(
    length: int, size: int, corners: bool, centres: bool, *, interpolates: bool
) -> tuple[tuple[Place, ...], tuple[int, int]]:
    if interpolates:
        return bilinear(length, size, corners, centres)
    places, rate = nearest(length, size, corners, centres)
    return copied(places.tolist()), rate


class FloatMaker(BlockMaker):
    """Grows a block of float32 tensors."""

    def add_tensor(self, shape: tuple[int, int, int], storage: Storage = Storage.SCRATCH) -> int:
        index = super().add_tensor(shape, storage)
        self.make_real(index)
        return index

    def numbers(self, *shape: int) -> np.ndarray:
        """Those of a network mostly; now and then of any size, or none."""
        usual = self.noise.normal(0, 1, shape).astype(np.float32)
        return random_reals(self.noise, shape) if self.rng.random() < 0.2 else usual

    def bounds(self) -> tuple[float, float]:
        return self.rng.choice(_BOUNDS)

    def constants(self, shape: tuple[int, ...], channels: int) -> FloatWeights:
        return FloatWeights(*self.bounds(), self.numbers(channels).tobytes(), self.numbers(*shape).tobytes())

    def dense_constants(self, shape: tuple[int, int], channels: int) -> FloatWeights:
        """Constants of a fully connected layer, in half of the cases with weights in float16."""
        drawn = self.constants(shape, channels)
        if self.rng.random() < 0.5:
            return drawn
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = np.nan_to_num(np.frombuffer(drawn.weights, "<f4").astype("<f2"), posinf=0, neginf=0)
        narrow = narrow.astype("<f4")
        return replace(drawn, weights=narrow.tobytes(), in_float16=True)

    def convolution(self) -> None:
        kind = self.rng.choice([StageKind.CONV, StageKind.CONV, StageKind.DEPTHWISE])
        stage, (height, width) = self.window(kind)
        channels = self.source.channels
        if kind is StageKind.CONV:
            out = self.rng.choice([1, 2, 3, 4, 5, 8, 9])
            shape: tuple[int, ...] = (out, *stage.kernel_size, channels)
        else:
            multiplier = self.rng.choice([1, 1, 1, 2, 3]) if channels < 10 else 1
            out = channels * multiplier
            shape = (*stage.kernel_size, out)
            stage = replace(stage, depth_multiplier=multiplier)
        stage = replace(stage, kind=StageKind[f"FLOAT_{kind.name}"], parameters=self.constants(shape, out))
        self.add_stage(stage, (height, width, out))

    def pool(self) -> None:
        kind = self.rng.choice([StageKind.AVERAGE_POOL, StageKind.MAX_POOL])
        stage, (height, width) = self.window(kind)
        stage = replace(stage, kind=StageKind[f"FLOAT_{kind.name}"], parameters=FloatBounds(*self.bounds()))
        self.add_stage(stage, (height, width, self.source.channels))

    def attention(self) -> None:
        """Pixels times the matrix of a convolution of them, which has as many rows or columns as they have channels."""
        whole, shape = self.newest, self.extent
        self.convolution()
        matrix, by_column, one = self.newest, self.rng.random() < 0.5, self.source
        depth = one.channels if by_column else one.pixels
        if one.pixels > 25:
            return
        self.newest = whole
        weights = self.constants((depth, 1, 1, shape[2]), depth)
        self.add_stage(Stage(StageKind.FLOAT_CONV, (whole,), -1, parameters=weights), (*shape[:2], depth))
        found = FloatMatrixParameters(int(by_column))
        stage = Stage(StageKind.FLOAT_MATRIX_PRODUCT, (self.newest, matrix), -1, parameters=found)
        self.add_stage(stage, (*shape[:2], one.pixels if by_column else one.channels))

    def pixelwise(self) -> None:
        """A convolution of single pixels that keeps the channels, so that it can compute in place."""
        channels = self.source.channels
        weights = self.constants((channels, 1, 1, channels), channels)
        self.add_stage(Stage(StageKind.FLOAT_CONV, (self.newest,), -1, parameters=weights), self.extent)

    def residual(self) -> None:
        """A convolution that keeps the extent and the channels, and what it read added."""
        before, kernel, channels = self.newest, self.rng.choice([1, 3, 3, 5]), self.source.channels
        stage = Stage(StageKind.FLOAT_CONV, (before,), -1, -1, (kernel, kernel), padding=(kernel // 2, kernel // 2))
        shape = (channels, kernel, kernel, channels)
        self.add_stage(replace(stage, parameters=self.constants(shape, channels)), self.extent)
        found = FloatOperation(self.rng.choice(_ROUNDED), 0, *self.bounds())
        self.add_stage(Stage(StageKind.FLOAT_PAIR, (before, self.newest), -1, parameters=found), self.extent)

    def operation(self) -> None:
        shape, newest = self.extent, self.newest
        partner = self.add_input(self.rng.choice([shape, shape, (1, 1, shape[2]), (*shape[:2], 1)]))
        found = FloatOperation(self.rng.choice(_ROUNDED), 0, *self.bounds())
        inputs = (newest, partner) if self.rng.random() < 0.5 else (partner, newest)
        self.add_stage(Stage(StageKind.FLOAT_PAIR, inputs, -1, parameters=found), shape)

    def by_channel(self) -> None:
        channels, place = self.broadcast_channels(), self.rng.randrange(2)
        found = FloatOperation(self.rng.choice(_ROUNDED), place, *self.bounds(), self.numbers(channels).tobytes())
        stage = Stage(StageKind.FLOAT_BY_CHANNEL, (self.newest,), -1, parameters=found)
        self.add_stage(stage, (*self.extent[:2], channels))

    def curve(self) -> None:
        number = self.rng.randrange(6)
        found = FloatCurve(number, *{0: self.bounds(), 1: (0.25, 0.0)}.get(number, ANY))
        self.add_stage(Stage(StageKind.FLOAT_CURVE, (self.newest,), -1, parameters=found), self.extent)

    def library(self) -> None:
        found: object = LibraryCurve(self.rng.randrange(len(CURVES)))
        kind = StageKind.FLOAT_LIBRARY_CURVE
        if self.rng.random() < 0.3:
            kind, found = StageKind.FLOAT_SOFTMAX, FloatSoftmax(self.rng.choice([1.0, 0.5]))
        self.add_stage(Stage(kind, (self.newest,), -1, parameters=found), self.extent)

    def resizing(self) -> None:
        """As the runtime finds places; now and then in wider windows than need be."""
        axes, shape, interpolates = [], [], self.rng.randrange(2)
        for length in (self.source.height, self.source.width):
            size = self.rng.randint(1, min(2 * length + 2, 16))
            corners = self.rng.random() < 0.3
            centres = not corners and self.rng.random() < 0.5
            places, rate = _places(length, size, corners, centres, interpolates=bool(interpolates))
            stride, spread, padding, extent = window_of(places, rate)
            more, behind = self.rng.choice([0, 0, 0, spread]), self.rng.choice([0, 0, 0, spread])
            axes.append((places, extent + more + behind, stride, spread, padding + more))
            shape.append(size)
        (rows, *tall), (columns, *wide) = axes
        kernel, stride, spread, padding = zip(tall, wide, strict=True)
        stage = Stage(
            StageKind.FLOAT_RESIZE, (self.newest,), -1, kernel_size=kernel, stride=stride, spread=spread,
            padding=padding, parameters=FloatPlaces(interpolates, rows, columns),
        )  # fmt: skip
        self.add_stage(stage, (shape[0], shape[1], self.source.channels))

    def zeros(self) -> None:
        super().padding()
        self.stages[-1] = replace(self.stages[-1], pad_value=0)

    def some_channels(self) -> None:
        super().channels()
        found = self.stages[-1].parameters
        assert isinstance(found, ChannelParameters)
        self.stages[-1] = replace(self.stages[-1], parameters=replace(found, fill=0))

    def joined(self) -> None:
        newest, shape = self.newest, self.extent
        partner = self.add_input((*shape[:2], self.rng.randint(1, 4)))
        channels = shape[2] + self.tensors[partner].channels
        inputs = self.rng.choice([(newest, partner), (partner, newest)])
        self.newest = newest
        if channels <= 24:
            self.add_stage(Stage(StageKind.CONCATENATION, inputs, -1), (*shape[:2], channels))

    def joined_rows(self) -> None:
        """The newest tensor and another one, each padded up to where the other one lies."""
        newest, (height, width, channels) = self.newest, self.extent
        more = self.rng.randint(1, 4)
        partner = self.add_input((more, width, channels))
        places = self.rng.choice([(0, height), (more, 0)])
        parts = []
        for part, top in zip((newest, partner), places, strict=True):
            stage = Stage(StageKind.PAD, (part,), -1, padding=(top, 0))
            self.add_stage(stage, (height + more, width, channels))
            parts.append(self.newest)
        stage = Stage(StageKind.FLOAT_PAIR, tuple(parts), -1, parameters=FloatOperation(JOIN, 0, *ANY))
        self.add_stage(stage, (height + more, width, channels))

    def over_channels(self) -> None:
        found = FloatReduction(self.rng.randrange(4))
        stage = Stage(StageKind.FLOAT_CHANNEL_REDUCE, (self.newest,), -1, parameters=found)
        self.add_stage(stage, (*self.extent[:2], 1))

    def first_largest(self) -> None:
        self.add_stage(Stage(StageKind.FLOAT_ARG_MAX, (self.newest,), -1), (*self.extent[:2], 4))
        self.tensors[self.newest] = replace(self.source, element_type=ElementType.INT8)

    def transposed(self) -> None:
        super().transposed()
        stage, shape = self.stages[-1], self.extent
        depth = self.tensors[stage.inputs[0]].channels
        found = self.constants((shape[2], *stage.kernel_size, depth), shape[2])
        self.stages[-1] = replace(
            stage, kind=StageKind.FLOAT_TRANSPOSE_CONV, parameters=found, weights=None, bias=None, requantization=None
        )

    def tail(self) -> None:
        if self.rng.random() < 0.3:
            found = FloatReduction(self.rng.randrange(4))
            stage = Stage(StageKind.FLOAT_GLOBAL_REDUCE, (self.newest,), -1, parameters=found)
            self.add_stage(stage, (1, 1, self.source.channels))
        elif self.rng.random() < 0.6:
            stage = Stage(StageKind.FLOAT_GLOBAL_AVERAGE, (self.newest,), -1, parameters=FloatBounds(*self.bounds()))
            self.add_stage(stage, (1, 1, self.source.channels))
        for _ in range(self.rng.randint(0, 2)):
            self.dense()

    def dense(self) -> None:
        out = self.rng.randint(1, 7)
        shape = (out, self.source.pixels * self.source.channels)
        stage = Stage(StageKind.FLOAT_FULLY_CONNECTED, (self.newest,), -1, parameters=self.dense_constants(shape, out))
        self.add_stage(stage, (1, 1, out))


def float_block(rng: Random, *, largest: int = 10, plain_inputs: bool = False) -> Block:
    """A block of one to about nine stages on float32; in half of them, stages compute in place where they can."""
    maker = FloatMaker(rng, largest=largest, plain_inputs=plain_inputs)
    steps = [maker.convolution, maker.convolution, maker.residual, maker.pool, maker.operation, maker.by_channel]
    steps += [maker.curve, maker.zeros, maker.joined, maker.library, maker.resizing, maker.some_channels, maker.squares]
    steps += [maker.over_channels, maker.transposed, maker.attention, maker.joined_rows, maker.pixelwise]
    maker.convolution()
    for _ in range(rng.randint(0, 6)):
        rng.choice(steps)()
    if rng.random() < 0.3:
        maker.tail()
    if rng.random() < 0.1:
        maker.first_largest()
    block = maker.finish(extra_outputs=rng.random() < 0.15)
    return with_stages_in_place(block) if rng.random() < 0.5 else block
