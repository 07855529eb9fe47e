"""Packets on a serial line, and their parser; ``arduino/src/link/tflite_fuse_serial.h`` describes them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

HEAD_BYTES = 8
MOST_BYTES = 252
"""Most bytes of payload; a device may accept fewer."""

LEAST_BYTES = 4
_MARK = 0xA0
_HEAD = struct.Struct("<BBBBI")


class PacketKind(IntEnum):
    """The kind of a packet."""

    OPEN = 1
    DATA = 2
    TAKEN = 3
    AGAIN = 4
    CLOSE = 5


@dataclass(frozen=True)
class Packet:
    """One packet.

    Attributes:
        kind: its kind.
        connection: number of the connection, chosen by its opener.
        number: of the data packet in one direction, from 1; 0 for OPEN.
        payload: bytes of the stream, or for OPEN the most payload bytes of a packet.
    """

    kind: PacketKind
    connection: int
    number: int = 0
    payload: bytes = b""


def encode_packet(packet: Packet) -> bytes:
    """Return the bytes of a packet."""
    fields = _MARK + packet.kind, len(packet.payload), packet.connection, packet.number
    checksum = zlib.crc32(_HEAD.pack(*fields, 0) + packet.payload)
    return _HEAD.pack(*fields, checksum) + packet.payload


class PacketParser:
    """Finds packets on a line; holds the bytes that may begin one.

    Attributes:
        harmed: number of damaged packets so far.
    """

    def __init__(self) -> None:
        self.harmed = 0
        self._held = bytearray()

    @property
    def is_waiting(self) -> bool:
        """Return whether the held bytes may begin a packet."""
        return bool(self._held)

    def skip(self) -> None:
        """Give up on the packet that seems to begin; continue behind its first byte."""
        self.harmed += 1
        del self._held[:1]

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._held += data

    def next(self) -> Packet | None:
        """Return the next valid packet and skip bytes before it; None if bytes are missing."""
        held = self._held
        while held:
            if not _is_head(held):
                del held[:1]
            elif len(held) < HEAD_BYTES or len(held) < HEAD_BYTES + held[1]:
                return None
            else:
                mark, size, connection, number, _ = _HEAD.unpack_from(held)
                whole = bytes(held[: HEAD_BYTES + size])
                packet = Packet(PacketKind(mark - _MARK), connection, number, whole[HEAD_BYTES:])
                if encode_packet(packet) == whole:
                    del held[: len(whole)]
                    return packet
                self.skip()
        return None


def _is_head(held: bytearray) -> bool:
    is_kind = PacketKind.OPEN <= held[0] - _MARK <= PacketKind.CLOSE
    return is_kind and (len(held) < 2 or held[1] <= MOST_BYTES)
