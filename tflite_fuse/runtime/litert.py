"""Run models in LiteRT, a second, independent runtime that must accept every file this package writes.

LiteRT is no bit oracle: several of its kernels round otherwise than TensorFlow Lite Micro's. It has no custom operator
of this package, so it runs models without fused blocks only.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Sequence

from tflite_fuse.runtime.processes.worker import Array, Worker, WorkerKind, worker
from tflite_fuse.runtime.tflm import RunResult

RUNTIME_NAME = "litert"


def available() -> bool:
    """Whether LiteRT is installed."""
    return importlib.util.find_spec("ai_edge_litert") is not None


def runtime_version() -> str | None:
    """Version of the installed LiteRT, None without one."""
    from importlib import metadata  # loads a mail reader, which no rewrite needs

    try:
        return metadata.version("ai_edge_litert")
    except metadata.PackageNotFoundError:
        return None


@contextlib.contextmanager
def session(model_bytes: bytes, name: str = "the model") -> Iterator[Worker]:
    """A worker with the model loaded.

    Raises:
        ModelError: the runtime refuses the model; with its reason.
        RuntimeUnavailableError: LiteRT is not installed.
    """
    with worker(WorkerKind("litert")) as loaded:
        loaded.load(model_bytes, name)
        yield loaded


def run(
    model_bytes: bytes,
    inputs: Sequence[Sequence[Array]],
    *,
    reset: bool = True,
    timeout: float | None = None,
) -> RunResult:
    """Like ``tflm.run``, in LiteRT with its reference kernels. ``allocations`` of the result is None.

    Raises:
        ModelError: the runtime refuses the model, breaks on it, or an array does not fit.
        RuntimeUnavailableError: LiteRT is not installed.
    """
    with session(model_bytes) as loaded:
        outputs = [
            loaded.infer(arrays, reset=reset or index == 0, timeout=timeout) for index, arrays in enumerate(inputs)
        ]
        return RunResult(outputs, None)
