"""The child process that holds an inference runtime, and the frames exchanged with it.

A damaged model can abort the process that loads it, and TensorFlow Lite Micro prints to file descriptor 2; so models
are loaded here, without rights (``confinement.py``), never in the user's process. ``worker.py`` starts this file as a
script with one end of a socket, and a file as stdout and stderr, so printed text cannot mix with the frames.

A frame: magic ``TFW1``, uint32 length of the header, uint64 length of the body (little-endian), the header (JSON), the
body (raw bytes of the header's ``arrays``, one after another, or of a model).

Only the standard library is imported at module level: the parent imports this module for the frames.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import runpy
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

_PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"TFW1"
_LONGEST_HEADER, _LONGEST_BODY = 1 << 24, 1 << 30
"""Most bytes of a frame's header, and of its body: the largest model file or arena."""
_LOG_FILE = 2
_LOG_LIMIT = 1 << 20
_MALLOPT_PERTURB = -6
_OUTSIDE_SETTER = "tflite_fuse_shim_set_outside"
_SOURCE_FAILED = -1

Fetch = Callable[[int, int, int, int], bytes | None]
"""(number, y, x, count) → pixels of an input outside the arena, or None if its source fails."""
_JUNK = 0xA5
_JUNK_LIMIT = 1 << 26


def send_frame(connection: socket.socket, header: dict[str, Any], body: Sequence[bytes] = ()) -> None:
    """Write one frame. Raises OSError if the other side is gone."""
    text = json.dumps(header).encode()
    connection.sendall(_PREFIX.pack(_MAGIC, len(text), sum(len(part) for part in body)) + text)
    for part in body:
        connection.sendall(part)


def receive_frame(connection: socket.socket, seconds: float | None = None) -> tuple[dict[str, Any], bytes] | None:
    """Return (header, body) of one frame; None if the other side closed the connection or sends no frames.

    Args:
        connection: to the other side.
        seconds: limit for the whole frame; raises TimeoutError. None: no limit.
    """
    end = None if seconds is None else time.monotonic() + seconds
    prefix = _receive_exactly(connection, _PREFIX.size, end)
    if prefix is None:
        return None
    magic, header_length, body_length = _PREFIX.unpack(prefix)
    if magic != _MAGIC or header_length > _LONGEST_HEADER or body_length > _LONGEST_BODY:
        return None
    text = _receive_exactly(connection, header_length, end)
    body = _receive_exactly(connection, body_length, end)
    if text is None or body is None:
        return None
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return (header, body) if isinstance(header, dict) else None


