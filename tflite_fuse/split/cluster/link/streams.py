"""Streams of bytes between devices, found by an address: ``host:port``, or a serial line (``ports``)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Protocol

from tflite_fuse.errors import UsageError
from tflite_fuse.split.cluster.link import ports

_READ = 1 << 16


class Stream(Protocol):
    """Bytes in both directions. Whatever breaks is an OSError."""

    async def read(self) -> bytes:
        """Some bytes; none at the end."""

    async def write(self, data: bytes) -> None:
        """Returns when there is room for more."""

    def close(self) -> None:
        """What was written may still arrive; nothing more comes."""


class TcpStream:
    """A connection of TCP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        connection = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def read(self) -> bytes:
        return await self._reader.read(_READ)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


def parse_address(text: str, what: str) -> tuple[str, int]:
    """Host and port. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{what} is host:port, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


async def connect(address: str) -> Stream:
    """A stream to who listens there.

    Raises:
        OSError: nobody does.
        UsageError: it is no address.
        RuntimeUnavailableError: it is a serial line, and pyserial is not installed.
    """
    if ports.is_serial(address):
        return await ports.dial(address)
    host, port = parse_address(address, "an address")
    return TcpStream(*await asyncio.open_connection(host, port))
