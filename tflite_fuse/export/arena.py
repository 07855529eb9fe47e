"""The arena size an exported program declares."""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.memory.arena import Arena, ArenaOptions, as_it_stands
from tflite_fuse.memory.tflm.struct_sizes import WIDE_ENUMS, Build, Struct
from tflite_fuse.model.schema import Model

FULL_STRUCTS = replace(WIDE_ENUMS, node=Struct(44), edge_tensor=Struct(64))
"""TFLM built without ``TF_LITE_STATIC_MEMORY``, as Arduino does, which knows no flags: its structs are larger then."""


def arena_for(model: Model, build: Build) -> Arena:
    """The arena for one build of the runtime, with its reference kernels on a 32-bit target.

    Raises:
        PlanError: the model's offline plan is damaged.
        ModelError: a dynamic shape.
    """
    return as_it_stands(model, options=ArenaOptions(build=build))
