"""The offline memory plan in a model file: read, write, remove.

TensorFlow Lite Micro's file format: metadata named ``OfflineMemoryAllocation`` points to a buffer of little-endian
int32: version, number of subgraphs, number of offsets, then one offset for each tensor of all subgraphs, concatenated.
-1 leaves a tensor to the runtime's own planner. The runtime checks the number of offsets and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tflite_fuse.errors import PlanError
from tflite_fuse.model.edit import get_metadata, remove_metadata, set_metadata
from tflite_fuse.model.schema import Model

METADATA_NAME = "OfflineMemoryAllocation"
ONLINE = -1
ALIGNMENT = 16
"""Bytes: every offset is a multiple of it, every size counts rounded up to it."""

_VERSION = 1
_HEADER = struct.Struct("<3i")
_INT32_MAX = 2**31 - 1


def encode_plan(offsets: Sequence[int], subgraphs: int = 1) -> bytes:
    """The metadata buffer of a plan.

    Args:
        offsets: bytes from the start of the arena's head, or -1, for each tensor of all subgraphs.
        subgraphs: number of subgraphs of the model.

    Raises:
        PlanError: an offset is neither -1 nor a multiple of 16 that fits 31 bits.
    """
    for tensor, offset in enumerate(offsets):
        if offset != ONLINE and (offset < 0 or offset % ALIGNMENT or offset > _INT32_MAX):
            raise PlanError(f"offset {offset} of tensor {tensor} is neither -1 nor a multiple of {ALIGNMENT} in range")
    return _HEADER.pack(_VERSION, subgraphs, len(offsets)) + struct.pack(f"<{len(offsets)}i", *offsets)


def decode_plan(data: bytes) -> tuple[int, ...]:
    """Offsets in a metadata buffer: one per tensor of all subgraphs, -1 = planned by the runtime.

    Bytes after the last offset are ignored, as the runtime does.

    Raises:
        PlanError: the buffer is too short for its header or for the number of offsets it announces.
    """
    if len(data) < _HEADER.size:
        raise PlanError(f"the offline memory plan has {len(data)} bytes, its header alone has {_HEADER.size}")
    count = _HEADER.unpack_from(data)[2]
    if not 0 <= count <= (len(data) - _HEADER.size) // 4:
        raise PlanError(f"the offline memory plan announces {count} offsets but holds {(len(data) - 12) // 4}")
    return struct.unpack_from(f"<{count}i", data, _HEADER.size)


def tensor_count(model: Model) -> int:
    """Tensors of all subgraphs together: the number of offsets a plan must hold."""
    return sum(len(graph.tensors) for graph in model.subgraphs)


def read_plan(model: Model) -> tuple[int, ...] | None:
    """The offsets of the plan in a model, or None where it has none. Several entries: the last, as in the runtime.

    Raises:
        PlanError: the plan is damaged or made for another number of tensors, so that the runtime would refuse it.
    """
    buffers = [entry.buffer for entry in model.metadata or () if entry.name == METADATA_NAME]
    if not buffers:
        return None
    offsets = decode_plan(model.buffers[buffers[-1]].data or b"")
    if len(offsets) != tensor_count(model):
        raise PlanError(
            f"the offline memory plan is made for {len(offsets)} tensors but the model has {tensor_count(model)}"
        )
    return offsets


def has_plan(model: Model) -> bool:
    """Whether the model carries an offline memory plan, good or damaged."""
    return get_metadata(model, METADATA_NAME) is not None


def write_plan(model: Model, offsets: Sequence[int]) -> Model:
    """The model with this plan in place of any other.

    Args:
        model: any model.
        offsets: one per tensor of all subgraphs; -1 = planned by the runtime.

    Raises:
        PlanError: wrong number of offsets, or one that cannot be stored.
    """
    if len(offsets) != tensor_count(model):
        raise PlanError(f"a plan of {len(offsets)} offsets does not fit a model of {tensor_count(model)} tensors")
    return set_metadata(remove_plan(model), METADATA_NAME, encode_plan(offsets, len(model.subgraphs)))


def remove_plan(model: Model) -> Model:
    """The model without its offline memory plan; the same object where it has none.

    The plan is indexed by tensor: a caller that adds, drops or resizes tensors, or reorders operators, must call this.
    """
    return remove_metadata(model, METADATA_NAME)
