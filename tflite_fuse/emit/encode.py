"""Encoding of a block and its schedule as options and constants of the custom operator.

The options are a FlatBuffer of ``schemas/fused_block.fbs``; the constants are one block of bytes with weights, tables
and padding, every section at a multiple of 16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np

from tflite_fuse.cost.schedule.schedule import Schedule
from tflite_fuse.emit.options import Options, write_options
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.axes import stage_windows
from tflite_fuse.ir.block import Block, BlockTensor, Stage, Storage
from tflite_fuse.ir.limits import MAX_BYTES, MAX_OPERAND
from tflite_fuse.ir.structs import ALIGNMENT, NONE, BlockHeader, StageDesc, TensorDesc
from tflite_fuse.ops.check import check_block, check_config
from tflite_fuse.ops.entry import Tables, Window
from tflite_fuse.ops.kinds.state import state_offsets
from tflite_fuse.ops.table import KINDS


@dataclass(frozen=True)
class EncodedBlock:
    """Bytes of a block in its custom operator.

    Attributes:
        options: the operator's custom options.
        constants: bytes of the constant tensor, its last input.
        scratch_bytes: size of the scratch tensor, its last output.
    """

    options: bytes
    constants: bytes
    scratch_bytes: int


def encode(
    block: Block, schedule: Schedule, outside: Mapping[int, int] | None = None, slow: Mapping[int, int] | None = None
) -> EncodedBlock:
    """Return the options and constants of a block under a schedule.

    Args:
        block, schedule: the block and its schedule.
        outside: for each EXTERNAL tensor, and each output of a SOURCE stage, its number among a model's external
            tensors or sources, which all blocks of a model share. None numbers them in the block's own order.
        slow: for each input and output in the slow memory, its offset there in bytes.

    Raises:
        BlockError: the block is inconsistent, or too large for the format.
    """
    check_block(block)
    check_config(schedule.config)
    tables = [KINDS[stage.kind].constants.encode(stage, block.tensors) for stage in block.stages]
    constants = _Constants(block, tables)
    starts = np.cumsum([0, *(len(stage.inputs) for stage in block.stages)]).tolist()
    runs = chain(schedule.config.longest_runs, repeat(0))
    stages = tuple(
        _describe_stage(block, stage, first, accumulator, table, constants)._replace(
            longest_run=run, runs_ahead=int(number in schedule.config.ahead)
        )
        for number, (stage, first, accumulator, table, run) in enumerate(
            zip(block.stages, starts, schedule.accumulator_offsets, tables, runs, strict=False)
        )
    )
    options = Options(
        header=BlockHeader(
            tile_height=schedule.config.tile_height,
            tile_width=schedule.config.tile_width,
            chunk=schedule.config.chunk,
            driven=schedule.driven,
            spatial_stages=schedule.spatial_stages,
            scratch_bytes=schedule.scratch_bytes,
        ),
        tensors=tuple(_describe_tensors(block, schedule, outside or {}, slow or {})),
        stages=stages,
        stage_inputs=tuple(index for stage in block.stages for index in stage.inputs),
    )
    blob = constants.to_bytes()
    if max(len(blob), schedule.scratch_bytes) > MAX_BYTES:
        raise BlockError("The block's constants or scratch memory exceed 2 GiB; split it.")
    return EncodedBlock(write_options(options, blob), blob, schedule.scratch_bytes)


# ---- Tensors and stages ----


def _describe_tensors(
    block: Block, schedule: Schedule, outside: Mapping[int, int], slow: Mapping[int, int]
) -> Iterable[TensorDesc]:
    producer = {stage.output: index for index, stage in enumerate(block.stages)}
    operand = {**operand_numbers(block), **outside}
    overwrites = {stage.output: stage.overwrites + 1 for stage in block.stages}
    in_state, _ = state_offsets(block.tensors)
    for index, tensor in enumerate(block.tensors):
        if not 0 <= operand.get(index, 0) <= MAX_OPERAND:
            raise BlockError(f"Tensor {tensor.name} is external tensor or source {operand[index]}.")
        yield TensorDesc(
            height=tensor.height,
            width=tensor.width,
            channels=tensor.channels,
            zero_point=tensor.zero_point,
            storage=int(tensor.storage),
            element_type=int(tensor.element_type),
            overwrites=overwrites.get(index, 0),
            operand=operand.get(index, 0),
            region=int(index in slow),
            producer=producer.get(index, NONE),
            capacity=tensor.pixels if index in in_state else schedule.capacities[index],
            offset=slow.get(index, in_state.get(index, max(0, schedule.offsets[index]))),
        )


def operand_numbers(block: Block) -> dict[int, int]:
    """Return the number of each tensor among the block's inputs, outputs, external tensors or sources."""
    groups = (block.inputs, block.outputs, *outside_tensors(block))
    return {index: number for group in groups for number, index in enumerate(group)}


