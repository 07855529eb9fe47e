"""Messages in a stream of bytes, however it is cut up.

What is no message is skipped byte by byte until one begins, and reported: on TCP that ends the connection, on a serial
line it is noise.

Messages between devices: a header of 32 bytes, up to 1,400 bytes of payload, little endian.

The twin of ``arduino/src/link``.

    0  u16  0xF75E                       16  u32  inference, from 1; 0 outside of one
    2  u8   version                      20  u32  number of the message, per connection and direction, from 0
    3  u8   kind                         24  u32  item: what it is about
    4  u16  bytes of payload             28  u32  CRC-32 of all, itself taken as 0
    6  u16  sender: its device, 0xFFFF for the coordinator
    8  u64  number of the plan

With a key (``keys``), the last 16 bytes of a payload are a signature of the message without them and with 0 for its
checksum. HELLO comes before either end can sign; ``KEYED`` in its item says that the rest will be signed.
"""

from __future__ import annotations

import hmac
import struct
import zlib
from dataclasses import dataclass, replace
from enum import IntEnum

from tflite_fuse.split.cluster.link.keys import signature
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.protocol import HEADER_BYTES as HEADER_BYTES
from tflite_fuse.split.protocol import PAYLOAD_BYTES
from tflite_fuse.split.protocol import TAG_BYTES as TAG_BYTES
from tflite_fuse.split.protocol import Kind as Kind

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


MAGIC = 0xF75E
VERSION = 1

_HEADER = struct.Struct("<HBBHHQIIII")
_CHECKED = HEADER_BYTES - 4


QUIET = 1
"""Item of START: the coordinator does not ask for STEP messages."""


class Fault(IntEnum):
    """Why a connection or an inference ends. The numbers travel."""

    LOST = 1
    """The connection broke."""
    LATE = 2
    """Nothing came for too long."""
    DAMAGED = 3
    """Bytes that are no sound message."""
    VERSION = 4
    """Another version of the protocol."""
    PLAN = 5
    """Another plan, or a part of another one."""
    ORDER = 6
    """A message is missing, there twice, or not what comes now."""
    KEY = 7
    """Another key, or a key at one end only."""
    BUSY = 8
    """The worker serves another coordinator."""
    STRANGER = 9
    """A device that has no business here."""
    COMPUTE = 10
    """The worker cannot compute its part."""


class Wish(IntEnum):
    """What a connection is for."""

    RUN = 1
    """Inferences of the coordinator. It ends the one before: a coordinator that was restarted is served."""
    PEER = 2
    """Values of another worker, for the coordinator that is connected."""
    STATUS = 3
    """To ask how a worker does; it goes on with what it does."""


KEYED = 1 << 8
"""In the item of HELLO, beside the wish: who opens the connection has a key."""

SENDER_COORDINATOR = 0xFFFF


@dataclass(frozen=True)
class Message:
    """One message, without what only its connection knows: the number, and the authentication."""

    kind: Kind
    plan: int
    sender: int = COORDINATOR
    inference: int = 0
    item: int = 0
    payload: bytes = b""

    @property
    def frame_bytes(self) -> int:
        """On a connection without a key."""
        return HEADER_BYTES + len(self.payload)


@dataclass(frozen=True)
class Frame:
    """A sound message of a stream, its signature still in the payload, and its number."""

    message: Message
    sequence: int


def encode(message: Message, sequence: int, secret: bytes | None = None) -> bytes:
    """The bytes of a message, signed if there is a secret. Raises ValueError: the payload is too long."""
    if len(message.payload) > PAYLOAD_BYTES:
        raise ValueError(f"a payload of {len(message.payload)} bytes")
    payload = message.payload if secret is None else message.payload + _tag(message, sequence, secret)
    head = _head(message, sequence, len(payload))
    return head[:_CHECKED] + _checksum(head, payload).to_bytes(4, "little") + payload


def checked(frame: Frame, secret: bytes) -> Message | None:
    """The message without its signature; None if it was signed with another secret, or not at all."""
    payload, tag = frame.message.payload[:-TAG_BYTES], frame.message.payload[-TAG_BYTES:]
    message = replace(frame.message, payload=payload)
    return message if hmac.compare_digest(tag, _tag(message, frame.sequence, secret)) else None


def _tag(message: Message, sequence: int, secret: bytes) -> bytes:
    head = _head(message, sequence, len(message.payload) + TAG_BYTES)
    return signature(secret, head + message.payload)[:TAG_BYTES]


def _head(message: Message, sequence: int, length: int) -> bytes:
    """A header with 0 in the place of the checksum."""
    sender = message.sender & SENDER_COORDINATOR
    fields = message.kind, length, sender, message.plan, message.inference, sequence, message.item
    return _HEADER.pack(MAGIC, VERSION, *fields, 0)


def _checksum(head: bytes, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(bytes(4), zlib.crc32(head[:_CHECKED])))


def payload_length(head: bytes | bytearray) -> tuple[int, Fault | None]:
    """Of a header's first bytes: the payload's length, and what is wrong with it, None if it may be a header."""
    magic, version, kind, length = struct.unpack_from("<HBBH", head)
    if magic != MAGIC:
        return 0, Fault.DAMAGED
    if version != VERSION:
        return 0, Fault.VERSION
    if not Kind.HELLO <= kind <= Kind.ERROR or length > PAYLOAD_BYTES + TAG_BYTES:
        return 0, Fault.DAMAGED
    return length, None


def decode(frame: bytes) -> Frame | None:
    """The message of a whole frame whose header ``payload_length`` accepts; None if its checksum does not fit."""
    _, _, kind, _, sender, plan, inference, sequence, item, crc = _HEADER.unpack_from(frame)
    payload = frame[HEADER_BYTES:]
    if _checksum(frame, payload) != crc:
        return None
    device = COORDINATOR if sender == SENDER_COORDINATOR else sender
    return Frame(Message(Kind(kind), plan, device, inference, item, payload), sequence)
