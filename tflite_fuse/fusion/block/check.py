"""What every block must fulfil, in one place: the same rules the C library checks before it runs one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.limits import (
    MAX_AVERAGED,
    MAX_BYTES,
    MAX_CHUNK,
    MAX_EXTENT,
    MAX_STAGES,
    MAX_TAPS,
    MAX_TENSORS,
    MAX_WINDOW,
)
from tflite_fuse.fusion.block.stages import Block, BlockConfig, BlockTensor, Stage, StageKind, Storage

_WINDOWED = frozenset({StageKind.CONV, StageKind.DEPTHWISE, StageKind.AVERAGE_POOL, StageKind.MAX_POOL})
_POOLS = frozenset({StageKind.AVERAGE_POOL, StageKind.MAX_POOL})
_REQUANTIZED = frozenset({StageKind.CONV, StageKind.DEPTHWISE, StageKind.FULLY_CONNECTED})
_MAX_ADD_SHIFT = 20


def check_block(block: Block) -> None:
    """Checks that a block can be run.

    Raises:
        BlockError: names the tensor or stage that is wrong, and what is wrong with it.
    """
    if not (1 <= len(block.stages) <= MAX_STAGES and 1 <= len(block.tensors) <= MAX_TENSORS):
        raise BlockError(
            f"The block has {len(block.stages)} stages and {len(block.tensors)} tensors; split it: "
            f"{MAX_STAGES} of each are possible."
        )
    for tensor in block.tensors:
        _check_tensor(tensor)
    _check_operands(block)
    made: set[int] = set()
    for stage in block.stages:
        _StageCheck(block, stage).run(made)
        made.add(stage.output)
    for index, tensor in enumerate(block.tensors):
        if tensor.storage in (Storage.SCRATCH, Storage.OUTPUT) and index not in made:
            raise BlockError(f"Tensor {tensor.name} is written by no stage.")


def check_config(config: BlockConfig) -> None:
    """Checks the numbers of a configuration.

    Raises:
        BlockError: tile or chunk out of range.
    """
    if not (1 <= config.tile_height <= MAX_EXTENT and 1 <= config.tile_width <= MAX_EXTENT):
        raise BlockError(f"Tiles of {config.tile_height} x {config.tile_width} are not within 1...{MAX_EXTENT}.")
    if not 1 <= config.chunk <= MAX_CHUNK:
        raise BlockError(f"A chunk of {config.chunk} pixels is not within 1...{MAX_CHUNK}.")


def _check_tensor(tensor: BlockTensor) -> None:
    extents = (tensor.height, tensor.width)
    if not all(1 <= extent <= MAX_EXTENT for extent in extents) or not 1 <= tensor.nbytes <= MAX_BYTES:
        raise BlockError(
            f"Tensor {tensor.name} is {tensor.height}x{tensor.width}x{tensor.channels}; a block takes 1...{MAX_EXTENT} "
            "rows and columns and less than 2 GiB."
        )
    if not -128 <= tensor.zero_point <= 127:
        raise BlockError(f"Tensor {tensor.name} has zero point {tensor.zero_point}, which is no int8 value.")


def _check_operands(block: Block) -> None:
    for storage, listed in ((Storage.INPUT, block.inputs), (Storage.OUTPUT, block.outputs)):
        stored = [index for index, tensor in enumerate(block.tensors) if tensor.storage is storage]
        if sorted(listed) != stored:
            raise BlockError(f"The block lists tensors {sorted(listed)} as its {storage.name} but stores {stored} so.")


def leaves_image(stage: Stage, source: BlockTensor, output: BlockTensor) -> bool:
    """Whether any window of a stage sees pixels outside its input."""
    return (
        max(stage.padding) > 0
        or (output.height - 1) * stage.stride[0] + stage.extent[0] > source.height
        or (output.width - 1) * stage.stride[1] + stage.extent[1] > source.width
    )


class _StageCheck:
    """The rules of one stage."""

    def __init__(self, block: Block, stage: Stage) -> None:
        self.block, self.stage = block, stage

    def fail(self, problem: str) -> BlockError:
        tensors, index = self.block.tensors, self.stage.output
        name = tensors[index].name if 0 <= index < len(tensors) else f"number {index}"
        return BlockError(f"The {self.stage.kind.name} stage that computes {name} {problem}.")

    def require(self, holds: bool, problem: str) -> None:
        if not holds:
            raise self.fail(problem)

    def run(self, made: set[int]) -> None:
        """Checks the stage; ``made`` are the tensors earlier stages write."""
        self._check_graph(made)
        self._check_numbers()
        if self.stage.kind is StageKind.SOURCE:
            self.require(self.output.storage is Storage.SCRATCH, "does not write to scratch")
            return
        self.sources = [self.block.tensors[index] for index in self.stage.inputs]
        rules: dict[StageKind, Callable[[], None]] = {
            StageKind.CONV: self._check_conv,
            StageKind.DEPTHWISE: self._check_depthwise,
            StageKind.ADD: self._check_add,
            StageKind.PAD: self._check_pad,
            StageKind.AVERAGE_POOL: self._check_pool,
            StageKind.MAX_POOL: self._check_pool,
            StageKind.GLOBAL_AVERAGE: self._check_global_average,
            StageKind.FULLY_CONNECTED: self._check_fully_connected,
            StageKind.CONCATENATION: self._check_concatenation,
        }
        rules[self.stage.kind]()

    @property
    def output(self) -> BlockTensor:
        return self.block.tensors[self.stage.output]

    def _check_graph(self, made: set[int]) -> None:
        stage, tensors = self.stage, self.block.tensors
        self.require(0 <= stage.output < len(tensors), "is none of the block's tensors")
        self.require(self.output.storage in (Storage.SCRATCH, Storage.OUTPUT), "writes to a tensor that is read only")
        self.require(stage.output not in made, "is not the only one to do so")
        counts = {StageKind.ADD: (2, 2), StageKind.CONCATENATION: (1, MAX_TENSORS), StageKind.SOURCE: (0, 0)}
        low, high = counts.get(stage.kind, (1, 1))
        self.require(low <= len(stage.inputs) <= high, f"reads {len(stage.inputs)} tensors")
        for index in stage.inputs:
            self.require(0 <= index < len(tensors), f"reads tensor {index}, which the block does not have")
            whole = tensors[index].storage in (Storage.INPUT, Storage.EXTERNAL)
            self.require(whole or index in made, f"reads {tensors[index].name} before it is computed")

    def _check_numbers(self) -> None:
        stage = self.stage
        window = (*stage.kernel_size, *stage.stride, *stage.dilation)
        most = MAX_WINDOW if stage.kind in _WINDOWED else 1
        self.require(all(1 <= number <= most for number in window), f"has an impossible window {window}")
        pads = MAX_WINDOW if stage.kind in _WINDOWED or stage.kind is StageKind.PAD else 0
        self.require(all(0 <= number <= pads for number in stage.padding), f"has impossible padding {stage.padding}")
        widest = max(stage.extent[1], stage.stride[1])
        self.require(stage.kernel_size[0] * widest <= MAX_TAPS, f"spans more than {MAX_TAPS} pixels at once")
        sides = zip((self.output.height, self.output.width), stage.stride, stage.extent, strict=True)
        reach = max((size - 1) * stride + extent for size, stride, extent in sides)
        self.require(reach <= 1 << 30, "reaches farther than 2^30 rows or columns")
        low, high = stage.activation_min, stage.activation_max
        self.require(-128 <= low <= high <= 127, f"clamps to {low}...{high}")
        self.require(-128 <= stage.pad_value <= 127, f"pads with {stage.pad_value}")

    def _check_same(self, source: BlockTensor, *, channels: bool = True) -> None:
        same = (source.height, source.width) == (self.output.height, self.output.width)
        same = same and (not channels or source.channels == self.output.channels)
        self.require(same, f"reads {source.name}, which has another shape")

    def _check_weights(self, shape: Sequence[int]) -> None:
        weights = self.stage.weights
        self.require(
            weights is not None and weights.shape == tuple(shape) and weights.dtype == np.int8,
            f"needs int8 weights of shape {list(shape)}",
        )
        channels = self.output.channels
        bias, table = self.stage.bias, self.stage.requantization
        self.require(bias is None or bias.shape == (channels,), f"needs {channels} biases")
        self.require(
            table is not None and table.multiplier.shape == table.shift.shape == (channels,),
            f"needs {channels} multipliers and shifts",
        )
        self._check_table()

    def _check_table(self) -> None:
        table = self.stage.requantization
        if table is not None:
            self.require(bool(np.all(table.multiplier > -(2**31))), "has a multiplier of -2^31")
            self.require(bool(np.all((table.shift >= -31) & (table.shift <= 30))), "shifts by more than -31...30")

    def _check_conv(self) -> None:
        self._check_weights((self.output.channels, *self.stage.kernel_size, self.sources[0].channels))

    def _check_depthwise(self) -> None:
        multiplier = self.stage.depth_multiplier
        self.require(
            multiplier >= 1 and self.sources[0].channels * multiplier == self.output.channels,
            f"makes {self.output.channels} channels of {self.sources[0].channels} with multiplier {multiplier}",
        )
        self._check_weights((*self.stage.kernel_size, self.output.channels))

    def _check_add(self) -> None:
        for source in self.sources:
            self._check_same(source)
        add = self.stage.add
        self.require(add is not None, "has no addition parameters")
        if add is not None:
            multipliers = (add.multiplier_0, add.multiplier_1, add.output_multiplier)
            shifts = (add.shift_0, add.shift_1, add.output_shift)
            sound = 0 <= add.left_shift <= _MAX_ADD_SHIFT and all(0 <= m < 2**31 for m in multipliers)
            self.require(sound and all(-31 <= shift <= 0 for shift in shifts), f"has impossible parameters {add}")

    def _check_pad(self) -> None:
        source, (top, left) = self.sources[0], self.stage.padding
        inside = top + source.height <= self.output.height and left + source.width <= self.output.width
        self.require(inside and source.channels == self.output.channels, f"cuts {source.name}")

    def _check_pool(self) -> None:
        source, stage = self.sources[0], self.stage
        self.require(source.channels == self.output.channels, "changes the number of channels")
        self.require(stage.dilation == (1, 1), "has a dilated window")
        sides = zip(
            (source.height, source.width),
            (self.output.height, self.output.width),
            stage.kernel_size,
            stage.stride,
            stage.padding,
            strict=True,
        )
        for length, size, kernel, stride, padding in sides:
            inside = padding < kernel and (size - 1) * stride - padding < length
            self.require(inside, "has a window with no pixel of its input")

    def _check_global_average(self) -> None:
        source, table = self.sources[0], self.stage.requantization
        self.require(source.channels == self.output.channels, "changes the number of channels")
        self.require(self.output.pixels == 1, "writes more than one pixel")
        self.require(source.pixels <= MAX_AVERAGED, f"averages more than {MAX_AVERAGED} pixels")
        one = table is None or table.multiplier.shape == table.shift.shape == (1,)
        self.require(one, "needs one multiplier and shift")
        self._check_table()

    def _check_fully_connected(self) -> None:
        self.require(self.output.pixels == 1, "writes more than one pixel")
        self.require(self.sources[0].pixels <= MAX_AVERAGED, f"reads more than {MAX_AVERAGED} pixels")
        self._check_weights((self.output.channels, self.sources[0].nbytes))

    def _check_concatenation(self) -> None:
        for source in self.sources:
            self._check_same(source, channels=False)
        joined = sum(source.channels for source in self.sources)
        self.require(joined == self.output.channels, f"joins {joined} channels into {self.output.channels}")
