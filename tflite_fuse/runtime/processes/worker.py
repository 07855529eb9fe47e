"""Runtimes in child processes: load models, run inferences, turn refusals into sentences.

A ``Worker`` is one child process with at most one model loaded. Its start takes about 0.3 s (Python and numpy), so
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
from math import ceil, prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tflite_fuse.emit.in_model import executed_macs
from tflite_fuse.errors import ModelError, RuntimeUnavailableError, TfliteFuseError, how_to_install
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.model.file import load_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime.processes.connection import Child, ChildError, Pixels
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
    """Shape and numpy type name of a model input in the runtime."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class WorkerKind:
    """The configuration of a child process.

    Workers of equal kind are interchangeable; one without libraries can load them later.

    Attributes:
        runtime: the runtime.
        libraries: shared libraries loaded with visible symbols before the model.
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
            kind: its configuration.
            search_path: the child's module search path; this process's ``sys.path`` if None.

        Raises:
            RuntimeUnavailableError: the runtime cannot be imported.
        """
        self._search_path = [str(Path(each).absolute()) for each in (sys.path if search_path is None else search_path)]
        self.kind = kind
        self.name = "the model"
        self.unconfined = ""
        self.inputs: tuple[TensorDetail, ...] = ()
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
        """Return whether the child still runs, as far as is known."""
        return self._child.healthy

    @property
    def process_id(self) -> int:
        """Return the child's process id, for monitoring."""
        return self._child.process_id

    def load(self, model: bytes, name: str = "the model") -> None:
        """Load a model, with an arena that is doubled until it suffices.

        Args:
            model: a .tflite file.
            name: of the model in messages.

        Raises:
            ModelError: the runtime refuses the model or fails; with the runtime's own words.
        """
        self.name, self._model, self._seconds = name, model, None
        arena_size = _FIRST_ARENA
        while True:
            try:
                self.inputs = self._load(model, arena_size)
                break
            except ChildError as failure:
                missing = [int(number) for number in _MISSING.findall(failure.log)]
                if not missing or arena_size >= _LARGEST_ARENA:
                    raise ModelError(f"{self.kind.title} cannot load {name}: {failure.detail()}") from failure
                arena_size = min(max(2 * arena_size, arena_size + missing[-1]), _LARGEST_ARENA)
                if not self.healthy:
                    self.close()
                    self._start()

    def _load(self, model: bytes, arena_size: int) -> tuple[TensorDetail, ...]:
        """Return the details of inputs."""
        request = {
            "request": "load",
            "arena_size": arena_size,
            "libraries": list(self.kind.libraries),
            "registerers": list(self.kind.registerers),
        }
        return self._child.ask(request, [model], LOAD_TIMEOUT, "loading the model", _inputs)

    def infer(
        self,
        inputs: Sequence[Array],
        outside: Sequence[Outside] = (),
        *,
        reset: bool = True,
        timeout: float | None = None,
    ) -> list[Array]:
        """Run the loaded model once and return its outputs.

        After an error the next inference works, unless the runtime crashed.

        Args:
            inputs: one array per model input, of its shape and type.
            outside: data that the model's blocks read from outside the arena, by number: arrays, or streams, whose
                functions are called while the model runs.
            reset: reset variable tensors and operator state before the run.
            timeout: seconds; None for ``inference_seconds``.

        Raises:
            ModelError: an array does not fit its input, or the runtime fails, crashes or exceeds the timeout.
            UsageError: a stream's function returns too few or too many pixels, or another type.
            Exception: any that such a function raises.
        """
        arrays = [*inputs, *(each for each in outside if not isinstance(each, Stream))]
        self._check(inputs, arrays[len(inputs) :])
        described = [[array.dtype.name, list(array.shape)] for array in arrays]
        images = [[list(each.image), each.dtype.name] if isinstance(each, Stream) else None for each in outside]
        request = {"request": "infer", "reset": reset, "inputs": len(inputs), "outside": images, "arrays": described}
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
            raise ModelError(f"inputs of {self.name} outside the arena must be int8, uint8 or float32")
        if len(inputs) != len(self.inputs):
            raise ModelError(f"{self.name} has {len(self.inputs)} inputs but {len(inputs)} arrays were given")
        for index, (array, detail) in enumerate(zip(inputs, self.inputs, strict=True)):
            if array.shape != detail.shape or array.dtype.name != detail.dtype:
                raise ModelError(
                    f"input {index} of {self.name} is {detail.dtype} {list(detail.shape)} "
                    f"but the array given for it is {array.dtype.name} {list(array.shape)}"
                )

    def allocations_text(self) -> str:
        """Return TensorFlow Lite Micro's printed report on the loaded model's arena. Raises ModelError if it fails."""
        try:
            return self._child.ask({"request": "allocations"}, [], LOAD_TIMEOUT, "measuring the arena", _text)
        except ChildError as failure:
            raise ModelError(
                f"{self.kind.title} cannot measure the arena of {self.name}: {failure.detail()}"
            ) from failure

    def close(self) -> None:
        """End the child. Harmless if it has ended."""
        self._child.close()


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, None if it is not installed."""
    from importlib import metadata  # slow to import, and no rewrite needs it

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _require_few_rights(kind: WorkerKind) -> None:
    """Raise RuntimeUnavailableError where no confined process can be started."""
    if sys.platform == "win32":
        raise RuntimeUnavailableError(
            f"{kind.title} runs in a confined process, which this package supports only on Linux and macOS"
        )


def _inputs(header: dict[str, Any], _: bytes) -> tuple[TensorDetail, ...]:
    """Return a model's inputs from the reply to ``load``."""
    return tuple(TensorDetail(_shape(each["shape"]), _dtype(each["dtype"]).name) for each in header["inputs"])


