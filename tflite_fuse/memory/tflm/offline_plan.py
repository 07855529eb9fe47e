"""The offline memory plan in a model file: read, write, remove.

TensorFlow Lite Micro's file format: metadata named ``OfflineMemoryAllocation`` points to a buffer of little-endian
int32: version, number of subgraphs, number of offsets, then one offset for each tensor of all subgraphs, concatenated.
The runtime's planner places tensors with offset -1. The runtime checks only the number of offsets.
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
"""Bytes: every offset is a multiple of it, and every size is rounded up to it."""

_VERSION = 1
_HEADER = struct.Struct("<3i")
_INT32_MAX = 2**31 - 1


def encode_plan(offsets: Sequence[int], subgraphs: int = 1) -> bytes:
    """Return the metadata buffer of a plan.

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
    """Return the offsets in a metadata buffer in bytes, one per tensor of all subgraphs; -1 if the runtime plans it.

    Bytes after the last offset are ignored, as in the runtime.

    Raises:
        PlanError: the buffer is too short for its header or for the number of offsets in it.
    """
    if len(data) < _HEADER.size:
        raise PlanError(f"the offline memory plan has {len(data)} bytes, its header alone has {_HEADER.size}")
    count = _HEADER.unpack_from(data)[2]
    if not 0 <= count <= (len(data) - _HEADER.size) // 4:
        raise PlanError(f"the offline memory plan announces {count} offsets but holds {(len(data) - 12) // 4}")
    return struct.unpack_from(f"<{count}i", data, _HEADER.size)


def tensor_count(model: Model) -> int:
    """Return the number of tensors of all subgraphs, which is the number of offsets in a plan."""
    return sum(len(graph.tensors) for graph in model.subgraphs)


def read_plan(model: Model) -> tuple[int, ...] | None:
    """Return the offsets of a model's plan in bytes, or None without a plan. The last of several plans counts.

    Raises:
        PlanError: the plan is damaged or has another number of tensors; the runtime would reject it.
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
    """Return whether the model contains an offline memory plan, valid or damaged."""
    return get_metadata(model, METADATA_NAME) is not None


def write_plan(model: Model, offsets: Sequence[int]) -> Model:
    """Return the model with this plan in place of any other.

    Args:
        model: any model.
        offsets: bytes, one per tensor of all subgraphs; -1 if the runtime places the tensor.

    Raises:
        PlanError: wrong number of offsets, or an offset that cannot be stored.
    """
    if len(offsets) != tensor_count(model):
        raise PlanError(f"a plan of {len(offsets)} offsets does not fit a model of {tensor_count(model)} tensors")
    return set_metadata(remove_plan(model), METADATA_NAME, encode_plan(offsets, len(model.subgraphs)))


def remove_plan(model: Model) -> Model:
    """Return the model without its offline memory plan; the same object if it has none.

    A plan is indexed by tensor: callers that add, remove or resize tensors or reorder operators must remove it.
    """
    return remove_metadata(model, METADATA_NAME)
