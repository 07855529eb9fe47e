"""Checks of a block: the same rules that the C library checks before it runs one."""

from __future__ import annotations

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.axes import stage_windows
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, ElementType, Stage, StageKind, Storage
from tflite_fuse.ir.limits import MAX_BYTES, MAX_CHUNK, MAX_EXTENT, MAX_STAGES, MAX_TAPS, MAX_TENSORS, MAX_WINDOW
from tflite_fuse.ops.entry import StageCheck, Window
from tflite_fuse.ops.table import KINDS, remembers

_WRITTEN = (Storage.SCRATCH, Storage.OUTPUT, Storage.PERSISTENT)


def check_block(block: Block) -> None:
    """Check that a block can run.

    Raises:
        BlockError: the message names the tensor or stage and the violated rule.
    """
    if not (1 <= len(block.stages) <= MAX_STAGES and 1 <= len(block.tensors) <= MAX_TENSORS):
        raise BlockError(
            f"The block has {len(block.stages)} stages and {len(block.tensors)} tensors; split it: "
            f"{MAX_STAGES} of each are possible."
        )
    for tensor in block.tensors:
        _check_tensor(tensor)
    _check_operands(block)
    _check_types(block)
    written: set[int] = set()
    for stage in block.stages:
        _check_stage(block, stage, written)
        written.add(stage.output)
    memories = [stage.inputs[-1] for stage in block.stages if remembers(stage, block.tensors)]
    if len(set(memories)) != len(memories):
        raise BlockError("Two stages share a memory.")
    for index, tensor in enumerate(block.tensors):
        if tensor.storage in _WRITTEN and index not in written.union(memories):
            raise BlockError(f"Tensor {tensor.name} is written by no stage.")


def check_config(config: BlockConfig) -> None:
    """Check the numbers of a configuration.

    Raises:
        BlockError: tile or chunk out of range.
    """
    if not (1 <= config.tile_height <= MAX_EXTENT and 1 <= config.tile_width <= MAX_EXTENT):
        raise BlockError(f"Tiles of {config.tile_height} x {config.tile_width} are not within 1...{MAX_EXTENT}.")
    if not 1 <= config.chunk <= MAX_CHUNK:
        raise BlockError(f"A chunk of {config.chunk} pixels is not within 1...{MAX_CHUNK}.")
    if not all(0 <= run <= MAX_CHUNK for run in config.longest_runs):
        raise BlockError(f"Runs of {config.longest_runs} pixels are not within 0...{MAX_CHUNK}.")


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


def _check_types(block: Block) -> None:
    """Check that uint8 tensors are at borders; ``_check_stage`` checks the readers and writers of float32."""
    borders = {*block.inputs, *block.outputs, *block.sourced}
    for index, tensor in enumerate(block.tensors):
        if tensor.element_type in (ElementType.INT8, ElementType.FLOAT32):
            continue
        at_border = index in borders or tensor.storage is Storage.EXTERNAL
        if not at_border or tensor.element_type is not ElementType.UINT8:
            raise BlockError(f"Tensor {tensor.name} is {tensor.element_type.name} where blocks compute in int8.")