def outside_tensors(block: Block) -> tuple[list[int], list[int]]:
    """Return the block's external tensors, and the outputs of its SOURCE stages."""
    external = [index for index, tensor in enumerate(block.tensors) if tensor.storage is Storage.EXTERNAL]
    return external, list(block.sourced)


def _describe_stage(
    block: Block, stage: Stage, first: int, accumulator: int, tables: Tables, constants: _Constants
) -> StageDesc:
    return StageDesc(
        kind=int(stage.kind),
        output=stage.output,
        first_input=first,
        input_count=len(stage.inputs),
        waits_for=stage.waits_for + 1,
        kernel_height=stage.kernel_size[0],
        kernel_width=stage.kernel_size[1],
        stride_height=stage.stride[0],
        stride_width=stage.stride[1],
        dilation_height=stage.dilation[0] * stage.spread[0],
        dilation_width=stage.dilation[1] * stage.spread[1],
        pad_top=stage.padding[0],
        pad_left=stage.padding[1],
        depth_multiplier=stage.depth_multiplier,
        activation_min=stage.activation_min,
        activation_max=stage.activation_max,
        weight_layout=tables.layout,
        weights_offset=constants.add(tables.weights) if tables.weights else NONE,
        table_offset=constants.add(tables.table) if tables.table else NONE,
        pad_offset=constants.pad(stage),
        accumulator_offset=accumulator,
    )


# ---- Constants ----


class _Constants:
    """Sections of bytes; stages with the same padding value share its pixels."""

    def __init__(self, block: Block, tables: Sequence[Tables]) -> None:
        self._data = bytearray()
        self._pads: dict[int, int] = {}
        pairs = zip(block.stages, tables, strict=True)
        padded = [stage for stage, table in pairs if table.looks_outside or _leaves_input(stage, block.tensors)]
        sources = {stage.output: (stage, block.tensors[stage.inputs[0]]) for stage in padded}
        self._padding = {out: KINDS[stage.kind].outside(stage, source) for out, (stage, source) in sources.items()}
        self._pad_bytes = max((source.pixel_bytes for _, source in sources.values()), default=0)

    def add(self, section: bytes) -> int:
        offset = len(self._data)
        self._data += section + bytes(-len(section) % ALIGNMENT)
        return offset

    def pad(self, stage: Stage) -> int:
        value = self._padding.get(stage.output)
        if value is None:
            return NONE
        if value not in self._pads:
            self._pads[value] = self.add(np.full(self._pad_bytes, value, np.int8).tobytes())
        return self._pads[value]

    def to_bytes(self) -> bytes:
        """Return the sections, padded to at least one byte, because a tensor cannot be empty."""
        return bytes(self._data) or bytes(ALIGNMENT)


def _leaves_input(stage: Stage, tensors: Sequence[BlockTensor]) -> bool:
    """Return whether any window of a stage covers pixels outside its input."""
    if KINDS[stage.kind].window is Window.PIXEL:
        return False
    source, output = tensors[stage.inputs[0]], tensors[stage.output]
    sizes = ((output.height, source.height), (output.width, source.width))
    windows = zip(stage_windows(stage), sizes, strict=True)
    return any(window.first(0) < 0 or window.end(outputs) > length for window, (outputs, length) in windows)
