"""The connection to one child process: start, request, time-out, and the cause of its end as a sentence."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeVar

from tflite_fuse.runtime.processes.child import log_of, receive_frame, send_frame
from tflite_fuse.runtime.streams import Outside, Stream

Answer = TypeVar("Answer")

_SOURCE_FILE = re.compile(r"^\S+\.(cc|h)(:\d+)?:?\s+")
_LONGEST_DETAIL = 500

# The child computes nothing in numpy; without this, its import starts idle threads.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

_FOR_OTHERS = ("MALLOC_TRIM_THRESHOLD_",)
"""Environment variables that children do not inherit: with Dask's, a runtime requests memory from the system for every
inference, which doubles its time."""

# A script's directory is first in its sys.path, and this one holds modules with common names: hence run_path. For -c it
# is the working directory, where an attacker may have put a json.py beside a model.
_LAUNCHER = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "import json,runpy; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "runpy.run_path(sys.argv.pop(1), None, '__main__')"
)


def _inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _FOR_OTHERS}


class ChildError(Exception):
    """The runtime refused, or the child died. ``log`` has the lines that the runtime printed during the request."""

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


class Pixels:
    """Serves pixels to a child while it runs a model. An exception in a source ends the inference."""

    def __init__(self, outside: Sequence[Outside]) -> None:
        self._outside = outside
        self.error: BaseException | None = None

    def answer(self, request: object) -> tuple[dict[str, Any], list[bytes]]:
        """Return the reply for [number, y, x, count]. Raises ValueError for a malformed request."""
        if not isinstance(request, list) or len(request) != 4 or any(type(each) is not int for each in request):
            raise ValueError(request)
        number, y, x, count = request
        if not 0 <= number < len(self._outside):
            raise ValueError(request)
        stream = self._outside[number]
        if isinstance(stream, Stream) and not (0 <= y < stream.image[0] and 0 <= x < x + count <= stream.image[1]):
            raise ValueError(request)
        try:
            if isinstance(stream, Stream):
                return {}, [stream.pixels(y, x, count)]
        except BaseException as error:  # also an interrupt: the child waits, and must not be left so
            self.error = error
        return {"failure": "source"}, []


class Child:
    """A child process that handles one request after the other. Not for use by two threads at once.

    Attributes:
        healthy: whether it still runs, as far as is known.
    """

    def __init__(self, runtime: str, environment: Mapping[str, str], search_path: Sequence[str]) -> None:
        """Start the child.

        Args:
            runtime: the module it imports before its first frame.
            environment: variables added to its environment.
            search_path: its module search path.
        """
        self.healthy = True
        self._connection, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the child)
        script = str(Path(__file__).with_name("child.py"))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _LAUNCHER, json.dumps(search_path), script, str(theirs.fileno()), runtime],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                env={**_inherited(), **_ENVIRONMENT, **environment},
                start_new_session=True,
            )

    @property
    def process_id(self) -> int:
        return self._process.pid

    def ask(
        self,
        header: dict[str, Any],
        body: Sequence[bytes],
        timeout: float,
        doing: str,
        read: Callable[[dict[str, Any], bytes], Answer],
        pixels: Pixels | None = None,
    ) -> Answer:
        """Send a request and return its reply, serving pixels meanwhile.

        Args:
            header, body: the request.
            timeout: seconds for the child, without the time of sources.
            doing: the activity, in words.
            read: converts the reply's header and body; a compromised child may send anything.
            pixels: the sources.

        Raises:
            ChildError: the runtime refused, the child died, its reply is malformed, or the time is over.
        """
        self._send({**header, "seconds": timeout}, body, timeout)
        left = timeout
        try:
            while True:
                began = time.monotonic()
                answer = self.receive(timeout, doing, left)
                left -= time.monotonic() - began
                if pixels is None or "wanted" not in answer[0]:
                    return read(*answer)
                self._send(*pixels.answer(answer[0]["wanted"]), timeout)
        except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError):
            self._end(grace=0.0)
            raise ChildError("the runtime's reply is malformed", self._read_log(), crashed=True) from None

    def _send(self, header: dict[str, Any], body: Sequence[bytes], timeout: float) -> None:
        self._connection.settimeout(timeout)
        # If the child died, ``receive`` reports the cause.
        with contextlib.suppress(OSError):
            send_frame(self._connection, header, body)

    def receive(self, timeout: float, doing: str, left: float | None = None) -> tuple[dict[str, Any], bytes]:
        """Return the child's next frame within the rest of ``timeout``. Raises ChildError as ``ask`` does."""
        try:
            frame = receive_frame(self._connection, timeout if left is None else left)
        except TimeoutError:
            self._end(grace=0.0)
            raise ChildError(f"{doing} took longer than {timeout:g} s", "") from None
        except OSError:
            frame = None
        if frame is None:
            raise ChildError(self._death(), self._read_log(), crashed=True)
        if "failure" in frame[0]:
            raise ChildError(str(frame[0]["message"]), str(frame[0].get("log", "")))
        return frame

    def _death(self) -> str:
        self._end(grace=5.0)
        code = self._process.returncode
        if -code == getattr(signal, "SIGXCPU", None):
            return "the runtime exceeded its limit of processor time"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"the runtime crashed with {signal.Signals(-code).name}"
        return f"the runtime ended with exit code {code}"

    def _read_log(self) -> str:
        return log_of(self._log.fileno())

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
