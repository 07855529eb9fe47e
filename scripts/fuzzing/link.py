"""Damaged streams through the C parser of messages, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from random import Random

from scripts.fuzzing import libfuzzer
from tests.split.cluster.test_messages import damaged

_PARTS = ("link/tflite_fuse_message.c", "executor/tflite_fuse_checksum.c")
_SEEDS = 60
_LONGEST = 600


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tflite-fuse-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "seeds").mkdir()
    for number in range(_SEEDS):
        rng = Random(number)
        (folder / "seeds" / str(number)).write_bytes(bytes([rng.randrange(256)]) + damaged(rng, 150)[: _LONGEST - 1])
    return folder


def run(first: int, seconds: int) -> tuple[int, str]:
    """Executions done, and what ended them if that was not the time.

    Args:
        first: seed of the mutations.
        seconds: to go on for.
    """
    program = libfuzzer.build(Path(__file__).with_name("link.c"), _folder() / "link", parts=_PARTS)
    if isinstance(program, str):
        return 0, f"not run: {program}"
    command = [str(program), f"-max_len={_LONGEST}", "-timeout=20"]
    return libfuzzer.run("link", command, _folder() / "seeds", first, seconds)
