"""A worker of a split in C, run on this machine: ``tflite_fuse_worker.h`` with memory of exact size.

with HostWorker(fragment) as worker:
    worker.begin()
    event = worker.next()
"""

from __future__ import annotations

import ctypes
import functools
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from tflite_fuse.errors import BlockError
from tflite_fuse.runtime.library.host import host_library

_NO_OPERATOR = 17
_ALIGNMENT = 16
_JUNK = 0xA5
_HEADER_BYTES = 32
_BUFFER_BYTES_AT = 28


class EventKind(IntEnum):
    """The kind of a worker's next event."""

    SEND = 1
    RECEIVE = 2
    COMPUTE = 3
    FINISHED = 4


class Event(NamedTuple):
    """The next event of a worker, ``tflite_fuse_event``.

    Attributes:
        kind: its kind.
        peer, nbytes, sequence: of a message.
        step: number of the step in the fragment.
    """

    kind: EventKind
    peer: int = 0
    nbytes: int = 0
    sequence: int = 0
    step: int = 0


class _Event(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("peer", ctypes.c_int16),
        ("bytes", ctypes.c_uint16),
        ("sequence", ctypes.c_uint32),
        ("step", ctypes.c_uint32),
    )


class _Worker(ctypes.Structure):
    _fields_ = (
        ("fragment", ctypes.c_void_p),
        ("buffer", ctypes.c_void_p),
        ("step", ctypes.c_uint32),
        ("done", ctypes.c_uint32),
    )


class HostWorker:
    """A worker with its own buffer, initially full of junk.

    Args:
        fragment: its fragment.

    Raises:
        BlockError: the library refuses the fragment.
        RuntimeUnavailableError: no C compiler, or no C sources.
    """

    def __init__(self, fragment: bytes) -> None:
        self._library = _load(host_library())
        self._worker = _Worker()
        size = int.from_bytes(fragment[_BUFFER_BYTES_AT:_HEADER_BYTES], "little") if len(fragment) >= 32 else 0
        self._memory = [_Aligned(fragment), _Aligned(bytes([_JUNK]) * min(size, 1 << 30))]
        data, buffer = self._memory
        status = self._library.tflite_fuse_worker_open(
            ctypes.byref(self._worker), data.address, len(fragment), buffer.address, size
        )
        if status == _NO_OPERATOR:
            number = self._library.tflite_fuse_worker_operator(ctypes.byref(self._worker))
            raise BlockError(f"{self._words(status)}: operator {number} of the model")
        self._check(status)

    def begin(self) -> None:
        """Begin the next inference."""
        self._library.tflite_fuse_worker_begin(ctypes.byref(self._worker))

    def next(self) -> Event:
        """Return the next event."""
        event = self._library.tflite_fuse_worker_next(ctypes.byref(self._worker))
        return Event(EventKind(event.kind), event.peer, event.bytes, event.sequence, event.step)

    def payload(self) -> bytes:
        """Return the bytes of the message to send. Raises BlockError if the next event is no message to send."""
        payload = ctypes.create_string_buffer(max(1, self.next().nbytes))
        self._check(self._library.tflite_fuse_worker_payload(ctypes.byref(self._worker), payload))
        return payload.raw

    def sent(self) -> None:
        """Report that the message was sent. Raises BlockError if the next event is no message to send."""
        self._check(self._library.tflite_fuse_worker_sent(ctypes.byref(self._worker)))

    def received(self, payload: bytes) -> None:
        """Hand over a received message. Raises BlockError if none is expected, or its size differs."""
        self._check(self._library.tflite_fuse_worker_received(ctypes.byref(self._worker), payload, len(payload)))

    def compute(self) -> None:
        """Compute the next step. Raises BlockError if the next event is a message."""
        self._check(self._library.tflite_fuse_worker_compute(ctypes.byref(self._worker)))

    def _check(self, status: int) -> None:
        if status:
            raise BlockError(self._words(status))

    def _words(self, status: int) -> str:
        return str(self._library.tflite_fuse_worker_message(status).decode())


class _Aligned:
    """Bytes at a multiple of 16."""

    def __init__(self, data: bytes) -> None:
        self._memory = ctypes.create_string_buffer(len(data) + _ALIGNMENT)
        start = ctypes.addressof(self._memory)
        self.address = start + -start % _ALIGNMENT
        ctypes.memmove(self.address, data, len(data))


@functools.cache
def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    pointer = ctypes.POINTER(_Worker)
    library.tflite_fuse_worker_message.restype = ctypes.c_char_p
    library.tflite_fuse_worker_next.restype = _Event
    library.tflite_fuse_worker_next.argtypes = [pointer]
    library.tflite_fuse_worker_begin.restype = None
    library.tflite_fuse_worker_begin.argtypes = [pointer]
    library.tflite_fuse_worker_payload.argtypes = [pointer, ctypes.c_char_p]
    library.tflite_fuse_worker_received.argtypes = [pointer, ctypes.c_char_p, ctypes.c_size_t]
    library.tflite_fuse_worker_open.argtypes = [
        pointer,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_size_t,
    ]
    return library