def _receive_exactly(connection: socket.socket, length: int, end: float | None) -> bytes | None:
    parts = bytearray()
    while len(parts) < length:
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
        part = connection.recv(min(length - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


class _TflmBackend:
    """TensorFlow Lite Micro from the ``tflite_micro`` wheel."""

    def __init__(self) -> None:
        from tflite_micro.python.tflite_micro import runtime

        self._runtime: Any = runtime
        self._interpreter: Any = None
        self._libraries: list[ctypes.CDLL] = []
        self._outputs = 0

    def load(self, header: dict[str, Any], model: bytes) -> dict[str, Any]:
        self._libraries = [ctypes.CDLL(library, ctypes.RTLD_GLOBAL) for library in header["libraries"]]
        self._interpreter = None
        arena_size = int(header["arena_size"])
        with _junk_filled_memory(arena_size <= _JUNK_LIMIT):
            self._interpreter = self._runtime.Interpreter.from_bytes(
                model, custom_op_registerers=list(header["registerers"]), arena_size=arena_size
            )
        self._outputs = len(_details(self._interpreter.get_output_details))
        return {"inputs": _details(self._interpreter.get_input_details)}

    def infer(self, arrays: list[Any], outside: list[_OutsideInput], reset: bool) -> list[Any]:
        self._set_outside(outside)
        if reset:
            self._interpreter.reset()
        for index, array in enumerate(arrays):
            self._interpreter.set_input(array, index)
        self._interpreter.invoke()
        return [self._interpreter.get_output(index) for index in range(self._outputs)]

    def _set_outside(self, inputs: list[_OutsideInput]) -> None:
        """Set the inputs outside the arena; also if there are none, because earlier ones refer to freed memory."""
        described = (_OutsideInput * len(inputs))(*inputs)
        setters = [each for library in self._libraries if (each := getattr(library, _OUTSIDE_SETTER, None))]
        if any(setter(described, len(inputs)) != 0 for setter in setters) or (inputs and not setters):
            raise ValueError(f"{len(inputs)} inputs outside the arena cannot be given to this model")

    def print_allocations(self) -> None:
        self._interpreter.print_allocations()


_TYPES = {"int8": 1, "uint8": 2, "float32": 3}
"""``tflite_fuse_type`` by numpy type name."""

Read = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
)
"""``tflite_fuse_read``."""


class _OutsideInput(ctypes.Structure):
    """``shim_input`` of ``shim/outside.h``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("read", Read),
        ("height", ctypes.c_int32),
        ("width", ctypes.c_int32),
        ("channels", ctypes.c_int32),
        ("type", ctypes.c_int32),
    )

    @classmethod
    def of_array(cls, array: Any) -> _OutsideInput:
        height, width, channels = (1, 1, 1, *array.shape)[-3:]
        return cls(array.ctypes.data, Read(), height, width, channels, _TYPES[array.dtype.name])

    @classmethod
    def of_stream(cls, number: int, image: list[Any], fetch: Fetch) -> _OutsideInput:
        extents, dtype = image
        size = 4 if dtype == "float32" else 1

        def read(_: Any, y: int, x: int, count: int, destination: int, capacity: int) -> int:
            pixels = fetch(number, y, x, count)
            if pixels is None or not len(pixels) == count * extents[2] * size <= capacity:
                return _SOURCE_FAILED
            ctypes.memmove(destination, pixels, len(pixels))
            return 0

        return cls(None, Read(read), *extents, _TYPES[dtype])


class _LitertBackend:
    """LiteRT's interpreter with its reference kernels, and operators of shared libraries."""

    def __init__(self) -> None:
        from ai_edge_litert import interpreter

        self._module: Any = interpreter
        self._interpreter: Any = None

    def load(self, header: dict[str, Any], model: bytes) -> dict[str, Any]:
        self._interpreter = None
        libraries = [ctypes.CDLL(library) for library in header["libraries"]]
        self._interpreter = self._module.InterpreterWithCustomOps(
            custom_op_registerers=[registerer(libraries, name) for name in header["registerers"]],
            model_content=model,
            num_threads=1,
            experimental_op_resolver_type=self._module.OpResolverType.BUILTIN_REF,
        )
        self._interpreter.allocate_tensors()
        return {"inputs": [_detail(d) for d in self._interpreter.get_input_details()]}

    def infer(self, arrays: list[Any], outside: list[_OutsideInput], reset: bool) -> list[Any]:
        if outside:
            raise ValueError("it supports no inputs outside the arena")
        if reset:
            self._interpreter.reset_all_variables()
        for detail, array in zip(self._interpreter.get_input_details(), arrays, strict=True):
            self._interpreter.set_tensor(detail["index"], array)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(d["index"]) for d in self._interpreter.get_output_details()]

    def print_allocations(self) -> None:
        raise ValueError("LiteRT has no arena")


_Backend = _TflmBackend | _LitertBackend


def registerer(libraries: Sequence[ctypes.CDLL], name: str) -> Callable[[int], None]:
    """Return a function that adds operators to LiteRT's resolver, given by its address."""
    function = next(getattr(library, name) for library in libraries if hasattr(library, name))
    function.restype, function.argtypes = ctypes.c_bool, (ctypes.c_void_p,)

    def register(resolver: int) -> None:
        if not function(resolver):
            raise RuntimeError("the layout of its operator resolver differs from the known versions")

    return register


