"""Rings that outlive a run: where each has to lie in a block's state, and that it keeps all pixels of its tensor.

The oldest pixels of a ring are overwritten by the next run's new ones. So a ring of all the tensor's pixels holds, when
a run begins, the earlier steps and room for the new ones: nothing that is still read is ever overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator

from tflite_fuse.fusion.block.enums import StageKind, Storage
from tflite_fuse.proof.block.options import Options
from tflite_fuse.proof.block.regions import Program

_NUMBER = 4
"""Bytes of what stands in front of a ring, to multiples of which it is filled up."""


def state_size(options: Options) -> int:
    """Bytes of a block's state, 0 if it keeps none."""
    return sum(
        -(-(_NUMBER + tensor.height * tensor.width * tensor.channels) // _NUMBER) * _NUMBER
        for tensor in options.tensors
        if tensor.storage == Storage.PERSISTENT
    )


def is_memory(options: Options, t: int) -> bool:
    """Whether a tensor is the last input of one LSTM, read by nobody else, which nobody writes."""
    tensor = options.tensors[t]
    readers = [
        (stage.kind, n) for stage in options.stages for n, read in
        enumerate(options.stage_inputs[stage.first_input :][: stage.input_count]) if read == t
    ]  # fmt: skip
    return tensor.storage == Storage.PERSISTENT and tensor.producer < 0 and readers == [(StageKind.LSTM, 1)]


def state_problems(program: Program) -> Iterator[str]:
    """STATE stages write rings that outlive the run, nothing else does; memories are one pixel of twice three bytes a
    channel of what their LSTM writes. Each lies behind the one before."""
    end = 0
    for t, tensor in enumerate(program.tensors):
        kept = tensor.storage == Storage.PERSISTENT
        written = tensor.producer >= 0 and program.stages[tensor.producer].kind == StageKind.STATE
        reader = next((s for s, inputs in enumerate(program.inputs) if t in inputs[1:]), -1)
        memory = kept and tensor.producer < 0 and reader >= 0 and program.stages[reader].kind == StageKind.LSTM
        if memory:
            half = -(-3 * program.tensors[program.stages[reader].output].channels // 2) * 2
            wanted = (1, 1, 2 * half, 0)
            if (tensor.height, tensor.width, tensor.channels, tensor.zero_point) != wanted:
                yield f"tensor {t} is no memory of {wanted[2]} bytes"
        elif kept != written:
            yield f"tensor {t} has storage {tensor.storage} and is {'' if written else 'not '}the output of a STATE"
        if not kept:
            continue
        if not program.one_tile:
            yield f"tiles write tensor {t}, which outlives the run, again"
        if tensor.producer >= program.header.spatial_stages:
            yield f"tensor {t}, which outlives the run, is written by the tail"
        if tensor.offset != end:
            yield f"tensor {t} lies at byte {tensor.offset} of the state instead of {end}"
        end += -(-(_NUMBER + tensor.height * tensor.width * tensor.channels) // _NUMBER) * _NUMBER
