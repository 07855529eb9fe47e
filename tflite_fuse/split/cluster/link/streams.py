"""Streams of bytes to devices, by address: ``host:port``, or a serial line.

Serial lines are ``/dev/ttyACM0`` or ``COM3``, with an optional speed such as ``@115200``; or ``socket://host:port`` for
the raw stream of a serial line that an emulator or a device server offers over TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import socket
import threading
from typing import Any, Protocol

from tflite_fuse.errors import RuntimeUnavailableError, UsageError, how_to_install
from tflite_fuse.split.cluster.link.serial_line import SerialStream

_READ = 1 << 16
_PORT_DIGITS, _MOST_PORT = 5, 65_535


class Stream(Protocol):
    """Bytes in both directions. All failures are OSErrors."""

    async def read(self) -> bytes:
        """Return received bytes; empty at the end."""

    async def write(self, data: bytes) -> None:
        """Write, and wait until there is room for more."""

    def close(self) -> None:
        """Close; written bytes may still arrive."""


class TcpStream:
    """A TCP connection."""

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
    """Return (host, port). Raises UsageError; ``what`` names the address in its message."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not _is_host(host) or not port.isascii() or not port.isdigit():
        raise UsageError(f"{what} is host:port, not {text!r}")
    if len(port) > _PORT_DIGITS or int(port) > _MOST_PORT:
        raise UsageError(f"{what} has a port from 0 to {_MOST_PORT:,}, not {port[:20]}")
    return host, int(port)


def _is_host(text: str) -> bool:
    """Return whether Python can encode a host for a look-up; it refuses some characters and empty labels."""
    try:
        return bool(text.encode("idna")) and text.isprintable()
    except UnicodeError:
        return False


async def connect(address: str) -> Stream:
    """Return a stream to the device that listens at an address.

    Raises:
        OSError: the connection fails.
        UsageError: it is no address.
        RuntimeUnavailableError: it is a serial line, and pyserial is not installed.
    """
    if is_serial(address):
        return await dial(address)
    host, port = parse_address(address, "an address")
    return TcpStream(*await asyncio.open_connection(host, port))


BAUD = 115_200
_SOCKET = "socket://"
_DEVICE = re.compile(r"(?P<path>/.+?|COM\d+)(@(?P<baud>\d{1,8}))?", re.IGNORECASE)
_WAIT = 0.05
_CLOSING = 0.5
"""Seconds to wait for the previous process to release a line."""

_READ_AT_ONCE = 4096


def is_serial(address: str) -> bool:
    """Return whether an address names a serial line."""
    return address.startswith(_SOCKET) or _DEVICE.fullmatch(address) is not None


async def dial(address: str) -> SerialStream:
    """Return a connection over a serial line as soon as a device replies.

    Raises:
        OSError: the line cannot be opened, or is lost.
        UsageError: it is no address, or the line does not support the speed.
        RuntimeUnavailableError: pyserial is not installed.
    """
    stream = SerialStream()
    port = await (_socket(address, stream) if address.startswith(_SOCKET) else _device(address, stream))
    stream.attach(port)
    try:
        await stream.dial()
    except BaseException:
        stream.close()
        raise
    return stream


# ---- A device of this machine ----


async def _device(address: str, stream: SerialStream) -> _DevicePort:
    match = _DEVICE.fullmatch(address)
    assert match is not None
    try:
        import serial  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise RuntimeUnavailableError(
            f"serial lines need pyserial, which is not installed: {how_to_install('serial')}"
        ) from None
    loop, baud = asyncio.get_running_loop(), int(match["baud"] or BAUD)

    def opened() -> Any:
        return serial.Serial(match["path"], baud, timeout=_WAIT, write_timeout=1.0, exclusive=True)

    end = loop.time() + _CLOSING
    while True:
        try:
            return _DevicePort(await loop.run_in_executor(None, opened), stream, loop)
        except ValueError as error:
            raise UsageError(f"{address}: {error}") from error
        except OSError as error:  # the previous connection may not have closed it yet
            if error.errno != errno.EAGAIN or loop.time() > end:
                raise
            await asyncio.sleep(_WAIT)


class _DevicePort:
    """A serial port read by a thread: not every system can wait for a serial line and a socket at once."""

    def __init__(self, port: Any, stream: SerialStream, loop: asyncio.AbstractEventLoop) -> None:
        self._port, self._stream, self._loop = port, stream, loop
        self._ends = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        self._port.write(data)

    def close(self) -> None:
        # The thread reads no longer than the port's timeout. It may close the port during a cancel_read.
        self._ends = True

    def _read(self) -> None:
        try:
            while not self._ends:
                data = self._port.read(max(1, min(self._port.in_waiting, _READ_AT_ONCE)))
                if data:
                    self._tell(self._stream.feed, data)
            self._port.flush()
        except OSError as error:
            self._tell(self._stream.lose, error)
        finally:
            self._port.close()

    def _tell(self, function: Any, argument: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, argument)


# ---- A serial line over TCP ----


async def _socket(address: str, stream: SerialStream) -> _SocketPort:
    host, port = parse_address(address.removeprefix(_SOCKET), f"what follows {_SOCKET}")
    reader, writer = await asyncio.open_connection(host, port)
    return _SocketPort(reader, writer, stream)


class _SocketPort:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: SerialStream) -> None:
        self._writer = writer
        self._task = asyncio.ensure_future(_pump(reader, stream))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def close(self) -> None:
        self._task.cancel()
        self._writer.close()


async def _pump(reader: asyncio.StreamReader, stream: SerialStream) -> None:
    try:
        while data := await reader.read(_READ_AT_ONCE):
            stream.feed(data)
        stream.lose(ConnectionResetError("the line is gone"))
    except OSError as error:
        stream.lose(error)
