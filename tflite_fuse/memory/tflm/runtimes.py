"""Runtimes for which an arena can be computed, by the names used in options."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tflite_fuse.errors import UsageError
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS
from tflite_fuse.memory.tflm.kernel_sets import GENERATIONS, Kernels
from tflite_fuse.memory.tflm.struct_sizes import ARM, WIDE_ENUMS, Build, Struct, of_2024

FULL_STRUCTS = replace(WIDE_ENUMS, node=Struct(44), edge_tensor=Struct(64))
"""Builds without ``TF_LITE_STATIC_MEMORY`` have larger structs; Arduino cannot set this flag."""


@dataclass(frozen=True)
class Runtime:
    """A TensorFlow Lite Micro as it is built into a program.

    Attributes:
        kernels: ``reference``, ``cmsis-nn`` or ``esp-nn``.
        generation: ``2024`` or ``2026``.
        build: its struct sizes, with the kernels of its most common core.
        core: description of the core; empty if any core applies.
    """

    kernels: str
    generation: str
    build: Build
    core: str = ""

    def __str__(self) -> str:
        sets = {"reference": "its reference kernels", "cmsis-nn": "CMSIS-NN", "esp-nn": "ESP-NN"}
        where = f" on {self.core}" if self.core else ""
        return f"TensorFlow Lite Micro of {self.generation} with {sets[self.kernels]}{where}"


DEFAULT_RUNTIME = "reference"


def _named(kernels: str, generation: str, build: Build, core: str, words: str) -> Runtime:
    return Runtime(kernels, generation, replace(build, kernels=Kernels(kernels, generation, core)), words)


RUNTIMES = {
    "reference": _named("reference", "2026", ARM, "", "32-bit Arm"),
    "cmsis-nn": _named("cmsis-nn", "2026", ARM, "dsp", "32-bit Arm"),
    "helium": _named("cmsis-nn", "2026", ARM, "helium", "Arm with Helium"),
    "arduino": _named("cmsis-nn", "2024", of_2024(FULL_STRUCTS), "dsp", "32-bit Arm, as the Arduino library"),
    "esp32": _named("esp-nn", "2026", WIDE_ENUMS, "generic", "an ESP32 or ESP32-C3"),
    "esp32s3": _named("esp-nn", "2026", WIDE_ENUMS, "esp32s3", "an ESP32-S3"),
    "esp32p4": _named("esp-nn", "2026", WIDE_ENUMS, "esp32p4", "an ESP32-P4"),
}
"""Runtimes by name. All have 32 bits; enums take four bytes on Espressif cores and one on Arm."""


def runtime_named(name: str) -> Runtime:
    """Return the runtime with this name.

    Raises:
        UsageError: there is no such runtime.
    """
    if name not in RUNTIMES:
        raise UsageError(f"there is no runtime {name!r}; the runtimes are {', '.join(RUNTIMES)}")
    return RUNTIMES[name]


_OF_FORMAT = {"arduino": "arduino", "platformio": "arduino", "esp-idf": "esp32", "esphome": "esp32"}


def runtime_for(format: str, kernels: str | None = None, generation: str | None = None) -> Runtime:
    """Return the default runtime of an export format, optionally with other kernels or another generation.

    Raises:
        UsageError: an unknown kernel set or generation.
    """
    default = RUNTIMES[_OF_FORMAT[format]]
    kernels, generation = kernels or default.kernels, generation or default.generation
    if kernels not in KERNEL_SETS:
        raise UsageError(f"there is no kernel set {kernels!r}; the sets are {', '.join(KERNEL_SETS)}")
    if generation not in GENERATIONS:
        raise UsageError(f"there is no TensorFlow Lite Micro of {generation!r} here; choose {' or '.join(GENERATIONS)}")
    build = WIDE_ENUMS if _OF_FORMAT[format] == "esp32" else FULL_STRUCTS
    return Runtime(kernels, generation, of_2024(build) if generation == "2024" else build)
