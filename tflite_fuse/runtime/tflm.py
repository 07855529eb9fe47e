"""Runs models in TensorFlow Lite Micro, the ``tflite-micro`` wheel, and reads its arena.

Its reference kernels define *bit-exact* in this package. The wheel is optional (extra ``verify``) and exists only for
Linux on x86-64. The head that it reports equals a device's (same planner); its tail is that of a 64-bit machine and
larger than a device's.
"""

from __future__ import annotations

import contextlib
import importlib.util
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tflite_fuse.errors import ModelError, how_to_install
from tflite_fuse.model.file import custom_codes
from tflite_fuse.runtime.library.sources import kind_for
from tflite_fuse.runtime.processes.worker import Array, Worker, idle_kind, installed_version, worker
from tflite_fuse.runtime.streams import Outside

RUNTIME_NAME = "tflite-micro"

_TOTAL = re.compile(r"Arena allocation (total|head|tail) (\d+) bytes")
_SECTION = re.compile(r"'([^']+)' used (\d+) bytes")


@dataclass(frozen=True)
class Allocations:
    """Bytes that TensorFlow Lite Micro uses of its arena on this 64-bit machine.

    Attributes:
        head_bytes: planned, reusable part: activations and scratch. Equal on every machine.
        tail_bytes: the part that the runtime keeps for itself.
        arena_used_bytes: head and tail.
        sections: bytes of parts of the tail by the runtime's names, such as ``Persistent buffer data``.
    """

    head_bytes: int
    tail_bytes: int
    arena_used_bytes: int
    sections: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RunResult:
    """Outputs of a run, ``outputs[input index][output index]``, and the arena's allocations."""

    outputs: list[list[Array]]
    allocations: Allocations


def available() -> bool:
    """Return whether the wheel is installed."""
    return importlib.util.find_spec("tflite_micro") is not None


def built_for_this_machine() -> bool:
    """Return whether the wheel exists for this machine."""
    return (sys.platform, platform.machine()) == ("linux", "x86_64")


def how_to_get() -> str:
    """Return the command that installs the wheel, or the reason why there is none for this machine."""
    if built_for_this_machine():
        return how_to_install("verify")
    return f"its package is for Linux on x86-64, and this is {platform.system()} on {platform.machine()}"


def runtime_version() -> str | None:
    """Return the version of the installed wheel, None without one."""
    return installed_version("tflite_micro")


def unconfined() -> str:
    """Return the needless rights that a model running here keeps, in words; empty if it keeps none."""
    with worker(idle_kind("tflm")) as any_worker:
        return any_worker.unconfined


@contextlib.contextmanager
def session(model_bytes: bytes, name: str = "the model", *, sanitize: bool = False) -> Iterator[Worker]:
    """Return a context with a worker that has loaded the model, with our operator if the model has fused blocks.

    Args:
        model_bytes: a .tflite file.
        name: of the model in messages.
        sanitize: see ``kind_for``.

    Raises:
        ModelError: the runtime cannot load the model; with its reason.
        RuntimeUnavailableError: the wheel is not installed, or a fused model has no C compiler to run with.
    """
    with worker(kind_for("tflm", model_bytes, sanitize=sanitize)) as loaded:
        try:
            loaded.load(model_bytes, name)
        except ModelError as error:
            raise _with_custom_names(error, model_bytes) from error
        yield loaded


def _with_custom_names(error: ModelError, model_bytes: bytes) -> ModelError:
    """Add the names of custom operators to the error; the runtime calls each of them CUSTOM."""
    names = sorted(custom_codes(model_bytes)) if "op code CUSTOM" in str(error) else ()
    return ModelError(f"{error} (the model's custom operators: {', '.join(names)})") if names else error


def run(
    model_bytes: bytes,
    inputs: Sequence[Sequence[Array]],
    outside: Sequence[Sequence[Outside]] | None = None,
    *,
    reset: bool = True,
    timeout: float | None = None,
    sanitize: bool = False,
) -> RunResult:
    """Run a model on each element of ``inputs`` (one array per model input, of its exact shape and type).

    Args:
        model_bytes: a .tflite file.
        inputs: arrays of each inference.
        outside: for each inference, the data that the model's blocks read from outside the arena, by number. An int8
            array [rows, columns, channels] serves an external tensor as well as a source; a source returns each pixel
            once, in raster order.
        reset: reset variable tensors before every inference; False runs a stream.
        timeout: seconds of one inference; None for a limit by the model's multiply-accumulates, 10 to 120 (see
            ``worker.inference_seconds``).
        sanitize: see ``kind_for``.

    Raises:
        ModelError: the runtime refuses the model or fails, or an array does not fit.
        UsageError: a stream returns too few or too many pixels.
        RuntimeUnavailableError: the wheel is not installed, or a fused model has no C compiler to run with.
    """
    with session(model_bytes, sanitize=sanitize) as loaded:
        outputs = [
            loaded.infer(arrays, around, reset=reset or index == 0, timeout=timeout)
            for index, (arrays, around) in enumerate(zip(inputs, outside or [()] * len(inputs), strict=True))
        ]
        return RunResult(outputs, parse_allocations(loaded.allocations_text()))


def measure(model_bytes: bytes) -> Allocations:
    """Return the arena allocations of a model without running it.

    Raises:
        ModelError: the runtime cannot load the model; with its reason.
        RuntimeUnavailableError: the wheel is not installed, or a fused model has no C compiler to run with.
    """
    with session(model_bytes) as loaded:
        return parse_allocations(loaded.allocations_text())


def parse_allocations(text: str) -> Allocations:
    """Return the allocations that ``RecordingMicroAllocator`` prints.

    Raises:
        ModelError: head, tail or total is missing.
    """
    totals = {name: int(number) for name, number in _TOTAL.findall(text)}
    if set(totals) != {"total", "head", "tail"}:
        raise ModelError("TensorFlow Lite Micro printed no head, tail and total for the model's arena")
    sections = {name: int(number) for name, number in _SECTION.findall(text)}
    return Allocations(totals["head"], totals["tail"], totals["total"], sections)