@contextlib.contextmanager
def _junk_filled_memory(active: bool) -> Iterator[None]:
    """Fill fresh memory with junk, so a kernel that reads memory it never wrote finds no zeros."""
    mallopt: Any = getattr(ctypes.CDLL(None), "mallopt", None) if active else None
    if mallopt is not None:
        mallopt(_MALLOPT_PERTURB, _JUNK)
    try:
        yield
    finally:
        if mallopt is not None:
            mallopt(_MALLOPT_PERTURB, 0)


def _details(getter: Any) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = []
    while True:
        try:
            details.append(_detail(getter(len(details))))
        except IndexError:
            return details


def _detail(detail: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    return {"shape": [int(extent) for extent in detail["shape"]], "dtype": np.dtype(detail["dtype"]).name}


def log_of(descriptor: int) -> str:
    """Return the end of the text in a file that other processes still write to; their position does not move."""
    if sys.platform == "win32":  # no child is started there, see ``worker.py``
        return ""
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, _LOG_LIMIT, max(0, size - _LOG_LIMIT)).decode("utf-8", "replace")


def _clear_log() -> None:
    os.ftruncate(_LOG_FILE, 0)
    os.lseek(_LOG_FILE, 0, os.SEEK_SET)


def _arrays(header: dict[str, Any], body: bytes) -> list[Any]:
    import numpy as np

    arrays, offset = [], 0
    for name, shape in header["arrays"]:
        array = np.frombuffer(body, np.dtype(name), count=int(np.prod(shape, dtype=np.int64)), offset=offset)
        arrays.append(np.require(array.reshape(shape), requirements=["ALIGNED"]))  # operators refuse others
        offset += array.nbytes
    return arrays


def _answer(backend: _Backend, fetch: Fetch, header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], list[bytes]]:
    request = header["request"]
    if request == "load":
        return backend.load(header, body), []
    if request == "infer":
        arrays = _arrays(header, body)
        count = int(header["inputs"])
        outside = _outside(header["outside"], arrays[count:], fetch)
        outputs = backend.infer(arrays[:count], outside, bool(header["reset"]))
        return {"arrays": [[a.dtype.name, list(a.shape)] for a in outputs]}, [a.tobytes() for a in outputs]
    if request == "allocations":
        backend.print_allocations()
        return {"text": log_of(_LOG_FILE)}, []
    raise ValueError(f"unknown request {request!r}")


def _outside(images: list[Any], arrays: list[Any], fetch: Fetch) -> list[_OutsideInput]:
    """Return the inputs outside the arena; ``images`` has extents and type of streams, None for arrays."""
    remaining = iter(arrays)
    return [
        _OutsideInput.of_array(next(remaining)) if image is None else _OutsideInput.of_stream(number, image, fetch)
        for number, image in enumerate(images)
    ]


def _fetch_from(connection: socket.socket) -> Fetch:
    """Return a function that requests pixels from the parent, which waits for an inference to end."""

    def fetch(number: int, y: int, x: int, count: int) -> bytes | None:
        try:
            send_frame(connection, {"wanted": [number, y, x, count]})
            frame = receive_frame(connection)
        except OSError:  # the parent is gone; the next request ends this process
            return None
        return None if frame is None or "failure" in frame[0] else frame[1]

    return fetch


def serve(connection: socket.socket, runtime: str) -> None:
    """Answer requests until the parent closes the connection."""
    try:
        backend: _Backend = _TflmBackend() if runtime == "tflm" else _LitertBackend()
    except (ImportError, OSError) as error:
        send_frame(connection, {"failure": "import", "message": f"{type(error).__name__}: {error}"})
        return
    confinement = runpy.run_path(str(Path(__file__).with_name("confinement.py")))
    send_frame(connection, {"ready": True, "unconfined": confinement["confine"]()})
    while (frame := receive_frame(connection)) is not None:
        _clear_log()
        confinement["allow_seconds"](frame[0].get("seconds", 0))
        try:
            header, parts = _answer(backend, _fetch_from(connection), *frame)
        except Exception as error:  # a runtime may raise anything; all of it is returned as text
            header, parts = {"failure": type(error).__name__, "message": str(error), "log": log_of(_LOG_FILE)}, []
        send_frame(connection, header, parts)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
