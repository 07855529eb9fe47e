"""A shared key: a peer without it gets no service.

The key never travels and signs only this: both ends draw a nonce, and

    secret = HMAC-SHA256(key, "tflite-fuse link" + opener's nonce + answerer's nonce + plan + opener + answerer)

signs all messages of the connection from WELCOME on. The signature covers a message's number and sender, so a recorded
message cannot be repeated on this connection, and other connections have other nonces. Nothing is encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from tflite_fuse.errors import UsageError
from tflite_fuse.files import read_file

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
    """Return the secret that signs the messages of one connection; nonces and devices are the opener's, then the
    answerer's."""
    numbers = plan.to_bytes(8, "little") + b"".join((each & 0xFFFF).to_bytes(2, "little") for each in devices)
    return signature(key, _LABEL + b"".join(nonces) + numbers)


def signature(secret: bytes, data: bytes) -> bytes:
    """Return the HMAC-SHA256, 32 bytes."""
    return hmac.new(secret, data, hashlib.sha256).digest()
