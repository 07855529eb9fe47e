"""The C parser and encoder of messages, called from Python."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from tflite_fuse.runtime.library.host import host_library
from tflite_fuse.split.cluster.link.messages import HEADER_BYTES, TAG_BYTES, Fault, Frame, Kind, Message

FRAME_BYTES = HEADER_BYTES + 1400 + TAG_BYTES
_MORE = 256


class _Parser(ctypes.Structure):
    _fields_ = (
        ("frame", ctypes.c_void_p),
        ("held", ctypes.c_uint16),
        ("used", ctypes.c_uint16),
        ("room", ctypes.c_uint16),
    )


class _Head(ctypes.Structure):
    _fields_ = (
        ("plan", ctypes.c_uint64),
        ("inference", ctypes.c_uint32),
        ("sequence", ctypes.c_uint32),
        ("item", ctypes.c_uint32),
        ("sender", ctypes.c_int16),
        ("bytes", ctypes.c_uint16),
        ("kind", ctypes.c_uint8),
    )


class CParser:
    """Fed like the one in Python, but takes only as much as it wants."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(host_library()))
        self._library.tflite_fuse_parser_wants.restype = ctypes.c_size_t
        self._memory = ctypes.create_string_buffer(FRAME_BYTES)
        self._parser = _Parser(ctypes.addressof(self._memory))

    def feed(self, data: bytes) -> Iterator[Frame | Fault]:
        """What is found, in order."""
        while data:
            expected = self._library.tflite_fuse_parser_wants(ctypes.byref(self._parser))
            assert 0 < expected <= FRAME_BYTES - self._parser.held
            taken, data = data[:expected], data[expected:]
            ctypes.memmove(ctypes.addressof(self._memory) + self._parser.held, taken, len(taken))
            self._parser.held += len(taken)
            yield from self._found()

    def _found(self) -> Iterator[Frame | Fault]:
        head = _Head()
        while (code := self._library.tflite_fuse_parser_next(ctypes.byref(self._parser), ctypes.byref(head))) != _MORE:
            if code:
                yield Fault(code)
                continue
            payload = self._memory.raw[HEADER_BYTES : HEADER_BYTES + head.bytes]
            found = Message(Kind(head.kind), head.plan, head.sender, head.inference, head.item, payload)
            yield Frame(found, head.sequence)


def c_encode(message: Message, sequence: int) -> bytes:
    """The bytes of a message."""
    library = ctypes.CDLL(str(host_library()))
    library.tflite_fuse_frame_write.restype = ctypes.c_size_t
    memory = ctypes.create_string_buffer(FRAME_BYTES)
    ctypes.memmove(ctypes.addressof(memory) + HEADER_BYTES, message.payload, len(message.payload))
    numbers = message.inference, sequence, message.item, message.sender, len(message.payload), message.kind
    head = _Head(message.plan, *numbers)
    size = library.tflite_fuse_frame_write(memory, ctypes.byref(head))
    return memory.raw[:size]
