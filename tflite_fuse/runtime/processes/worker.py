"""Runtimes in child processes: start, ask, time out, and turn crashes into sentences.

A ``Worker`` is one child process with at most one model loaded. Starting one costs about 0.3 s (Python and numpy), so
workers that did everything asked of them are kept for the next model; one that failed is ended.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import ModelError, RuntimeUnavailableError
from tflite_fuse.runtime.processes.child import receive_frame, send_frame
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
_MISSING = re.compile(r"missing: (\d+)")
_SOURCE_FILE = re.compile(r"^\S+\.(cc|h)(:\d+)?:?\s+")
_LOG_LIMIT = 1 << 20
_LONGEST_DETAIL = 500
_KEPT = 3
# The child computes nothing in numpy; without this, importing it starts threads that wait for work.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

_TITLES = {"tflm": "TensorFlow Lite Micro", "litert": "LiteRT"}
_PACKAGES = {"tflm": "tflite-micro", "litert": "ai-edge-litert"}

# The directory of a script heads its sys.path, and this one holds modules with common names: hence run_path.
_LAUNCHER = (
    "import json,runpy,sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "runpy.run_path(sys.argv.pop(1), None, '__main__')"
)


@dataclass(frozen=True)
class TensorDetail:
    """A model input or output as the runtime sees it: shape and numpy type name."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class WorkerKind:
    """What a child process runs. Workers of equal kind can replace each other.

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


class _ChildError(Exception):
    """The runtime refused, or the child died. ``log`` is what the runtime printed during the request."""

    def __init__(self, message: str, log: str, crashed: bool = False) -> None:
        super().__init__(message)
        self.log = log
        self.crashed = crashed

    def detail(self) -> str:
        lines = [_SOURCE_FILE.sub("", line.strip()) for line in self.log.splitlines() if line.strip()]
        reports = [line for line in lines if "Sanitizer: " in line or "runtime error: " in line]
        words = "; ".join(dict.fromkeys(reports[:2] or lines[-3:]))
        if self.crashed and words:
            words = f"{self} ({words})"
        return shorten(words or str(self), _LONGEST_DETAIL, placeholder=" …")


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
        self.healthy = False
        self.unconfined = ""
        self.inputs: tuple[TensorDetail, ...] = ()
        self.outputs: tuple[TensorDetail, ...] = ()
        self._model = b""
        self._seconds: float | None = None
        self._start()

    def _start(self) -> None:
        self._connection, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the child)
        paths = json.dumps(self._search_path)
        script = str(Path(__file__).with_name("child.py"))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _LAUNCHER, paths, script, str(theirs.fileno()), self.kind.runtime],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **_ENVIRONMENT, **dict(self.kind.environment)},
                start_new_session=True,
            )
        try:
            self.unconfined = str(self._receive(START_TIMEOUT, "starting")[0].get("unconfined", ""))
        except _ChildError as failure:
            self.close()
            raise RuntimeUnavailableError(
                f"{self.kind.title} cannot be used here: {failure.detail()}; its package is "
                f"{_PACKAGES[self.kind.runtime]}, install it with: pip install 'tflite-fuse[verify]'"
            ) from failure
        self.healthy = True

    @property
    def process_id(self) -> int:
        """Of the child, for those who must look at it from outside."""
        return self._process.pid

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
                header = self._load(model, arena_size, timeout)
                break
            except _ChildError as failure:
                missing = [int(number) for number in _MISSING.findall(failure.log)]
                if not missing or arena_size >= _LARGEST_ARENA:
                    raise ModelError(f"{self.kind.title} cannot load {name}: {failure.detail()}") from failure
                arena_size = min(max(2 * arena_size, arena_size + missing[-1]), _LARGEST_ARENA)
                if not self.healthy:
                    self.close()
                    self._start()
        self.inputs = tuple(TensorDetail(tuple(d["shape"]), d["dtype"]) for d in header["inputs"])
        self.outputs = tuple(TensorDetail(tuple(d["shape"]), d["dtype"]) for d in header["outputs"])

    def _load(self, model: bytes, arena_size: int, timeout: float) -> dict[str, Any]:
        request = {
            "request": "load",
            "arena_size": arena_size,
            "libraries": list(self.kind.libraries),
            "registerers": list(self.kind.registerers),
        }
        return self._ask(request, [model], timeout, "loading the model")[0]

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
        images = [list(each.image) if isinstance(each, Stream) else None for each in outside]
        request = {
            "request": "infer",
            "reset": reset,
            "inputs": len(inputs),
            "outside": images,
            "arrays": described,
        }
        pixels = _Pixels(outside)
        try:
            parts = [array.tobytes() for array in arrays]
            seconds = self._patience() if timeout is None else timeout
            header, body = self._ask(request, parts, seconds, "running the model", pixels)
        except _ChildError as failure:
            if pixels.error is not None:
                raise pixels.error from None
            raise ModelError(f"{self.kind.title} cannot run {self.name}: {failure.detail()}") from failure
        outputs, offset = [], 0
        for name, shape in header["arrays"]:
            count = int(np.prod(shape, dtype=np.int64))
            outputs.append(np.frombuffer(body, np.dtype(name), count, offset).reshape(shape))
            offset += outputs[-1].nbytes
        return outputs

    def _patience(self) -> float:
        if self._seconds is None:
            self._seconds = inference_seconds(self._model)
        return self._seconds

    def _check(self, inputs: Sequence[Array], outside: Sequence[Array]) -> None:
        if any(array.dtype != np.int8 for array in outside):
            raise ModelError(f"what {self.name} reads from outside the arena must be int8")
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
            header, _ = self._ask({"request": "allocations"}, [], LOAD_TIMEOUT, "measuring the arena")
        except _ChildError as failure:
            raise ModelError(
                f"{self.kind.title} cannot measure the arena of {self.name}: {failure.detail()}"
            ) from failure
        return str(header["text"])

    def _ask(
        self,
        header: dict[str, Any],
        body: Sequence[bytes],
        timeout: float,
        doing: str,
        pixels: _Pixels | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        self._send({**header, "seconds": timeout}, body, timeout)
        answer = self._receive(timeout, doing)
        while pixels is not None and "wanted" in answer[0]:
            self._send(*pixels.answer(*answer[0]["wanted"]), timeout)
            answer = self._receive(timeout, doing)
        return answer

    def _send(self, header: dict[str, Any], body: Sequence[bytes], timeout: float) -> None:
        self._connection.settimeout(timeout)
        # If the child died, _receive finds out and says why.
        with contextlib.suppress(OSError):
            send_frame(self._connection, header, body)

    def _receive(self, timeout: float, doing: str) -> tuple[dict[str, Any], bytes]:
        self._connection.settimeout(timeout)
        try:
            frame = receive_frame(self._connection)
        except TimeoutError:
            self._end(grace=0.0)
            raise _ChildError(f"{doing} took longer than {timeout:g} s", "") from None
        except OSError:
            frame = None
        if frame is None:
            raise _ChildError(self._death(), self._read_log(), crashed=True)
        if "failure" in frame[0]:
            raise _ChildError(str(frame[0]["message"]), str(frame[0].get("log", "")))
        return frame

    def _death(self) -> str:
        self._end(grace=5.0)
        code = self._process.returncode
        if -code == signal.SIGXCPU:
            return "the runtime took more processor time than it is given"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"the runtime crashed with {signal.Signals(-code).name}"
        return f"the runtime ended with exit code {code}"

    def _read_log(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), _LOG_LIMIT, max(0, size - _LOG_LIMIT)).decode("utf-8", "replace")

    def _end(self, grace: float) -> None:
        self.healthy = False
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the child. Harmless if it has ended."""
        self._connection.close()
        self._end(grace=0.0)
        self._log.close()


class _Pixels:
    """Answers a child that asks for pixels while a model runs. What a source raises ends the inference."""

    def __init__(self, outside: Sequence[Outside]) -> None:
        self._outside = outside
        self.error: BaseException | None = None

    def answer(self, number: int, y: int, x: int, count: int) -> tuple[dict[str, Any], list[bytes]]:
        stream = self._outside[number]
        try:
            if isinstance(stream, Stream):
                return {}, [stream.pixels(y, x, count)]
        except BaseException as error:  # also an interrupt: the child waits, and must not be left so
            self.error = error
        return {"failure": "source"}, []


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


def _take(kind: WorkerKind) -> Worker | None:
    with _idle_lock:
        if os.getpid() != _idle_owner:  # a forked process must not speak on its parent's sockets
            return None
        for index, idle in enumerate(_idle):
            if idle.kind == kind:
                return _idle.pop(index)
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
