"""A connection: numbered and checked messages over a stream. An unexpected message ends it, with the reason.

It begins with HELLO and WELCOME. With a key, WELCOME and all later messages are signed, and the opener repeats HELLO
with a signature: so a recorded HELLO opens nothing, and the current coordinator keeps its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable
from typing import TypeVar

from tflite_fuse.split.cluster.link.messages import (
    KEYED,
    NONCE_BYTES,
    Fault,
    Frame,
    Kind,
    Message,
    Parser,
    Wish,
    checked,
    encode,
    secret_of,
)
from tflite_fuse.split.cluster.link.streams import Stream, connect
from tflite_fuse.split.devices import COORDINATOR

_WORDS = {
    Fault.LOST: "is lost: the connection broke",
    Fault.LATE: "is late: nothing came in time",
    Fault.DAMAGED: "sent bytes that are no message",
    Fault.VERSION: "speaks another version of the protocol",
    Fault.PLAN: "has another plan",
    Fault.ORDER: "sent a message that is not the one that comes now",
    Fault.KEY: "has another key, or only one of the two has a key",
    Fault.BUSY: "serves another coordinator now",
    Fault.STRANGER: "is not who it should be",
    Fault.COMPUTE: "cannot compute its part",
}
_NOBODY = 0xFFFE

T = TypeVar("T")


class LinkError(Exception):
    """A connection ended.

    Attributes:
        fault: the reason.
        device: the device at fault if it is not the one at the other end; else None.
        words: details from the other end.
    """

    def __init__(self, fault: Fault, device: int | None = None, words: str = "") -> None:
        super().__init__(fault.name)
        self.fault, self.device, self.words = fault, device, words

    def of(self, device: int | None) -> LinkError:
        """Return the same error with a device, unless it has one."""
        return LinkError(self.fault, device if self.device is None else self.device, self.words)

    @property
    def sentence(self) -> str:
        """Return the clause about the device, without its name."""
        return _WORDS[self.fault] + (f" ({self.words})" if self.words else "")


class Connection:
    """Messages to and from one device.

    Attributes:
        peer: its number, None until it has named itself.
    """

    def __init__(self, stream: Stream, plan: int, me: int, peer: int | None = None, key: bytes | None = None) -> None:
        self._stream, self._plan, self._me = stream, plan, me
        self.peer = peer
        self._parser = Parser()
        self._outgoing = self._incoming = 0
        self._key, self._secret = key, b""
        self._wish, self._nonce = Wish.RUN, b""

    async def send(self, kind: Kind, *, inference: int = 0, item: int = 0, payload: bytes = b"") -> None:
        """Send a message. Raises LinkError."""
        message = Message(kind, self._plan, self._me, inference, item, payload)
        data = encode(message, self._outgoing, self._secret or None)
        self._outgoing += 1
        try:
            await self._stream.write(data)
        except OSError as error:
            raise LinkError(Fault.LOST) from error

    async def receive(self) -> Message:
        """Return the next message. Raises LinkError if the stream ended, it is invalid, or the peer gave up."""
        frame = await self._next()
        message = checked(frame, self._secret) if self._secret else frame.message
        if message is None:
            raise LinkError(Fault.KEY)
        return self._of_plan(message)

    def _of_plan(self, message: Message) -> Message:
        """Return a message; raise LinkError if it is a report of a fault, or of another plan."""
        if message.kind == Kind.ERROR:
            raise _reported(message)
        if message.plan != self._plan:
            raise LinkError(Fault.PLAN)
        return message

    async def _next(self) -> Frame:
        """Return the next frame, checked for number and sender."""
        while (frame := self._parser.next()) is None:
            try:
                data = await self._stream.read()
            except OSError as error:
                raise LinkError(Fault.LOST) from error
            if not data:
                raise LinkError(Fault.LOST)
            self._parser.feed(data)
        if isinstance(frame, Fault):
            raise LinkError(frame)
        if frame.sequence != self._incoming:
            raise LinkError(Fault.ORDER)
        self._incoming += 1
        if self.peer is not None and frame.message.sender != self.peer:
            raise LinkError(Fault.STRANGER)
        return frame

    async def open(self, wish: Wish) -> Message:
        """Introduce this device and its wish; return the peer's WELCOME. Raises LinkError."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        await self.send(Kind.HELLO, item=wish if self._key is None else wish | KEYED, payload=nonce)
        frame = await self._next()
        answer = self._of_plan(frame.message)
        if answer.kind != Kind.WELCOME or len(answer.payload) < NONCE_BYTES:
            raise LinkError(Fault.ORDER)
        if self._key is not None:
            self._secret = self._secret_with(nonce, answer.payload[:NONCE_BYTES], (self._me, answer.sender))
            if checked(frame, self._secret) is None:
                raise LinkError(Fault.KEY)
            await self.send(Kind.HELLO, item=wish)
        elif len(answer.payload) != NONCE_BYTES:
            raise LinkError(Fault.KEY)
        return answer

    async def accept(self) -> Wish:
        """Read the introduction of the peer (``peer`` from now on) and return its wish. Raises LinkError."""
        hello = await self.receive()
        if hello.kind != Kind.HELLO or len(hello.payload) != NONCE_BYTES:
            raise LinkError(Fault.ORDER)
        if bool(hello.item & KEYED) != (self._key is not None):
            raise LinkError(Fault.KEY)
        try:
            self._wish = Wish(hello.item & ~KEYED)
        except ValueError:
            raise LinkError(Fault.ORDER) from None
        self.peer, self._nonce = hello.sender, hello.payload
        return self._wish

    async def welcome(self, inferences: int) -> None:
        """Reply to the introduction. Raises LinkError."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        if self._key is not None and self.peer is not None:
            self._secret = self._secret_with(self._nonce, nonce, (self.peer, self._me))
        await self.send(Kind.WELCOME, item=inferences, payload=nonce)
        if self._secret:
            again = await self.receive()
            if (again.kind, again.item, again.payload) != (Kind.HELLO, self._wish, b""):
                raise LinkError(Fault.ORDER)

    def _secret_with(self, opener: bytes, answerer: bytes, devices: tuple[int, int]) -> bytes:
        assert self._key is not None
        return secret_of(self._key, (opener, answerer), devices, self._plan)

    async def give_up(self, broken: LinkError) -> None:
        """Report the reason to the peer, if possible, and close."""
        device = _NOBODY if broken.device is None else broken.device & 0xFFFF
        with contextlib.suppress(LinkError, asyncio.TimeoutError):
            words = broken.words.encode()[:200]
            await asyncio.wait_for(self.send(Kind.ERROR, item=broken.fault | device << 16, payload=words), 1.0)
        self.close()

    def close(self) -> None:
        self._stream.close()


def _reported(message: Message) -> LinkError:
    fault, device = message.item & 0xFFFF, message.item >> 16
    if not 1 <= fault <= len(Fault):
        return LinkError(Fault.DAMAGED)
    who = None if device == _NOBODY else COORDINATOR if device == 0xFFFF else device
    return LinkError(Fault(fault), who, message.payload.decode("utf-8", "replace"))


async def in_time(waiting: Awaitable[T], seconds: float) -> T:
    """Return the result. Raises LinkError if it takes longer."""
    try:
        return await asyncio.wait_for(waiting, seconds)
    except asyncio.TimeoutError:  # its own class before Python 3.11
        raise LinkError(Fault.LATE) from None


async def dial_device(
    address: str, plan: int, me: int, peer: int, key: bytes | None, wish: Wish, seconds: float
) -> tuple[Connection, int]:
    """Connect to a device and introduce this one; return the connection, and the inferences that the device has done.

    Args:
        address: of the device.
        plan: number of the plan.
        me, peer: numbers of both devices.
        key: of all devices; None for none.
        wish: purpose of the connection.
        seconds: limit to connect, and again to introduce.

    Raises:
        LinkError: with the device ``peer`` unless another one is at fault.
        OSError: the device cannot be reached.
        UsageError, RuntimeUnavailableError: as ``connect`` does.
    """
    connection = None
    try:
        connection = Connection(await in_time(connect(address), seconds), plan, me, peer, key)
        return connection, (await in_time(connection.open(wish), seconds)).item
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, LinkError):
            raise error.of(peer) from None
        raise
