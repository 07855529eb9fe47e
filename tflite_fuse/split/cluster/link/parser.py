"""Messages in a stream of bytes, however it is cut up.

What is no message is skipped byte by byte until one begins, and reported: on TCP that ends the connection, on a serial
line it is noise.
"""

from __future__ import annotations

from tflite_fuse.split.cluster.link.messages import HEADER_BYTES, Fault, Frame, decode, payload_length

_START = 6
"""Bytes of a header that tell whether one may begin here."""


class Parser:
    """Keeps at most one frame's bytes."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        """Bytes that came."""
        self._held += data

    def next(self) -> Frame | Fault | None:
        """The next message, or for each byte at which none can begin why not; None: bytes are missing."""
        held = self._held
        if len(held) < _START:
            return None
        length, fault = payload_length(held)
        if fault is not None:
            del held[:1]
            return fault
        end = HEADER_BYTES + length
        if len(held) < end:
            return None
        frame = decode(bytes(held[:end]))
        if frame is None:
            del held[:1]
            return Fault.DAMAGED
        del held[:end]
        return frame
