"""Runs each block of a rewritten model alone, in C and in numpy, where TensorFlow Lite Micro is not available.

The proof shows that the written blocks are the original's operators. Here the C library's results on this machine are
compared with this package's numpy reference. The two share no code, but both are ours: this does not replace TensorFlow
Lite Micro as a witness, and reports name it differently.
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
"""Most multiply-accumulates of the blocks that are run: about a second in the numpy reference."""


def blocks_beside_reference(model: Model, seed: int) -> tuple[Note, ...]:
    """Run a model's blocks on random inputs in C and in numpy, and return notes with their number.

    Blocks that stream, keep a state or read from outside the arena are left out, and those beyond ``MOST_MACS`` in
    total.

    Raises:
        VerificationError: the C library's bytes differ from the reference's.
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
        expected = run_block_reference(block, inputs)
        outputs = library.run(plan.encoded.options, plan.encoded.constants, inputs)
        if any(a.tobytes() != b.tobytes() for a, b in zip(expected, outputs, strict=True)):
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
