"""Packets on a serial line, and how they are found among whatever else it carries.

The twin of ``arduino/src/link/tflite_fuse_serial.h``, which describes them.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

HEAD_BYTES = 8
MOST_BYTES = 252
"""Of payload; a device may have room for less."""

LEAST_BYTES = 4
_MARK = 0xA0
_HEAD = struct.Struct("<BBBBI")


class PacketKind(IntEnum):
    """What a packet is."""

    OPEN = 1
    DATA = 2
    TAKEN = 3
    AGAIN = 4
    CLOSE = 5


@dataclass(frozen=True)
class Packet:
    """One packet.

    Attributes:
        kind: what it is.
        connection: its number, which who opens it picks.
        number: among the data of one direction, from 1; 0 for OPEN.
        payload: bytes of the stream, or how many a packet may carry.
    """

    kind: PacketKind
    connection: int
    number: int = 0
    payload: bytes = b""


def encode_packet(packet: Packet) -> bytes:
    """Its bytes."""
    fields = _MARK + packet.kind, len(packet.payload), packet.connection, packet.number
    checksum = zlib.crc32(_HEAD.pack(*fields, 0) + packet.payload)
    return _HEAD.pack(*fields, checksum) + packet.payload


class PacketParser:
    """Keeps what may be the beginning of a packet.

    Attributes:
        harmed: things that began like a packet and were none, so far.
    """

    def __init__(self) -> None:
        self.harmed = 0
        self._held = bytearray()

    @property
    def is_waiting(self) -> bool:
        """Whether something began like a packet."""
        return bool(self._held)

    def skip(self) -> None:
        """The end of what began like a packet does not come: go on behind its first byte."""
        self.harmed += 1
        del self._held[:1]

    def feed(self, data: bytes) -> None:
        """Bytes that came."""
        self._held += data

    def next(self) -> Packet | None:
        """The next sound packet; what is none before it is skipped. None: bytes are missing."""
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
