"""Runtimes in child processes: load models, run inferences, turn refusals into sentences.

A ``Worker`` is one child process with at most one model loaded. Starting one costs about 0.3 s (Python and numpy), so
workers that completed every request are kept for the next model; one that failed is ended.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import ModelError, RuntimeUnavailableError, how_to_install
from tflite_fuse.runtime.processes.connection import Child, ChildError, Pixels
from tflite_fuse.runtime.processes.patience import inference_seconds
from tflite_fuse.runtime.streams import Outside, Stream

Array = npt.NDArray[Any]
RuntimeName = Literal["tflm", "litert"]

START_TIMEOUT = 60.0
"""Seconds a child may take to import its runtime."""
LOAD_TIMEOUT = 60.0
"""Seconds a model may take to load."""

_FIRST_ARENA = 1 << 24
_LARGEST_ARENA = 1 << 29
_MISSING = re.compile(r"missing: (\d{1,18})\b")
_KEPT = 3
_TITLES = {"tflm": "TensorFlow Lite Micro", "litert": "LiteRT"}
_PACKAGES = {"tflm": "tflite-micro", "litert": "ai-edge-litert"}


@dataclass(frozen=True)
class TensorDetail:
    """A model input or output as the runtime sees it: shape and numpy type name."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class WorkerKind:
    """What a child process runs. Workers of equal kind can replace each other, and one without libraries gets some
    where another is wanted.

    Attributes:
        runtime: which runtime.
        libraries: shared libraries loaded with their symbols visible, before the model.
        registerers: functions in them that register custom operators.
        environment: variables added to the child's environment.
    """

    runtime: RuntimeName = "tflm"
    libraries: tuple[str, ...] = ()
    registerers: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        return _TITLES[self.runtime]


class Worker:
    """One child process that loads models and runs inferences. Not for use by two threads at once."""

    def __init__(self, kind: WorkerKind, search_path: Sequence[str] | None = None) -> None:
        """Start the child.

        Args:
            kind: what it runs.
            search_path: where the child looks for modules; this process's ``sys.path`` if None.

        Raises:
            RuntimeUnavailableError: the runtime cannot be imported.
        """
        self._search_path = [str(Path(each).absolute()) for each in (sys.path if search_path is None else search_path)]
        self.kind = kind
        self.name = "the model"
        self.unconfined = ""
        self.inputs: tuple[TensorDetail, ...] = ()
        self.outputs: tuple[TensorDetail, ...] = ()
        self._model = b""
        self._seconds: float | None = None
        self._start()

    def _start(self) -> None:
        _require_few_rights(self.kind)
        self._child = Child(self.kind.runtime, dict(self.kind.environment), self._search_path)
        try:
            self.unconfined = str(self._child.receive(START_TIMEOUT, "starting")[0].get("unconfined", ""))
        except ChildError as failure:
            self.close()
            raise RuntimeUnavailableError(
                f"{self.kind.title} cannot be used here: {failure.detail()}; its package is "
                f"{_PACKAGES[self.kind.runtime]}: {how_to_install('verify')}"
            ) from failure

    @property
    def healthy(self) -> bool:
        """Whether the child still runs, as far as is known."""
        return self._child.healthy

    @property
    def process_id(self) -> int:
        """Of the child, for those who must look at it from outside."""
        return self._child.process_id

    def load(self, model: bytes, name: str = "the model", timeout: float = LOAD_TIMEOUT) -> None:
        """Load a model, with an arena that is doubled until it suffices.

        Args:
            model: a .tflite file.
            name: what messages call it.
            timeout: seconds.

        Raises:
            ModelError: the runtime refuses the model or breaks on it; with the runtime's own words.
        """
        self.name, self._model, self._seconds = name, model, None
        arena_size = _FIRST_ARENA
        while True:
            try:
                self.inputs, self.outputs = self._load(model, arena_size, timeout)
                break
            except ChildError as failure:
                missing = [int(number) for number in _MISSING.findall(failure.log)]
                if not missing or arena_size >= _LARGEST_ARENA:
                    raise ModelError(f"{self.kind.title} cannot load {name}: {failure.detail()}") from failure
                arena_size = min(max(2 * arena_size, arena_size + missing[-1]), _LARGEST_ARENA)
                if not self.healthy:
                    self.close()
                    self._start()

    def _load(self, model: bytes, arena_size: int, timeout: float) -> tuple[tuple[TensorDetail, ...], ...]:
        """Inputs and outputs."""
        request = {
            "request": "load",
            "arena_size": arena_size,
            "libraries": list(self.kind.libraries),
            "registerers": list(self.kind.registerers),
        }
        return self._child.ask(request, [model], timeout, "loading the model", _ends)

    def infer(
        self,
        inputs: Sequence[Array],
        outside: Sequence[Outside] = (),
        *,
        reset: bool = True,
        timeout: float | None = None,
    ) -> list[Array]:
        """Run the loaded model once. After an error the next inference works, unless the runtime crashed.

        Args:
            inputs: one array per model input, of its shape and type.
            outside: what the model's blocks read from outside the arena, by number: int8 arrays, or streams, whose
                functions are called while the model runs.
            reset: bring variable tensors and operator state back to the start before running.
            timeout: seconds; None for ``patience.inference_seconds``.

        Raises:
            ModelError: an array does not fit its input, or the runtime fails, crashes or takes longer than timeout.
            UsageError: a stream's function gives too few or too many pixels, or others than int8.
            Exception: whatever such a function raises.
        """
        arrays = [*inputs, *(each for each in outside if not isinstance(each, Stream))]
        self._check(inputs, arrays[len(inputs) :])
        described = [[array.dtype.name, list(array.shape)] for array in arrays]
        images = [[list(each.image), each.dtype.name] if isinstance(each, Stream) else None for each in outside]
        request = {
            "request": "infer",
            "reset": reset,
            "inputs": len(inputs),
            "outside": images,
            "arrays": described,
        }
        pixels = Pixels(outside)
        try:
            parts = [array.tobytes() for array in arrays]
            seconds = self._patience() if timeout is None else timeout
            return self._child.ask(request, parts, seconds, "running the model", _outputs, pixels)
        except ChildError as failure:
            if pixels.error is not None:
                raise pixels.error from None
            raise ModelError(f"{self.kind.title} cannot run {self.name}: {failure.detail()}") from failure

    def _patience(self) -> float:
        if self._seconds is None:
            self._seconds = inference_seconds(self._model)
        return self._seconds

    def _check(self, inputs: Sequence[Array], outside: Sequence[Array]) -> None:
        if any(array.dtype not in (np.int8, np.uint8, np.float32) for array in outside):
            raise ModelError(f"what {self.name} reads from outside the arena must be int8, uint8 or float32")
        if len(inputs) != len(self.inputs):
            raise ModelError(f"{self.name} has {len(self.inputs)} inputs but {len(inputs)} arrays were given")
        for index, (array, detail) in enumerate(zip(inputs, self.inputs, strict=True)):
            if array.shape != detail.shape or array.dtype.name != detail.dtype:
                raise ModelError(
                    f"input {index} of {self.name} is {detail.dtype} {list(detail.shape)} "
                    f"but the array given for it is {array.dtype.name} {list(array.shape)}"
                )

    def allocations_text(self) -> str:
        """What TensorFlow Lite Micro prints about the arena of the loaded model. Raises ModelError if it fails."""
        try:
            return self._child.ask({"request": "allocations"}, [], LOAD_TIMEOUT, "measuring the arena", _text)
        except ChildError as failure:
            raise ModelError(
                f"{self.kind.title} cannot measure the arena of {self.name}: {failure.detail()}"
            ) from failure

    def close(self) -> None:
        """End the child. Harmless if it has ended."""
        self._child.close()


