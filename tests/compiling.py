"""What is expensive to make, made once for all workers of a test run: objects of C sources, rewritten models."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import tflite_fuse

FOLDER = "TFLITE_FUSE_TEST_OBJECTS"
"""The variable that names the folder to the workers; see ``conftest.py``."""


@cache
def _own_folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="tflite-fuse-objects-")


def shared_folder() -> Path:
    """A folder that all workers of a test run share."""
    return Path(os.environ.get(FOLDER) or _own_folder().name)


def made_once(key: str, make: Callable[[Path], object]) -> Path:
    """The folder that ``make`` fills; the first worker that needs it calls it."""
    folder = shared_folder() / sha256(key.encode()).hexdigest()[:20]
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            make(folder)
            (folder / "done").touch()
    return folder


def compiled(command: Sequence[str], sources: Sequence[Path]) -> list[Path]:
    """Objects of sources by a compiler, which must be silent; sources do not change while tests run."""
    whole = [*command, "-c", *map(str, sources)]

    def compile_all(folder: Path) -> None:
        done = subprocess.run(whole, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0 or done.stderr:
            raise RuntimeError(f"{command[0]} failed with {done.returncode}:\n{done.stderr[-4000:]}")

    return sorted(made_once("\0".join(whole), compile_all).glob("*.o"))


def rewritten_by_default(path: Path) -> bytes:
    """The model that a rewrite without options makes of a file."""

    def rewrite(folder: Path) -> None:
        (folder / "model").write_bytes(tflite_fuse.rewrite(path, verify=False).model)

    return (made_once(f"rewritten {path}", rewrite) / "model").read_bytes()
