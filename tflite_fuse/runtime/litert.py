"""Runs models in LiteRT, a second, independent runtime that must accept every file this package writes.

LiteRT does not define bit-exactness: several of its kernels round differently from TensorFlow Lite Micro's. Fused
blocks run in it through the C library, with the bytes of a device.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator

from tflite_fuse.runtime.library.sources import kind_for
from tflite_fuse.runtime.processes.worker import Worker, installed_version, worker

RUNTIME_NAME = "litert"


def available() -> bool:
    """Return whether LiteRT is installed."""
    return importlib.util.find_spec("ai_edge_litert") is not None


def runtime_version() -> str | None:
    """Return the version of the installed LiteRT, None without one."""
    return installed_version("ai_edge_litert")


@contextlib.contextmanager
def session(model_bytes: bytes, name: str = "the model") -> Iterator[Worker]:
    """Return a context with a worker that has loaded the model.

    Raises:
        ModelError: the runtime refuses the model; with its reason.
        RuntimeUnavailableError: LiteRT is not installed.
    """
    with worker(kind_for("litert", model_bytes)) as loaded:
        loaded.load(model_bytes, name)
        yield loaded
