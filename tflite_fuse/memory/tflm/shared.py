"""One arena for several models that run one after the other, each by an interpreter over the same ``MicroAllocator``.

The allocator reserves a head that is as large as that of the model with the largest one: activations of one model lie
over those of another. The tails of all models lie one below the other, the allocator's own objects at the end of all.
While a model loads, its lists lie in the head, beside the tails of the models before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.arena import ArenaOptions, with_given_offsets
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT, read_plan
from tflite_fuse.memory.tflm.struct_sizes import ARM, Build
from tflite_fuse.model.schema import Model
from tflite_fuse.units import round_up


def shared_arena(models: Sequence[Model], build: Build = ARM) -> int:
    """Return the bytes of the arena that suffices for all models, in any order of loading.

    Args:
        models: rewritten or not.
        build: struct sizes of the runtime.

    Raises:
        PlanError: a model's offline plan is damaged.
        ModelError: a dynamic shape.
    """
    options = ArenaOptions(build=build)
    arenas = [with_given_offsets(program_of(model), options=options, offsets=read_plan(model)) for model in models]
    once = sum(round_up(struct.bytes, struct.align) for struct in build.allocator)
    tails = once + sum(round_up(arena.tail - once, ALIGNMENT) for arena in arenas)
    loading = max(arena.while_loading - arena.tail for arena in arenas)
    return round_up(tails + max(loading, *(arena.head for arena in arenas)), ALIGNMENT)
