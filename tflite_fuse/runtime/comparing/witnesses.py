"""Runs a rewritten model beside its original: in TensorFlow Lite Micro or, where it refuses the original, LiteRT.

LiteRT is only a second witness: some of its kernels round differently. Blocks in it compute a device's bytes, so equal
bytes confirm the rewrite, and different bytes of a model with blocks prove nothing.

Where TensorFlow Lite Micro is not available, each block runs alone, in the C library on this machine and in this
package's numpy reference. The two share no code, but both are ours: this does not replace TensorFlow Lite Micro as a
witness, and reports name it differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tflite_fuse.check.certificate import Certificate
from tflite_fuse.emit.decode import decode
from tflite_fuse.emit.in_model import blocks_in, executed_macs
from tflite_fuse.emit.stream_time import StreamTime
from tflite_fuse.errors import ModelError, RuntimeUnavailableError, VerificationError
from tflite_fuse.ir.block import Block, ElementType, StageKind, Storage
from tflite_fuse.ir.program import has_blocks
from tflite_fuse.model import Model
from tflite_fuse.notes import Note, note
from tflite_fuse.runtime import litert, tflm
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.comparing.comparison import Comparison, Comparisons
from tflite_fuse.runtime.comparing.over_time import also_over_time, compare_over_time
from tflite_fuse.runtime.comparing.watched import watched
from tflite_fuse.runtime.directed import directed
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.runtime.library.host import host_library, load_library
from tflite_fuse.runtime.processes.worker import Array
from tflite_fuse.runtime.reference import run_block_reference
from tflite_fuse.runtime.streams import make_feed

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


NAMES = "the original", "the rewritten model"


def run_both(
    models: tuple[Model, Model],
    files: tuple[bytes, bytes],
    verify: bool,
    inputs: int,
    seed: int,
    watch: Certificate | None = None,
    stream: StreamTime | None = None,
) -> Comparisons:
    """Run an original and its rewrite, and return the comparisons.

    Args:
        models: the two.
        files: theirs.
        verify: whether they must be run, or only if the runtime accepts the original.
        inputs: number of inputs.
        seed: of generated inputs, and of the search for better ones.
        watch: the certificate, for tensors in blocks (see ``watched``).
        stream: relation of a stream to the first model's window: the two run over a sequence of calls.

    Raises:
        VerificationError: they differ, the rewritten one does not run although the original does, or they must be run
            and the original cannot.
        RuntimeUnavailableError: they must be run and no runtime is installed.
    """
    samples: Sequence[Sequence[Array]] = ()
    try:
        if stream is not None:
            return _over_time(models, files, seed, stream)
        samples = generate_inputs(models[0], inputs, seed)
        seen = watched(models, watch)
        samples = directed(models[0], samples, seen.first, seed)
        oracle = compare(*files, samples, names=NAMES, models=models, watch=seen)
        oracle = also_over_time(oracle, files, models, seed)
    except ModelError as error:
        if runs(models[0], files[0], samples):
            raise VerificationError(
                f"the rewritten model does not run where the original does: {error}; nothing was written"
            ) from error
        if verify:
            raise VerificationError(
                f"it cannot be verified: {error}; nothing was written (without --verify it is proven and written)"
            ) from error
        return _second(models, files, samples, str(error))
    except RuntimeUnavailableError as error:
        if verify:
            raise
        return Comparisons(None, f"not possible on this machine: {error}")
    _refuse_difference(oracle)
    rights = tflm.unconfined()
    notes = [note("run", "inputs", seed=seed, inside=oracle.inside)]
    if watch is not None and watch.narrower:
        notes.append(note("run", "fewer channels", count=watch.narrower))
    notes += [note("run", "calls", calls=oracle.calls)] if oracle.calls else []
    notes += [note("warned", "rights", rights=rights)] if rights else []
    return Comparisons(oracle, notes=(*notes, *_warned(oracle)))


def _warned(oracle: Comparison) -> tuple[Note, ...]:
    return () if oracle.warning is None else (note("warned", "inputs say little", why=oracle.warning),)


def _over_time(models: tuple[Model, Model], files: tuple[bytes, bytes], seed: int, stream: StreamTime) -> Comparisons:
    """Compare a stream with the model over its window."""
    result = compare_over_time(files, models, stream=stream, seed=seed)
    if result.first_difference is not None:
        raise VerificationError(
            f"the stream does not compute the window's bytes: {result.first_difference}; nothing was written"
        )
    return Comparisons(result, notes=(note("run", "stream", calls=result.inputs // 2, seed=seed), *_warned(result)))


def runs(model: Model, file: bytes, samples: Sequence[Sequence[Array]]) -> bool:
    """Return whether the runtime runs a model."""
    try:
        feeds = [make_feed(model, arrays) for arrays in samples]
        tflm.run(file, [feed.inputs for feed in feeds], [feed.outside for feed in feeds])
    except ModelError:
        return False
    return bool(samples)


def compare_in_litert(
    first: Comparisons, models: tuple[Model, Model], files: tuple[bytes, bytes], inputs: int, seed: int
) -> Comparisons:
    """Add a comparison in LiteRT for a file that TensorFlow Lite Micro ran in another form; see ``run_both``."""
    in_litert = _second(models, files, generate_inputs(models[0], inputs, seed), first.why_not or "")
    return replace(first, second=in_litert.second, notes=(*first.notes, *in_litert.notes))


def _second(
    models: tuple[Model, Model], files: tuple[bytes, bytes], samples: Sequence[Sequence[Array]], why_not: str
) -> Comparisons:
    """Return the comparison in LiteRT of models that TensorFlow Lite Micro refuses; different bytes are an error."""
    second, notes = second_witness(models, files, samples, NAMES)
    if second is not None:
        _refuse_difference(second)
    return Comparisons(None, why_not, second, notes)


def second_witness(
    models: tuple[Model, Model], files: tuple[bytes, bytes], samples: Sequence[Sequence[Array]], names: tuple[str, str]
) -> tuple[Comparison | None, tuple[Note, ...]]:
    """Compare in LiteRT two models that TensorFlow Lite Micro cannot compare.

    Args:
        models: the original and its rewrite.
        files: theirs.
        samples: inputs.
        names: of the two models in messages.

    Returns: the comparison, None if LiteRT is not installed or its result would mean nothing; a note says why it would.
    """
    if not litert.available() or not samples:
        return None, ()
    try:
        second = compare(*files, samples, names=names, models=models, runtime=litert)
    except (ModelError, RuntimeUnavailableError) as error:
        return None, (note("warned", "no second witness", why=str(error)),)
    if second.first_difference is not None and any(map(has_blocks, models)):
        why = f"LiteRT's kernels round differently from those of blocks: {second.first_difference}"
        return None, (note("warned", "no second witness", why=why),)
    return second, ()


def _refuse_difference(comparison: Comparison) -> None:
    if comparison.first_difference is not None:
        raise VerificationError(
            f"the rewritten model does not compute the same bytes: {comparison.first_difference}; nothing was written"
        )
