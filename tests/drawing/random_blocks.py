"""Random blocks: every kind of stage, any window, residuals, joins, several inputs, folded tails.

All randomness comes from one ``random.Random``, so that both a seed and hypothesis (``st.randoms``) can drive it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import numpy as np

from tests.drawing.steps.sums import draw_sums
from tests.drawing.steps.tensors import TensorMaker
from tflite_fuse.cost.schedule.in_place import with_stages_in_place
from tflite_fuse.ir.block import Block, Int8Array, Requantization, Stage, StageKind, Storage
from tflite_fuse.ops.kinds.by_channel import OffsetParameters, ScaleParameters
from tflite_fuse.ops.kinds.lookup import LookupParameters
from tflite_fuse.ops.kinds.matrices import MatrixParameters
from tflite_fuse.ops.kinds.moves import ChannelParameters
from tflite_fuse.ops.kinds.pairs import AddParameters
from tflite_fuse.ops.kinds.resize import ResizeParameters, bilinear, nearest, smallest_window
from tflite_fuse.ops.kinds.softmax import softmax_parameters

WINDOWED = (StageKind.CONV, StageKind.CONV, StageKind.DEPTHWISE, StageKind.AVERAGE_POOL, StageKind.MAX_POOL)


class BlockMaker(TensorMaker):
    """Grows a block stage by stage."""

    def window(self, kind: StageKind) -> tuple[Stage, tuple[int, int]]:
        """Kernel, stride, dilation and padding that fit the newest tensor, and the output's rows and columns."""
        axes = []
        for size in (self.source.height, self.source.width):
            kernel = self.rng.choice([1, 1, 2, 3, 3, 3, self.rng.randint(1, 7)])
            stride = self.rng.choice([1, 1, 1, 2, self.rng.randint(1, 3)])
            dilation = 2 if kind in (StageKind.CONV, StageKind.DEPTHWISE) and self.rng.random() < 0.1 else 1
            extent = (kernel - 1) * dilation + 1
            before, after = self.rng.randint(0, extent - 1), self.rng.randint(0, extent - 1)
            if kind in (StageKind.CONV, StageKind.DEPTHWISE) and size > extent and self.rng.random() < 0.2:
                before, after = -self.rng.randint(0, size - extent), 0  # windows start inside
                after = -self.rng.randint(0, size + before - extent)
            if size + before + after < extent:
                kernel, dilation, extent, before, after = 1, 1, 1, 0, 0
            axes.append((kernel, stride, dilation, before, (size + before + after - extent) // stride + 1))
        (kh, sh, dh, top, height), (kw, sw, dw, left, width) = axes
        stage = Stage(kind, (self.newest,), -1, -1, (kh, kw), (sh, sw), (dh, dw), (top, left))
        return stage, (height, width)

    def windowed(self) -> None:
        kind = self.rng.choice(WINDOWED)
        stage, (height, width) = self.window(kind)
        channels = self.source.channels
        if kind is StageKind.CONV:
            out = self.rng.choice([1, 2, 3, 4, 5, 8, 9])
            weights = self.weights(out, *stage.kernel_size, channels)
        elif kind is StageKind.DEPTHWISE:
            multiplier = self.rng.choice([1, 1, 1, 2, 3]) if channels < 10 else 1
            out = channels * multiplier
            weights = self.weights(*stage.kernel_size, out)
            stage = replace(stage, depth_multiplier=multiplier)
        else:
            self.add_stage(stage, (height, width, channels))
            return
        depth = weights.size // out
        stage = replace(stage, weights=weights, bias=self.bias(out), requantization=self.requantization(out, depth))
        self.add_stage(stage, (height, width, out))

    def keeping(self) -> None:
        """A convolution that keeps the extent, so that a residual can follow."""
        kernel = self.rng.choice([1, 3, 3, 5])
        channels = self.source.channels
        stage = Stage(StageKind.CONV, (self.newest,), -1, -1, (kernel, kernel), padding=(kernel // 2, kernel // 2))
        weights = self.weights(channels, kernel, kernel, channels)
        table = self.requantization(channels, weights.size // channels)
        stage = replace(stage, weights=weights, bias=self.bias(channels), requantization=table)
        self.add_stage(stage, (self.source.height, self.source.width, channels))

    def padding(self) -> None:
        top, bottom, left, right = (self.rng.randint(0, 3) for _ in range(4))
        if self.rng.random() < 0.3:  # it cuts
            top, left = -self.rng.randint(0, self.source.height - 1), -self.rng.randint(0, self.source.width - 1)
            bottom = -self.rng.randint(0, self.source.height + top - 1)
            right = self.rng.choice([right, -self.rng.randint(0, self.source.width + left - 1)])
        shape = self.source.height + top + bottom, self.source.width + left + right, self.source.channels
        value = self.rng.randint(-128, 127)
        self.add_stage(Stage(StageKind.PAD, (self.newest,), -1, padding=(top, left), pad_value=value), shape)

    def addition(self) -> None:
        newest, partner = self.newest, self.partner(same_channels=True)
        inputs = (newest, partner) if self.rng.random() < 0.5 else (partner, newest)
        multipliers = [self.rng.randrange(2**30, 2**31) for _ in range(3)]
        shifts = (-self.rng.randint(0, 3), -self.rng.randint(0, 3), -self.rng.randint(17, 22))
        second = multipliers[1] * self.rng.choice([1, 1, 1, -1])
        add = AddParameters(20, multipliers[0], shifts[0], second, shifts[1], multipliers[2], shifts[2])
        self.newest = newest
        shape = (self.source.height, self.source.width, self.source.channels)
        self.add_stage(Stage(StageKind.ADD, inputs, -1, parameters=add), shape)

    def lookup(self) -> None:
        answers = self.noise.integers(-128, 128, 256).astype(np.int8).tobytes()
        shape = (self.source.height, self.source.width, self.source.channels)
        self.add_stage(Stage(StageKind.LOOKUP, (self.newest,), -1, parameters=LookupParameters(answers)), shape)

    def softmax(self) -> None:
        scale = float(np.float32(2.0 ** self.rng.uniform(-10, 2)))
        parameters = softmax_parameters(scale, self.rng.choice([1.0, 4.0]))
        self.add_stage(Stage(StageKind.SOFTMAX, (self.newest,), -1, parameters=parameters), self.extent)

    def broadcast_channels(self) -> int:
        """Channels of a stage with a constant for each: a source of one may give several."""
        channels = self.source.channels
        return channels if channels > 1 else self.rng.choice([1, 4, 7])

    def scaling(self) -> None:
        channels, noise = self.broadcast_channels(), self.noise
        sides = [(self.rng.randrange(2**30, 2**31), -self.rng.randint(4, 10)) for _ in range(2)]
        factors = tuple((int(a), int(b)) for a, b in noise.integers(-255, 256, (channels, 2)))
        parameters = ScaleParameters(sides[0], sides[1], factors)
        shape = (self.source.height, self.source.width, channels)
        self.add_stage(Stage(StageKind.SCALE, (self.newest,), -1, parameters=parameters), shape)

    def offset(self) -> None:
        channels = self.broadcast_channels()
        multipliers = [self.rng.randrange(2**30, 2**31) for _ in range(2)]
        offsets = tuple(self.noise.integers(-(2**27), 2**27, channels).tolist())
        shifts, sign = (-self.rng.randint(0, 3), -self.rng.randint(17, 22)), self.rng.choice([-1, 1])
        parameters = OffsetParameters(20, multipliers[0], shifts[0], multipliers[1], shifts[1], sign, offsets)
        shape = (self.source.height, self.source.width, channels)
        self.add_stage(Stage(StageKind.OFFSET, (self.newest,), -1, parameters=parameters), shape)

    def product(self) -> None:
        newest, partner = self.newest, self.partner(same_channels=True)
        inputs = (newest, partner) if self.rng.random() < 0.5 else (partner, newest)
        table = self.requantization(1, 3)
        self.newest = newest
        shape = (self.source.height, self.source.width, self.source.channels)
        self.add_stage(Stage(StageKind.MULTIPLY, inputs, -1, requantization=table), shape)

    def attention(self) -> None:
        """Pixels times a matrix: as many of the newest tensor's as it has channels, or those of a convolution of it."""
        (height, width, channels), whole = self.extent, self.newest
        by_column = self.rng.random() < 0.5
        if self.rng.random() < 0.5:
            self.windowed()
        matrix = self.newest
        count, wide = self.source.pixels, self.source.channels
        if count > 64:
            return
        depth = wide if by_column else count
        weights = self.weights(depth, 1, 1, channels)
        table = self.requantization(depth, channels)
        self.newest = whole
        projection = Stage(StageKind.CONV, (whole,), -1, weights=weights, bias=self.bias(depth), requantization=table)
        self.add_stage(projection, (height, width, depth))
        multiplier, shift = self.rng.randrange(2**30, 2**31), -self.rng.randint(4, 12)
        parameters = MatrixParameters(0, multiplier, shift, int(by_column))
        stage = Stage(StageKind.MATRIX_PRODUCT, (self.newest, matrix), -1, parameters=parameters)
        self.add_stage(stage, (height, width, count if by_column else wide))

    def gate(self) -> None:
        """Pixels times the largest of their values, or the difference of both."""
        whole, shape = self.newest, (self.source.height, self.source.width, self.source.channels)
        self.add_stage(Stage(StageKind.CHANNEL_MAX, (whole,), -1), (*shape[:2], 1))
        inputs = self.rng.choice([(whole, self.newest), (self.newest, whole)])
        kind = self.rng.choice([StageKind.MULTIPLY, StageKind.ADD, StageKind.SQUARED_DIFFERENCE])
        if kind is StageKind.MULTIPLY:
            stage = Stage(kind, inputs, -1, requantization=self.requantization(1, 3))
        else:
            left, least = (20, -22) if kind is StageKind.ADD else (7, -24)
            multipliers = [self.rng.randrange(2**30, 2**31) for _ in range(3)]
            numbers = (multipliers[0], -1, multipliers[1], -2, multipliers[2], self.rng.randint(least, -14))
            stage = Stage(kind, inputs, -1, parameters=AddParameters(left, *numbers))
        self.add_stage(stage, shape)

    def first_largest(self) -> None:
        """Numbers of the largest channels, read as four channels by later stages."""
        self.add_stage(Stage(StageKind.ARG_MAX, (self.newest,), -1), (*self.extent[:2], 4))

    def difference(self) -> None:
        newest, partner = self.newest, self.partner(same_channels=True)
        multipliers = [self.rng.randrange(2**30, 2**31) for _ in range(3)]
        shifts = (-self.rng.randint(1, 3), -self.rng.randint(1, 3), -self.rng.randint(14, 24))
        numbers = AddParameters(7, multipliers[0], shifts[0], multipliers[1], shifts[1], multipliers[2], shifts[2])
        self.newest = newest
        shape = (self.source.height, self.source.width, self.source.channels)
        self.add_stage(Stage(StageKind.SQUARED_DIFFERENCE, (newest, partner), -1, parameters=numbers), shape)

    def extreme(self) -> None:
        newest, partner = self.newest, self.partner(same_channels=True)
        kind = self.rng.choice([StageKind.MAXIMUM, StageKind.MINIMUM])
        self.newest = newest
        shape = (self.source.height, self.source.width, self.source.channels)
        self.add_stage(Stage(kind, (newest, partner), -1), shape)

    def concatenation(self) -> None:
        newest = self.newest
        inputs = [newest, *(self.partner(same_channels=False) for _ in range(self.rng.randint(1, 2)))]
        self.rng.shuffle(inputs)
        channels = sum(self.tensors[index].channels for index in inputs)
        if channels <= 24:
            shape = (self.tensors[newest].height, self.tensors[newest].width, channels)
            self.add_stage(Stage(StageKind.CONCATENATION, tuple(inputs), -1), shape)

    def channels(self) -> None:
        there, count = self.source.channels, self.rng.randint(1, 9)
        sources = tuple(self.rng.randint(-1, there - 1) for _ in range(count))
        found = ChannelParameters(sources, self.rng.randint(-128, 127))
        shape = (self.source.height, self.source.width, count)
        self.add_stage(Stage(StageKind.CHANNELS, (self.newest,), -1, parameters=found), shape)

    def resizing(self) -> None:
        """Places that go up at any rate, and windows that hold them, now and then wider than need be."""
        axes, shape = [], []
        for length in (self.source.height, self.source.width):
            size = self.rng.randint(1, min(2 * length + 2, 20))
            places = bilinear if self.rng.random() < 0.5 else nearest
            corners = self.rng.random() < 0.3
            found, rate = places(length, size, corners, not corners and self.rng.random() < 0.5)
            stride, spread, padding, extent = smallest_window(found, rate)
            more, behind = self.rng.choice([0, 0, 0, spread]), self.rng.choice([0, 0, 0, spread])
            axes.append((tuple(found.tolist()), extent + more + behind, stride, spread, padding + more))
            shape.append(size)
        (rows, *tall), (columns, *wide) = axes
        kernel, stride, spread, padding = zip(tall, wide, strict=True)
        parameters = ResizeParameters(rows, columns)
        stage = Stage(
            StageKind.RESIZE,
            (self.newest,),
            -1,
            kernel_size=kernel,
            stride=stride,
            spread=spread,
            padding=padding,
            parameters=parameters,
        )
        self.add_stage(stage, (shape[0], shape[1], self.source.channels))

    def squares(self) -> None:
        """Squares of pixels as channels, or back, or planes as channels, if there are such."""
        size, (height, width, channels) = self.rng.choice([2, 2, 3]), self.extent
        if channels == 1 and height % size == 0 and self.rng.random() < 0.5:
            below = (height // size, 1)
            stage = Stage(StageKind.SPACE_TO_DEPTH, (self.newest,), -1, kernel_size=(size, 1), dilation=below)
            self.add_stage(stage, (height // size, width, size))
            return
        square = (size, size)
        stage = Stage(StageKind.SPACE_TO_DEPTH, (self.newest,), -1, kernel_size=square, stride=square)
        if channels % size**2 == 0:
            before = (size - 1, size - 1)
            stage = replace(stage, kind=StageKind.DEPTH_TO_SPACE, stride=(1, 1), spread=square, padding=before)
            self.add_stage(stage, (height * size, width * size, channels // size**2))
        elif height % size == width % size == 0 and channels < 5:
            self.add_stage(stage, (height // size, width // size, channels * size**2))

    def rows_as_columns(self) -> None:
        height, width, channels = self.extent
        self.add_stage(Stage(StageKind.TRANSPOSE, (self.newest,), -1), (width, height, channels))

    def transposed(self) -> None:
        """Any kernel and distance: now and then windows that meet no pixel at all."""
        axes, shape = [], []
        for length in (self.source.height, self.source.width):
            kernel, spread = self.rng.choice([1, 2, 2, 3, 3, 4, 5]), self.rng.choice([1, 2, 2, 2, 3])
            padding = self.rng.randint(0, kernel - 1)
            shape.append(max(1, min((length - 1) * spread + 1 + padding - self.rng.randint(0, kernel - 1), 20)))
            axes.append((kernel, spread, padding))
        (tall, down, top), (wide, across, left) = axes
        out, channels = self.rng.choice([1, 2, 3, 5]), self.source.channels
        weights = self.weights(out, tall, wide, channels)
        stage = Stage(
            StageKind.TRANSPOSE_CONV,
            (self.newest,),
            -1,
            kernel_size=(tall, wide),
            spread=(down, across),
            padding=(top, left),
            weights=weights,
            bias=self.bias(out),
            requantization=self.requantization(out, weights.size // out),
        )
        self.add_stage(stage, (shape[0], shape[1], out))

    def tail(self) -> None:
        if self.rng.random() < 0.6:
            depth = self.source.pixels
            table = None
            if self.rng.random() < 0.5:
                shift = -round(math.log2(depth)) if self.rng.random() < 0.9 else self.rng.randint(-31, 3)
                table = Requantization(
                    self.noise.integers(2**30, 2**31, 1).astype(np.int32), np.array([shift], np.int32)
                )
            stage = Stage(StageKind.GLOBAL_AVERAGE, (self.newest,), -1, requantization=table)
            if table is None and self.rng.random() < 0.5:
                stage = Stage(StageKind.GLOBAL_MAX, (self.newest,), -1)
            self.add_stage(stage, (1, 1, self.source.channels))
        else:
            self.fully_connected()
        for _ in range(self.rng.randint(0, 2)):
            if self.rng.random() < 0.7:
                self.fully_connected()
            else:
                stage = Stage(self.rng.choice([StageKind.GLOBAL_AVERAGE, StageKind.GLOBAL_MAX]), (self.newest,), -1)
                self.add_stage(stage, (1, 1, self.source.channels))

    def fully_connected(self) -> None:
        out, depth = self.rng.randint(1, 7), self.source.pixels * self.source.channels
        stage = Stage(
            StageKind.FULLY_CONNECTED,
            (self.newest,),
            -1,
            weights=self.weights(out, depth),
            bias=self.bias(out),
            requantization=self.requantization(out, depth),
        )
        self.add_stage(stage, (1, 1, out))


def random_block(rng: Random, *, largest: int = 12, plain_inputs: bool = False) -> Block:
    """A block of one to about nine stages; in half of them, stages compute in place where they can."""
    maker = BlockMaker(rng, largest=largest, plain_inputs=plain_inputs, reals=True)
    steps = [maker.windowed, maker.windowed, maker.keeping, maker.padding, maker.addition, maker.concatenation]
    steps += [maker.lookup, maker.product, maker.difference, maker.scaling, maker.offset, maker.channels]
    steps += [maker.resizing, maker.transposed, maker.there_and_back, maker.extreme, maker.real_pair]
    steps += [maker.squares, maker.softmax, maker.gate, maker.first_largest, maker.attention]
    steps += [maker.rows_as_columns, lambda: draw_sums(maker)]
    maker.windowed()
    for _ in range(rng.randint(0, 6)):
        rng.choice(steps)()
    if rng.random() < 0.3:
        maker.tail()
    if rng.random() < 0.15:
        maker.dequantization()
    block = maker.finish(extra_outputs=rng.random() < 0.15)
    return with_stages_in_place(block) if rng.random() < 0.5 else block


def random_operands(rng: Random, block: Block) -> tuple[list[Int8Array], list[Int8Array], list[Int8Array]]:
    """Values for the block's inputs, external tensors and sources: int8 or float32 [H, W, C] each."""
    noise = np.random.default_rng(rng.randrange(2**32))

    def image(index: int) -> Int8Array:
        tensor = block.tensors[index]
        shape = (tensor.height, tensor.width, tensor.channels)
        if tensor.is_real:
            return random_reals(noise, shape)
        if rng.random() < 0.1:
            return np.full(shape, rng.choice([-128, 127]), np.int8)
        return noise.integers(-128, 128, shape).astype(np.int8)

    external = [index for index, tensor in enumerate(block.tensors) if tensor.storage is Storage.EXTERNAL]
    sources = [stage.output for stage in block.stages if stage.kind is StageKind.SOURCE]
    groups = (block.inputs, external, sources)
    return tuple([image(index) for index in group] for group in groups)  # type: ignore[return-value]


def random_reals(noise: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """float32 of all sizes, halves, and what is no number, among others about as large as images are."""
    odd = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 1e-40, -1e-40, 0.25, -0.25, 0.75, -1.75, 2.0**31]
    usual, wide = noise.normal(0, 20, shape), noise.normal(0, 1, shape) * 10.0 ** noise.integers(-44, 38, shape)
    which = noise.random(shape)
    values = np.where(which < 0.7, usual, np.where(which < 0.85, wide, noise.choice(odd, shape)))
    return values.astype(np.float32)