def _check_stage(block: Block, stage: Stage, written: set[int]) -> None:
    """Check a stage; ``written`` are the tensors that earlier stages write."""
    tensors, kind = block.tensors, KINDS[stage.kind]
    if not 0 <= stage.output < len(tensors):
        raise BlockError(
            f"The {stage.kind.name} stage that computes number {stage.output} is none of the block's tensors."
        )
    sources = [tensors[index] for index in stage.inputs if 0 <= index < len(tensors)]
    check = StageCheck(stage, sources, tensors[stage.output])
    check.require(check.output.storage in _WRITTEN, "writes to a tensor that is read only")
    outlives = check.output.storage is Storage.PERSISTENT
    check.require(outlives == (stage.kind is StageKind.STATE), "is no STATE that writes what outlives the run")
    check.require(stage.output not in written, "is not the only one to do so")
    fewest, most = kind.inputs
    check.require(fewest <= len(stage.inputs) <= most, f"reads {len(stage.inputs)} tensors")
    for index in stage.inputs:
        check.require(0 <= index < len(tensors), f"reads tensor {index}, which the block does not have")
        whole = tensors[index].storage in (Storage.INPUT, Storage.EXTERNAL)
        whole |= index == stage.inputs[-1] and remembers(stage, tensors)
        check.require(whole or index in written, f"reads {tensors[index].name} before it is computed")
        tensor, reads_real = tensors[index], check.output.is_real if kind.moves else kind.reads_real
        check.require(tensor.is_real == reads_real, f"reads {tensor.name}, of type {tensor.element_type.name}")
    writes = check.output.is_real if kind.moves or stage.kind is StageKind.SOURCE else kind.writes_real
    check.require(check.output.is_real == writes, f"writes elements of type {check.output.element_type.name}")
    _check_wait(block, check, written)
    _check_overwritten(block, check, written)
    _check_window(check, kind.window)
    low, high = stage.activation_min, stage.activation_max
    check.require(-128 <= low <= high <= 127, f"clamps to {low}...{high}")
    check.require(-128 <= stage.pad_value <= 127, f"pads with {stage.pad_value}")
    kind.check(check)


def _check_wait(block: Block, check: StageCheck, written: set[int]) -> None:
    """Check the tensor that a stage waits for without reading it."""
    awaited = check.stage.waits_for
    if awaited < 0:
        return
    check.require(awaited in written, "waits for a tensor that no earlier stage computes")
    tensor = block.tensors[awaited]
    is_computed = tensor.storage in (Storage.SCRATCH, Storage.OUTPUT)
    check.require(is_computed, f"waits for {tensor.name}, which is no ring and no output")
    alike = (tensor.height, tensor.width) == (check.output.height, check.output.width)
    check.require(alike, f"waits for {tensor.name}, which has other rows or columns")


def _check_overwritten(block: Block, check: StageCheck, written: set[int]) -> None:
    """Check the tensor whose pixels a stage replaces by its own."""
    stage, tensor = check.stage, check.stage.overwrites
    if tensor < 0:
        return
    check.require(tensor in stage.inputs and tensor in written, "overwrites a tensor that it does not read")
    source = block.tensors[tensor]
    in_rings = source.storage is Storage.SCRATCH and check.output.storage is Storage.SCRATCH
    check.require(in_rings, f"overwrites {source.name}, but not from ring to ring")
    readers = sum(tensor in each.inputs for each in block.stages)
    check.require(readers == 1, f"overwrites {source.name}, which another stage reads")
    may = KINDS[stage.kind].may_overwrite(stage, source, check.output)
    check.require(may, f"overwrites {source.name}, of which it may need overwritten pixels")


def _check_window(check: StageCheck, window: Window) -> None:
    stage, output = check.stage, check.output
    numbers = (*stage.kernel_size, *stage.stride, *stage.dilation, *stage.spread)
    most = MAX_WINDOW if window in (Window.SLIDING, Window.SPREAD) else 1
    check.require(all(1 <= number <= most for number in numbers), f"has an impossible window {numbers}")
    unused = stage.dilation if window is Window.SPREAD else stage.spread
    check.require(unused == (1, 1), f"has an impossible window {numbers}")
    pads = 0 if window is Window.PIXEL else MAX_WINDOW
    least = -pads if KINDS[stage.kind].cuts else 0
    check.require(all(least <= number <= pads for number in stage.padding), f"has impossible padding {stage.padding}")
    rows, columns = stage_windows(stage)
    tall, wide = (stage.kernel_size[0] if rows.spread == 1 else rows.most(1)), max(columns.most(1), stage.stride[1])
    check.require(tall * wide <= MAX_TAPS, f"spans more than {MAX_TAPS} pixels at once")
    sides = zip((output.height, output.width), stage.stride, stage.extent, strict=True)
    reach = max((size - 1) * stride + extent for size, stride, extent in sides)
    check.require(reach <= 1 << 30, "reaches farther than 2^30 rows or columns")
