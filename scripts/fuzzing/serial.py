"""Any bytes on a serial line, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from scripts.fuzzing.libfuzzer import Target
from tflite_fuse.split.cluster.link.serial_line import Packet, PacketKind, encode_packet

_PARTS = ("link/tflite_fuse_serial.c", "executor/tflite_fuse_checksum.c")
_SEEDS = 40
_LONGEST = 400
_COMES, _PACKET, _ACCEPT, _RECEIVE, _SEND = 0, 1, 4, 5, 6


def _seeds() -> Iterator[bytes]:
    return (_seed(Random(number)) for number in range(_SEEDS))


def _seed(rng: Random) -> bytes:
    """Draw a conversation of a worker that is called, gets packets and answers, with a little garbage in between."""
    content = bytearray([12]) + _packet(PacketKind.OPEN, 0, bytes([48])) + bytes([_ACCEPT | 8])
    for number in range(1, rng.randrange(2, 8)):
        if rng.random() < 0.3:
            garbage = rng.randbytes(rng.randrange(1, 20))
            content += bytes([_COMES | len(garbage) << 3]) + garbage
        if rng.random() < 0.2:
            whole = encode_packet(Packet(PacketKind.DATA, 7, number, rng.randbytes(8)))
            content += bytes([_COMES | len(whole) << 3]) + whole
        content += _packet(PacketKind.DATA, number, rng.randbytes(rng.randrange(1, 28)))
        content += bytes([_RECEIVE | 31 << 3, 9])
        if rng.random() < 0.4:
            content += _packet(PacketKind.TAKEN, number, b"") + bytes([_SEND | 5 << 3, 9])
    return bytes(content[:_LONGEST])


def _packet(kind: PacketKind, number: int, payload: bytes) -> bytes:
    return bytes([_PACKET | len(payload) << 3, kind, len(payload), 7, number]) + payload


TARGET = Target("serial", "serial.c", _seeds, _LONGEST, parts=_PARTS)