def _outputs(header: dict[str, Any], body: bytes) -> list[Array]:
    """Return a model's outputs from the reply to ``infer``."""
    outputs, offset = list[Array](), 0
    for name, extents in header["arrays"]:
        shape = _shape(extents)
        outputs.append(np.frombuffer(body, _dtype(name), prod(shape), offset).reshape(shape))
        offset += outputs[-1].nbytes
    return outputs


def _text(header: dict[str, Any], _: bytes) -> str:
    return str(header["text"])


def _shape(extents: Sequence[Any]) -> tuple[int, ...]:
    """Return a shape. Raises ValueError for anything else."""
    if any(type(extent) is not int or extent < 0 for extent in extents):
        raise ValueError(extents)
    return tuple(extents)


def _dtype(name: object) -> np.dtype[Any]:
    """Return a numeric type. Raises ValueError for any other."""
    dtype = np.dtype(name if isinstance(name, str) and name.isalnum() else "O")
    if dtype.kind not in "biufc":
        raise ValueError(name)
    return dtype


_idle: list[Worker] = []
_idle_lock = threading.Lock()
_idle_owner = os.getpid()


@contextlib.contextmanager
def worker(kind: WorkerKind) -> Iterator[Worker]:
    """Return a context with a worker of this kind, new or reused. It is ended if an exception leaves the context."""
    borrowed = _take(kind) or Worker(kind)
    try:
        yield borrowed
    except BaseException:
        borrowed.close()
        raise
    _give_back(borrowed)


def idle_kind(runtime: RuntimeName) -> WorkerKind:
    """Return the kind of an idle worker of this runtime; without libraries if there is none."""
    with _idle_lock:
        return next((idle.kind for idle in _idle if idle.kind.runtime == runtime), WorkerKind(runtime))


def _take(kind: WorkerKind) -> Worker | None:
    with _idle_lock:
        if os.getpid() != _idle_owner:  # a forked process must not use its parent's sockets
            return None
        for index, idle in enumerate(_idle):
            if idle.kind == kind:
                return _idle.pop(index)
        for index, idle in enumerate(_idle):
            if idle.kind == replace(kind, libraries=(), registerers=()):  # they are loaded with the model
                worker = _idle.pop(index)
                worker.kind = kind
                return worker
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


# ---- Time limit of an inference ----

# A damaged model may keep a runtime busy for ever. The limit must never end an honest inference: TensorFlow Lite
# Micro's reference kernels do 200 to 450 million multiply-accumulates per second on a desktop core and tens of millions
# on a slow or busy one; the limit assumes 2 million, plus ten seconds for everything else.

SHORTEST_SECONDS = 10
"""Least limit of an inference."""
STEPS_PER_SECOND = 2_000_000
"""Multiply-accumulates and written values per second of the slowest machine."""
LONGEST_SECONDS = 120
"""Greatest limit, and the limit if the work is unknown."""


def inference_seconds(model: Model | bytes) -> float:
    """Return the limit of one inference in seconds, from SHORTEST_SECONDS to LONGEST_SECONDS.

    The latter holds for models with further subgraphs (loops) or foreign custom operators, and for damaged models.

    Args:
        model: a model, or a .tflite file.
    """
    try:
        model = load_model(model) if isinstance(model, bytes) else model
        steps = _steps(model) if _is_known(model) else None
    except TfliteFuseError:
        steps = None
    if steps is None:
        return LONGEST_SECONDS
    return min(LONGEST_SECONDS, SHORTEST_SECONDS + ceil(max(0, steps) / STEPS_PER_SECOND))


def _is_known(model: Model) -> bool:
    names = {operator_name(model, operator) for operator in model.main.operators}
    return len(model.subgraphs) == 1 and not any(n.startswith("CUSTOM:") and n != FUSED_OPERATOR for n in names)


def _steps(model: Model) -> int:
    """Return the multiply-accumulates plus the values of all tensors that operators write."""
    written = {tensor for operator in model.main.operators for tensor in operator.outputs or ()}
    return sum(executed_macs(model)) + sum(prod(model.main.tensors[tensor].dims) for tensor in written)