def _require_few_rights(kind: WorkerKind) -> None:
    """Raises RuntimeUnavailableError where a process cannot be started as these are."""
    if sys.platform == "win32":
        raise RuntimeUnavailableError(
            f"{kind.title} runs in a process of few rights, which this package makes on Linux and macOS alone"
        )


def _ends(header: dict[str, Any], _: bytes) -> tuple[tuple[TensorDetail, ...], ...]:
    """Inputs and outputs, as the answer to ``load`` has them."""
    return tuple(
        tuple(TensorDetail(_shape(each["shape"]), _dtype(each["dtype"]).name) for each in header[kind])
        for kind in ("inputs", "outputs")
    )


def _outputs(header: dict[str, Any], body: bytes) -> list[Array]:
    """What a model computed, as the answer to ``infer`` has it."""
    outputs, offset = list[Array](), 0
    for name, extents in header["arrays"]:
        shape = _shape(extents)
        outputs.append(np.frombuffer(body, _dtype(name), prod(shape), offset).reshape(shape))
        offset += outputs[-1].nbytes
    return outputs


def _text(header: dict[str, Any], _: bytes) -> str:
    return str(header["text"])


def _shape(extents: Sequence[Any]) -> tuple[int, ...]:
    """Raises ValueError for what is no shape."""
    if any(type(extent) is not int or extent < 0 for extent in extents):
        raise ValueError(extents)
    return tuple(extents)


def _dtype(name: object) -> np.dtype[Any]:
    """Of numbers; raises ValueError for any other."""
    dtype = np.dtype(name if isinstance(name, str) and name.isalnum() else "O")
    if dtype.kind not in "biufc":
        raise ValueError(name)
    return dtype


_idle: list[Worker] = []
_idle_lock = threading.Lock()
_idle_owner = os.getpid()


@contextlib.contextmanager
def worker(kind: WorkerKind) -> Iterator[Worker]:
    """A worker of this kind, new or kept from before. It is ended if anything goes wrong inside the block."""
    borrowed = _take(kind) or Worker(kind)
    try:
        yield borrowed
    except BaseException:
        borrowed.close()
        raise
    _give_back(borrowed)


def idle_kind(runtime: RuntimeName) -> WorkerKind:
    """The kind of a worker of this runtime that waits for something to do; without libraries where none does."""
    with _idle_lock:
        return next((idle.kind for idle in _idle if idle.kind.runtime == runtime), WorkerKind(runtime))


def _take(kind: WorkerKind) -> Worker | None:
    with _idle_lock:
        if os.getpid() != _idle_owner:  # a forked process must not speak on its parent's sockets
            return None
        for index, idle in enumerate(_idle):
            if idle.kind == kind:
                return _idle.pop(index)
        for index, idle in enumerate(_idle):
            if idle.kind == replace(kind, libraries=(), registerers=()):  # they are loaded with the model
                found = _idle.pop(index)
                found.kind = kind
                return found
    return None


def _give_back(borrowed: Worker) -> None:
    surplus: list[Worker] = []
    with _idle_lock:
        _idle.append(borrowed)
        while len(_idle) > _KEPT:
            surplus.append(_idle.pop(0))
    for each in surplus:
        each.close()


@atexit.register
def _close_idle() -> None:
    if os.getpid() == _idle_owner:
        while _idle:
            _idle.pop().close()
