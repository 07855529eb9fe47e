"""A connection over a serial line: packets, each repeated until the other end confirms it.

``arduino/src/link/tflite_fuse_serial.h`` describes the packets.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

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


_ANSWER_SECONDS = 0.1
_BYTE_SECONDS = 0.002
_LONGEST_SECONDS = 1.6
_GAP_SECONDS = 0.05
"""Pause after which a partial packet is given up."""

_MOST_KEPT = 1 << 16
"""Most unread bytes; further packets are dropped and sent again later."""


class Port(Protocol):
    """The line itself. The stream that opened it receives its bytes, in the event loop."""

    def write(self, data: bytes) -> None:
        """Write without blocking for long. Raises OSError."""

    def close(self) -> None:
        """Close after written bytes are sent."""


class SerialStream:
    """The dialling end of a line. The port set by ``attach`` calls ``feed`` and ``lose``."""

    def __init__(self) -> None:
        self._port: Port | None = None
        self._parser = PacketParser()
        self._connection = secrets.randbelow(256)
        self._sent = self._received = self._room = 0
        self._kept = bytearray()
        self._dropped = False
        self._error: OSError | None = None
        self._came, self._answer = asyncio.Event(), asyncio.Event()
        self._turn = asyncio.Lock()
        self._answered = self._again = False
        self._gap: asyncio.TimerHandle | None = None

    def attach(self, port: Port) -> None:
        """Set the port."""
        self._port = port

    async def dial(self) -> None:
        """Send OPEN until the other end confirms it. Raises OSError if the line is gone."""
        await self._deliver(PacketKind.OPEN, bytes([MOST_BYTES]))

    async def read(self) -> bytes:
        """Return received bytes. Raises OSError if the line is gone, or the other end closed."""
        while not self._kept:
            if self._error is not None:
                raise self._error
            self._came.clear()
            await self._came.wait()
        data = bytes(self._kept)
        self._kept.clear()
        if self._dropped:
            self._dropped = False
            self._write(PacketKind.AGAIN, self._received)
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes and wait for their confirmation. Raises OSError if the line is gone or was closed."""
        async with self._turn:
            for start in range(0, len(data), self._room):
                self._sent = (self._sent + 1) % 256
                await self._deliver(PacketKind.DATA, data[start : start + self._room])

    def close(self) -> None:
        """Report the end to the other end and close the port."""
        if self._error is None:
            self._write(PacketKind.CLOSE, self._sent)
        self.lose(ConnectionAbortedError("the line was closed"))
        if self._port is not None:
            self._port.close()

    # ---- Called by the port ----

    def feed(self, data: bytes) -> None:
        """Process received bytes."""
        self._parser.feed(data)
        self._go_on()

    def _go_on(self) -> None:
        harmed = self._parser.harmed
        while self._error is None and (packet := self._parser.next()) is not None:
            if packet.connection == self._connection:
                self._take(packet)
        self._ask_again(harmed)
        if self._gap is not None:
            self._gap.cancel()
        self._gap = None
        if self._error is None and self._parser.is_waiting:
            self._gap = asyncio.get_running_loop().call_later(_GAP_SECONDS, self._skip)

    def _skip(self) -> None:
        harmed = self._parser.harmed
        self._parser.skip()
        self._ask_again(harmed)
        self._go_on()

    def _ask_again(self, harmed: int) -> None:
        if self._error is None and self._parser.harmed > harmed:
            self._write(PacketKind.AGAIN, self._received)

    def lose(self, error: OSError) -> None:
        """Report that the line is gone."""
        self._error = self._error or error
        self._came.set()
        self._answer.set()

    # ---- Packets ----

    def _take(self, packet: Packet) -> None:
        if packet.kind is PacketKind.DATA:
            self._take_data(packet)
        elif packet.kind is PacketKind.TAKEN:
            if not self._room and len(packet.payload) == 1 and packet.payload[0] >= LEAST_BYTES:
                self._room = min(packet.payload[0], MOST_BYTES)
            if packet.number == self._sent and self._room:
                self._answered = True
                self._answer.set()
        elif packet.kind is PacketKind.AGAIN:
            self._again = True
            self._answer.set()
        elif packet.kind is PacketKind.CLOSE:
            self.lose(ConnectionResetError("the other end of the line closed"))

    def _take_data(self, packet: Packet) -> None:
        if packet.number == (self._received + 1) % 256 and packet.payload:
            if len(self._kept) > _MOST_KEPT:
                self._dropped = True
                return
            self._received = packet.number
            self._kept += packet.payload
            self._came.set()
        if packet.number == self._received:
            self._write(PacketKind.TAKEN, packet.number)

    def _write(self, kind: PacketKind, number: int, payload: bytes = b"") -> None:
        assert self._port is not None
        try:
            self._port.write(encode_packet(Packet(kind, self._connection, number, payload)))
        except OSError as error:
            self.lose(error)

    async def _deliver(self, kind: PacketKind, payload: bytes) -> None:
        patience = _ANSWER_SECONDS + _BYTE_SECONDS * len(payload)
        self._answered = False
        while not self._answered:
            self._answer.clear()
            self._again = False
            self._write(kind, self._sent, payload)
            if self._error is None:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._answer.wait(), patience)
            if self._error is not None and not self._answered:
                raise self._error
            patience = patience if self._again else min(2 * patience, _LONGEST_SECONDS)
