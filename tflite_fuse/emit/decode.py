"""Decoding of a custom operator's options and constants to a block, for reports, tests and files of others.

The bytes are untrusted: the result is always a block or a ``BlockError``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflite_fuse.cost.schedule.tile_order import SCRATCH_ALIGNMENT
from tflite_fuse.emit.encode import operand_numbers, outside_tensors
from tflite_fuse.emit.options import Options, read_options, require_checksum
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, ElementType, Stage, StageKind, Storage
from tflite_fuse.ir.limits import MAX_BYTES
from tflite_fuse.ir.structs import ALIGNMENT, NONE, TensorDesc
from tflite_fuse.ops.check import check_block, check_config
from tflite_fuse.ops.entry import StoredTables, Window
from tflite_fuse.ops.kinds.state import state_offsets
from tflite_fuse.ops.packing import WeightLayout
from tflite_fuse.ops.table import KINDS


@dataclass(frozen=True)
class DecodedBlock:
    """A block decoded from a model, with its configuration.

    Attributes:
        block: names are ``tensor 0`` and so on, ``operator`` is −1, a missing bias is zeros.
        config: its tiles and chunk.
        capacities: pixels in the ring of each tensor; 0 outside scratch.
        offsets: byte offset in scratch of each tensor; −1 outside scratch.
        driven: the tensor that is computed tile by tile.
        spatial_stages: number of stages that run tile by tile.
        scratch_bytes: bytes of scratch in total.
        outside: for each external tensor, and each output of a SOURCE stage, its number among the model's.
        slow: for each input and output in the slow memory, its offset there in bytes.
    """

    block: Block
    config: BlockConfig
    capacities: tuple[int, ...]
    offsets: tuple[int, ...]
    driven: int
    spatial_stages: int
    scratch_bytes: int
    outside: dict[int, int]
    slow: dict[int, int]


def decode(options: bytes, constants: bytes) -> DecodedBlock:
    """Return the block in a custom operator.

    Args:
        options: the operator's custom options.
        constants: bytes of its last input.

    Raises:
        BlockError: the bytes are damaged, of another version, or describe an impossible block.
    """
    parsed = read_options(options)
    require_checksum(options, constants)
    tensors = tuple(_tensor(index, desc) for index, desc in enumerate(parsed.tensors))
    stages = tuple(_stage(parsed, tensors, index, constants) for index in range(len(parsed.stages)))
    block = Block(tensors, stages, _operands(parsed, Storage.INPUT), _operands(parsed, Storage.OUTPUT))
    header, runs = parsed.header, tuple(stage.longest_run for stage in parsed.stages)
    ahead = frozenset(number for number, stage in enumerate(parsed.stages) if stage.runs_ahead)
    if any(parsed.stages[number].runs_ahead != 1 for number in ahead):
        raise BlockError("A stage of the fused block has an unknown value of runs_ahead.")
    config = BlockConfig(header.tile_height, header.tile_width, header.chunk, runs, ahead)
    check_block(block)
    check_config(config)
    _check_placement(parsed, block)
    in_scratch = [tensor.storage is Storage.SCRATCH for tensor in tensors]
    return DecodedBlock(
        block=block,
        config=config,
        capacities=tuple(
            desc.capacity if inside else 0 for desc, inside in zip(parsed.tensors, in_scratch, strict=True)
        ),
        offsets=tuple(desc.offset if inside else NONE for desc, inside in zip(parsed.tensors, in_scratch, strict=True)),
        driven=parsed.header.driven,
        spatial_stages=parsed.header.spatial_stages,
        scratch_bytes=parsed.header.scratch_bytes,
        outside=_outside_numbers(parsed, block),
        slow={index: desc.offset for index, desc in enumerate(parsed.tensors) if desc.region},
    )


# ---- Tensors and stages ----


def _tensor(index: int, desc: TensorDesc) -> BlockTensor:
    if desc.storage not in list(Storage):
        raise BlockError(f"Tensor {index} of the fused block has unknown storage {desc.storage}.")
    if desc.element_type not in list(ElementType):
        raise BlockError(f"Tensor {index} of the fused block has unknown type {desc.element_type}.")
    extents = desc.height, desc.width, desc.channels
    if min(extents) < 1:
        raise BlockError(f"Tensor {index} of the fused block is {desc.height}x{desc.width}x{desc.channels}.")
    return BlockTensor(
        f"tensor {index}", *extents, desc.zero_point, Storage(desc.storage), ElementType(desc.element_type)
    )


def _operands(options: Options, storage: Storage) -> tuple[int, ...]:
    """Return the tensors of a storage by their operand numbers, which must be 0, 1, 2 and so on."""
    stored = [index for index, desc in enumerate(options.tensors) if desc.storage == storage]
    stored.sort(key=lambda index: options.tensors[index].operand)
    return tuple(stored)


def _outside_numbers(options: Options, block: Block) -> dict[int, int]:
    """Return the operand numbers of tensors outside the arena: any number, as all blocks of a model share them."""
    return {index: options.tensors[index].operand for group in outside_tensors(block) for index in group}


def _check_placement(options: Options, block: Block) -> None:
    numbers = {**operand_numbers(block), **_outside_numbers(options, block)}
    producer = {stage.output: index for index, stage in enumerate(block.stages)}
    header, (in_state, _) = options.header, state_offsets(block.tensors)
    if not 0 <= header.driven < len(block.tensors) or not 0 <= header.spatial_stages <= len(block.stages):
        raise BlockError("The fused block's options name a driven tensor or stage that does not exist.")
    if not 0 <= header.scratch_bytes <= MAX_BYTES:
        raise BlockError(f"The fused block declares {header.scratch_bytes} bytes of scratch.")
    for index, desc in enumerate(options.tensors):
        if desc.operand != numbers.get(index, 0) or desc.producer != producer.get(index, NONE):
            raise BlockError(f"Tensor {index} of the fused block has the wrong operand number or producer.")
        whole = desc.storage in (Storage.INPUT, Storage.OUTPUT) and desc.element_type != ElementType.UINT8
        if desc.region not in (0, 1) or (desc.region and (not whole or desc.offset < 0 or desc.offset % ALIGNMENT)):
            raise BlockError(f"Tensor {index} of the fused block has an invalid memory region or offset.")
        if desc.storage == Storage.SCRATCH:
            end = desc.offset + desc.capacity * block.tensors[index].pixel_bytes
            if desc.offset < 0 or not 1 <= desc.capacity <= desc.height * desc.width or end > header.scratch_bytes:
                raise BlockError(f"Tensor {index} of the fused block lies outside its scratch memory.")
            if desc.offset % SCRATCH_ALIGNMENT:
                raise BlockError(f"Tensor {index} of the fused block lies at byte {desc.offset} of its scratch memory.")
        if desc.storage == Storage.PERSISTENT and (desc.offset, desc.capacity) != (
            in_state[index],
            block.tensors[index].pixels,
        ):
            raise BlockError(f"Tensor {index} of the fused block has the wrong offset or capacity in the state.")


def _stage(options: Options, tensors: Sequence[BlockTensor], index: int, constants: bytes) -> Stage:
    """Return a stage with its constants. Raises: BlockError: a number of it is unknown or impossible."""
    desc = options.stages[index]
    if desc.kind not in list(StageKind):
        raise BlockError(f"Stage {index} of the fused block has unknown kind {desc.kind}.")
    if desc.weight_layout not in list(WeightLayout):
        raise BlockError(f"Stage {index} of the fused block has unknown weight layout {desc.weight_layout}.")
    inputs = options.stage_inputs[max(0, desc.first_input) :][: desc.input_count]
    if desc.first_input < 0 or len(inputs) != desc.input_count:
        raise BlockError(f"Stage {index} of the fused block reads beyond the list of inputs.")
    awaited = (desc.waits_for - 1,) if desc.waits_for else ()
    if not all(0 <= number < len(tensors) for number in (desc.output, *inputs, *awaited)):
        raise BlockError(f"Stage {index} of the fused block names a tensor that does not exist.")
    kind = KINDS[StageKind(desc.kind)]
    if not kind.inputs[0] <= len(inputs) <= kind.inputs[1]:
        raise BlockError(f"Stage {index} of the fused block reads {len(inputs)} tensors.")
    dilation = desc.dilation_height, desc.dilation_width
    stage = Stage(
        kind=kind.number,
        inputs=inputs,
        output=desc.output,
        waits_for=desc.waits_for - 1,
        overwrites=options.tensors[desc.output].overwrites - 1,
        kernel_size=(desc.kernel_height, desc.kernel_width),
        stride=(desc.stride_height, desc.stride_width),
        dilation=(1, 1) if kind.window is Window.SPREAD else dilation,
        spread=dilation if kind.window is Window.SPREAD else (1, 1),
        padding=(desc.pad_top, desc.pad_left),
        depth_multiplier=desc.depth_multiplier,
        activation_min=desc.activation_min,
        activation_max=desc.activation_max,
    )
    offsets = desc.weights_offset, desc.table_offset, desc.pad_offset
    return kind.constants.decode(stage, tensors, StoredTables(constants, WeightLayout(desc.weight_layout), *offsets))
