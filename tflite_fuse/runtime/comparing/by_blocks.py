"""Where no TensorFlow Lite Micro is: each block of a rewritten model run by itself, as C and as numpy.

The proof says that the blocks, decoded from the written bytes, are the original's operators. This compares what the C
library computes for them on this machine with the numpy reference of this package. The two share no code, but both are
ours: it is no witness for TensorFlow Lite Micro, and is called by its name.
"""

from __future__ import annotations

import numpy as np

from tflite_fuse.emit.decode import decode
from tflite_fuse.emit.in_model import blocks_in, executed_macs
from tflite_fuse.errors import RuntimeUnavailableError, VerificationError
from tflite_fuse.ir.block import Block, ElementType, StageKind, Storage
from tflite_fuse.model import Model
from tflite_fuse.notes import Note, note
from tflite_fuse.runtime.library.host import host_library, load_library
from tflite_fuse.runtime.processes.worker import Array
from tflite_fuse.runtime.reference import run_block_reference

MOST_MACS = 100_000_000
"""Multiply-accumulates of the blocks that are run; the numpy reference takes about a second for so many."""


def blocks_beside_reference(model: Model, seed: int) -> tuple[Note, ...]:
    """Run a model's blocks on random inputs, as C and as numpy, and say how many were.

    Blocks that stream, remember or read from outside of the arena are left out, and those beyond ``MOST_MACS`` in all.

    Raises:
        VerificationError: the C library computes other bytes than the reference.
    """
    plans = blocks_in(model)
    if not plans:
        return ()
    try:
        library = load_library(host_library())
    except RuntimeUnavailableError as error:
        return (note("warned", "blocks not run", why=str(error)),)
    rng, macs, left, run = np.random.default_rng(seed), executed_macs(model), MOST_MACS, 0
    for index, plan in plans.items():
        block = decode(plan.encoded.options, plan.encoded.constants).block
        if macs[index] > left or not _stands_alone(block):
            continue
        left -= macs[index]
        run += 1
        inputs = [_random(rng, block, number) for number in block.inputs]
        wanted = run_block_reference(block, inputs)
        found = library.run(plan.encoded.options, plan.encoded.constants, inputs)
        if any(a.tobytes() != b.tobytes() for a, b in zip(wanted, found, strict=True)):
            raise VerificationError(f"block {index} computes other bytes than its reference; nothing was written")
    return (note("run", "blocks by reference", run=run, blocks=len(plans)),)


def _stands_alone(block: Block) -> bool:
    storages = {tensor.storage for tensor in block.tensors}
    types = {block.tensors[number].element_type for number in (*block.inputs, *block.outputs)}
    return (
        not storages & {Storage.EXTERNAL, Storage.PERSISTENT}
        and all(stage.kind not in (StageKind.SOURCE, StageKind.STATE) for stage in block.stages)
        and ElementType.UINT8 not in types
    )


def _random(rng: np.random.Generator, block: Block, number: int) -> Array:
    tensor = block.tensors[number]
    shape = (1, tensor.height, tensor.width, tensor.channels)
    if tensor.is_real:
        return rng.uniform(-4, 4, shape).astype(np.float32)
    return rng.integers(-128, 128, shape).astype(np.int8)
