"""Whatever may come over a serial line, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from random import Random

from scripts.fuzzing import libfuzzer
from tflite_fuse.split.cluster.link.packets import Packet, PacketKind, encode_packet

_PARTS = ("link/tflite_fuse_serial.c", "executor/tflite_fuse_checksum.c")
_SEEDS = 40
_LONGEST = 400
_COMES, _PACKET, _ACCEPT, _RECEIVE, _SEND = 0, 1, 4, 5, 6


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tflite-fuse-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "seeds").mkdir()
    for number in range(_SEEDS):
        (folder / "seeds" / str(number)).write_bytes(_seed(Random(number)))
    return folder


def _seed(rng: Random) -> bytes:
    """A worker that is called, gets packets and answers, with a little garbage in between."""
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


def run(first: int, seconds: int) -> tuple[int, str]:
    """Executions done, and what ended them if that was not the time.

    Args:
        first: seed of the mutations.
        seconds: to go on for.
    """
    program = libfuzzer.build(Path(__file__).with_name("serial.c"), _folder() / "serial", parts=_PARTS)
    if isinstance(program, str):
        return 0, f"not run: {program}"
    command = [str(program), f"-max_len={_LONGEST}", "-timeout=20"]
    return libfuzzer.run("serial", command, _folder() / "seeds", first, seconds)
