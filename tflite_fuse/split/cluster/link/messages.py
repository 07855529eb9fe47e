"""Messages between devices, and their parser. The twin of ``arduino/src/link``.

A message has a header of 32 bytes and up to 1,400 bytes of payload, little endian:

    0  u16  0xF75E                       16  u32  inference, from 1; 0 outside of one
    2  u8   version                      20  u32  number of the message, per connection and direction, from 0
    3  u8   kind                         24  u32  item; its meaning depends on the kind
    4  u16  bytes of payload             28  u32  CRC-32 of all bytes, with 0 in this field
    6  u16  sender: its device, 0xFFFF for the coordinator
    8  u64  number of the plan

With a shared key, the last 16 bytes of a payload are a signature of the message without them and with checksum 0; a
peer without the key gets no service. HELLO comes before either end can sign; ``KEYED`` in its item announces
signatures. The key never travels and signs only this: both ends draw a nonce, and

    secret = HMAC-SHA256(key, "tflite-fuse link" + opener's nonce + answerer's nonce + plan + opener + answerer)

signs all messages of the connection from WELCOME on. The signature covers a message's number and sender, so a recorded
message cannot be repeated on this connection, and other connections have other nonces. Nothing is encrypted.

The parser accepts a stream cut up anywhere. It skips bytes that begin no message one by one and reports each: on TCP
that ends the connection, on a serial line it is noise.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from tflite_fuse.errors import UsageError
from tflite_fuse.files import read_file
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.protocol import HEADER_BYTES as HEADER_BYTES
from tflite_fuse.split.protocol import PAYLOAD_BYTES
from tflite_fuse.split.protocol import TAG_BYTES as TAG_BYTES
from tflite_fuse.split.protocol import Kind as Kind

NONCE_BYTES = 16
LEAST_BYTES, MOST_BYTES = 16, 1024
"""Bounds of a key's length in bytes."""

_LABEL = b"tflite-fuse link"


def read_key(path: Path) -> bytes:
    """Return all bytes of a key file. Raises UsageError if it cannot be read, or is too short or too long."""
    key = read_file(path)
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise UsageError(
            f"{path}: has {len(key):,} bytes; a key has {LEAST_BYTES} to {MOST_BYTES:,}, for example those of "
            "head -c 32 /dev/urandom"
        )
    return key


def secret_of(key: bytes, nonces: tuple[bytes, bytes], devices: tuple[int, int], plan: int) -> bytes:
    """Return the secret that signs the messages of one connection.

    Args:
        key: of all devices.
        nonces, devices: the opener's, then the answerer's.
        plan: number of the plan.
    """
    numbers = plan.to_bytes(8, "little") + b"".join((each & 0xFFFF).to_bytes(2, "little") for each in devices)
    return signature(key, _LABEL + b"".join(nonces) + numbers)


def signature(secret: bytes, data: bytes) -> bytes:
    """Return the HMAC-SHA256, 32 bytes."""
    return hmac.new(secret, data, hashlib.sha256).digest()


_START = 6
"""Bytes of a header that ``payload_length`` needs."""


class Parser:
    """Finds messages in a stream; holds at most one frame's bytes."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._held += data

    def next(self) -> Frame | Fault | None:
        """Return the next message, or a fault for each byte at which none can begin; None if bytes are missing."""
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
"""Item of START: the worker sends no STEP messages."""


class Fault(IntEnum):
    """Why a connection or an inference ends. The numbers travel."""

    LOST = 1
    """The connection broke."""
    LATE = 2
    """No message came in time."""
    DAMAGED = 3
    """Received bytes are no valid message."""
    VERSION = 4
    """Another version of the protocol."""
    PLAN = 5
    """Another plan, or a part of another one."""
    ORDER = 6
    """A message is missing, repeated or unexpected."""
    KEY = 7
    """Another key, or a key at one end only."""
    BUSY = 8
    """The worker serves another coordinator."""
    STRANGER = 9
    """The device takes no part in this connection."""
    COMPUTE = 10
    """The worker cannot compute its part."""


class Wish(IntEnum):
    """The purpose of a connection."""

    RUN = 1
    """Inferences for a coordinator. It replaces the connection before, so a restarted coordinator is served."""
    PEER = 2
    """Values of another worker, for the connected coordinator."""
    STATUS = 3
    """A request for a worker's state, which does not interrupt it."""


KEYED = 1 << 8
"""Flag in the item of HELLO, beside the wish: the opener has a key."""

SENDER_COORDINATOR = 0xFFFF


@dataclass(frozen=True)
class Message:
    """A message without number and signature, which its connection adds."""

    kind: Kind
    plan: int
    sender: int = COORDINATOR
    inference: int = 0
    item: int = 0
    payload: bytes = b""


@dataclass(frozen=True)
class Frame:
    """A valid message of a stream, with its number; the signature is still in the payload."""

    message: Message
    sequence: int


def encode(message: Message, sequence: int, secret: bytes | None = None) -> bytes:
    """Return the bytes of a message, signed if there is a secret. Raises ValueError if the payload is too long."""
    if len(message.payload) > PAYLOAD_BYTES:
        raise ValueError(f"a payload of {len(message.payload)} bytes")
    payload = message.payload if secret is None else message.payload + _tag(message, sequence, secret)
    head = _head(message, sequence, len(payload))
    return head[:_CHECKED] + _checksum(head, payload).to_bytes(4, "little") + payload


def checked(frame: Frame, secret: bytes) -> Message | None:
    """Return the message without its signature; None if the signature is missing or of another secret."""
    payload, tag = frame.message.payload[:-TAG_BYTES], frame.message.payload[-TAG_BYTES:]
    message = replace(frame.message, payload=payload)
    return message if hmac.compare_digest(tag, _tag(message, frame.sequence, secret)) else None


def _tag(message: Message, sequence: int, secret: bytes) -> bytes:
    head = _head(message, sequence, len(message.payload) + TAG_BYTES)
    return signature(secret, head + message.payload)[:TAG_BYTES]


def _head(message: Message, sequence: int, length: int) -> bytes:
    """Return a header with checksum 0."""
    sender = message.sender & SENDER_COORDINATOR
    fields = message.kind, length, sender, message.plan, message.inference, sequence, message.item
    return _HEADER.pack(MAGIC, VERSION, *fields, 0)


def _checksum(head: bytes, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(bytes(4), zlib.crc32(head[:_CHECKED])))


def payload_length(head: bytes | bytearray) -> tuple[int, Fault | None]:
    """Return (payload length, None) of a header's first bytes, or (0, fault) if they begin no header."""
    magic, version, kind, length = struct.unpack_from("<HBBH", head)
    if magic != MAGIC:
        return 0, Fault.DAMAGED
    if version != VERSION:
        return 0, Fault.VERSION
    if not Kind.HELLO <= kind <= Kind.ERROR or length > PAYLOAD_BYTES + TAG_BYTES:
        return 0, Fault.DAMAGED
    return length, None


def decode(frame: bytes) -> Frame | None:
    """Return the message of a whole frame whose header ``payload_length`` accepts; None if its checksum is wrong."""
    _, _, kind, _, sender, plan, inference, sequence, item, crc = _HEADER.unpack_from(frame)
    payload = frame[HEADER_BYTES:]
    if _checksum(frame, payload) != crc:
        return None
    device = COORDINATOR if sender == SENDER_COORDINATOR else sender
    return Frame(Message(Kind(kind), plan, device, inference, item, payload), sequence)
