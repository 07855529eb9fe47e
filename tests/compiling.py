"""Objects of C sources, compiled once for all workers of a test run."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = "TFLITE_FUSE_TEST_OBJECTS"
"""The variable that names the folder to the workers; see ``conftest.py``."""


@cache
def _own_folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="tflite-fuse-objects-")


def shared_folder() -> Path:
    """A folder that all workers of a test run share."""
    return Path(os.environ.get(FOLDER) or _own_folder().name)


def compiled(command: Sequence[str], sources: Sequence[Path]) -> list[Path]:
    """Objects of sources by a compiler, which must be silent; sources do not change while tests run."""
    whole = [*command, "-c", *map(str, sources)]
    folder = shared_folder() / sha256("\0".join(whole).encode()).hexdigest()[:20]
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            done = subprocess.run(whole, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode != 0 or done.stderr:
                raise RuntimeError(f"{command[0]} failed with {done.returncode}:\n{done.stderr[-4000:]}")
            (folder / "done").touch()
    return sorted(folder.glob("*.o"))
