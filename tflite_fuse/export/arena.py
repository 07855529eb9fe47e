"""The arena size an exported program declares."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tflite_fuse.memory.tflm.greedy_planner import greedy_head
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT
from tflite_fuse.memory.tflm.struct_sizes import WIDE_ENUMS, Build, Struct
from tflite_fuse.memory.tflm.tail import loading_bytes, predict_tail
from tflite_fuse.model.schema import Model
from tflite_fuse.units import round_up

FULL_STRUCTS = replace(WIDE_ENUMS, node=Struct(44), edge_tensor=Struct(64))
"""TFLM built without ``TF_LITE_STATIC_MEMORY``, as Arduino does, which knows no flags: its structs are larger then."""


@dataclass(frozen=True)
class Arena:
    """Bytes TFLM needs for a model on a 32-bit target with its reference kernels.

    Attributes:
        head: activations and scratch.
        tail: what the runtime keeps for itself.
        total: what AllocateTensors asks for: both, or what is needed for a moment while the model loads, whichever is
            more. A multiple of 16.
        unknown: operators whose needs are not known; empty = the total is exact.
    """

    head: int
    tail: int
    total: int
    unknown: tuple[str, ...]


def arena_for(model: Model, build: Build) -> Arena:
    """The arena for one build of the runtime.

    Raises:
        PlanError: the model's offline plan is damaged.
        ModelError: a dynamic shape.
    """
    head, tail = greedy_head(model), predict_tail(model, build)
    needed = max(head.bytes + tail.total, loading_bytes(model, build))
    return Arena(
        head.bytes, tail.total, round_up(needed, ALIGNMENT), tuple(dict.fromkeys((*head.unknown, *tail.unknown)))
    )
