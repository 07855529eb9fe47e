"""The arena that an exported program declares: enough for its runtime and kernels on every core."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.arena import Arena, ArenaOptions, with_given_offsets
from tflite_fuse.memory.tflm import esp_nn
from tflite_fuse.memory.tflm.apart import Apart, arenas_apart
from tflite_fuse.memory.tflm.kernel_sets import Kernels, variants
from tflite_fuse.memory.tflm.offline_plan import read_plan
from tflite_fuse.memory.tflm.runtimes import Runtime
from tflite_fuse.memory.tflm.struct_sizes import Build
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.units import round_up

_CONDITIONS = {
    "helium": "defined(__ARM_FEATURE_MVE)",
    "esp32s3": "defined(CONFIG_IDF_TARGET_ESP32S3)",
    "esp32p4": "defined(CONFIG_IDF_TARGET_ESP32P4)",
}
_CORES = {"helium": "cores with Helium", "esp32s3": "the ESP32-S3", "esp32p4": "the ESP32-P4"}

_SHARE = 32
"""Share of the head that is added as a margin, because scratch differs between releases of ESP-NN."""


@dataclass(frozen=True)
class Declared:
    """The arena to declare on one kind of core.

    Attributes:
        core: the core in words; empty for all others.
        condition: of the preprocessor; empty for all others.
        arena: the arena for the runtime.
        margin: bytes added for uncertain scratch.
        apart: the same in two arrays, without the margin.
    """

    core: str
    condition: str
    arena: Arena
    margin: int
    apart: Apart

    @property
    def nbytes(self) -> int:
        return self.arena.needed + self.margin


def declared_arenas(model: Model, runtime: Runtime) -> tuple[Declared, ...]:
    """Return the arenas by core, the one for all other cores last; cores with that size have no entry of their own.

    Raises:
        PlanError: the model's offline plan is damaged.
        ModelError: a dynamic shape.
    """
    usual, *by_core = (_declared(model, runtime, kernels) for kernels in variants(runtime.kernels, runtime.generation))
    return (*(other for other in by_core if other.nbytes != usual.nbytes), usual)


def _declared(model: Model, runtime: Runtime, kernels: Kernels) -> Declared:
    build = replace(runtime.build, kernels=kernels)
    arena = arena_for(model, build)
    operators = [operator_name(model, operator) for graph in model.subgraphs for operator in graph.operators]
    certain = kernels.name != "esp-nn" or esp_nn.OPERATORS.isdisjoint(operators)
    margin = 0 if certain else round_up(arena.head // _SHARE + 1, 16)
    apart = arenas_apart(program_of(model), arena.head, build, read_plan(model))
    return Declared(_CORES.get(kernels.core, ""), _CONDITIONS.get(kernels.core, ""), arena, margin, apart)


def arena_for(model: Model, build: Build) -> Arena:
    """Return the arena for one build of the runtime on a 32-bit target.

    Raises:
        PlanError: the model's offline plan is damaged.
        ModelError: a dynamic shape.
    """
    return with_given_offsets(program_of(model), options=ArenaOptions(build=build), offsets=read_plan(model))
