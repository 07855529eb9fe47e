"""A key that only both ends of a connection have: a peer without it is not served.

The key itself never travels, and signs nothing but this: both ends draw a nonce, and

    secret = HMAC-SHA256(key, "tflite-fuse link" + opener's nonce + answerer's nonce + plan + opener + answerer)

signs all messages of the connection from the answer on. A message's number and sender are signed with it, so what was
recorded is of no use on this connection, and on another one the nonces are others. Nothing is encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

from tflite_fuse.errors import UsageError
from tflite_fuse.files import read_file

NONCE_BYTES = 16
LEAST_BYTES, MOST_BYTES = 16, 1024
"""Of a key."""

_LABEL = b"tflite-fuse link"


@dataclass(frozen=True)
class Ends:
    """What tells a connection from all others: nonces and devices of who opened it and who answered, and the plan."""

    nonces: tuple[bytes, bytes]
    devices: tuple[int, int]
    plan: int


def read_key(path: Path) -> bytes:
    """All bytes of a file. Raises UsageError: it cannot be read, or they are too few or too many."""
    key = read_file(path)
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise UsageError(
            f"{path}: has {len(key):,} bytes; a key has {LEAST_BYTES} to {MOST_BYTES:,}, for example those of "
            "head -c 32 /dev/urandom"
        )
    return key


def secret_of(key: bytes, ends: Ends) -> bytes:
    """What signs the messages of one connection."""
    numbers = ends.plan.to_bytes(8, "little") + b"".join((each & 0xFFFF).to_bytes(2, "little") for each in ends.devices)
    return signature(key, _LABEL + b"".join(ends.nonces) + numbers)


def signature(secret: bytes, data: bytes) -> bytes:
    """HMAC-SHA256, 32 bytes."""
    return hmac.new(secret, data, hashlib.sha256).digest()
