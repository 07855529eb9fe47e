"""Writes a folder: it is complete or unchanged, unless the process is killed while it puts files in their places.

New files are staged in a hidden folder beside the old ones and written to disk. A new directory then gets its name in
one step. In a directory with an older export they are renamed one by one, the manifest last: after a kill in between,
the same export completes it, since files with their new content are its own.

A manifest in the directory, ``.tflite-fuse.json``, lists the exporter's files and their hashes::

    {"version": 1, "files": {"src/main.c": "9f86d081..."}}
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from tflite_fuse.errors import UsageError
from tflite_fuse.files import LEFTOVER, lock_alone, remove_leftovers, sync_folder, without_interrupts

Files = Mapping[str, str | bytes]
"""Path inside the folder, with slashes → content."""

MANIFEST = ".tflite-fuse.json"
_STAGED = "new"
_VERSION = 1
_MOST_NAMED = 5


def require_usable(directory: Path, *, force: bool) -> None:
    """Raise the UsageErrors of ``write_folder`` that are known before an export."""
    try:
        if directory.exists() and not directory.is_dir():
            raise UsageError(f"{directory}: is a file; give a directory to export to")
        occupied = directory.resolve().is_dir() and any(directory.iterdir())
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a cycle of links
        raise _cannot("read", directory, error) from error
    if occupied and not force:
        raise UsageError(f"{directory}: is not empty; give another directory, or --force to write into it")


def write_folder(directory: Path, files: Files, *, force: bool) -> tuple[Path, ...]:
    """Write files into a new or empty directory, or with ``force`` over an older export; return their paths, sorted.

    With ``force`` the files that the manifest lists with their present content are replaced, or removed if the new
    export lacks them. No other file is touched, and no link followed. The returned paths include the manifest.

    Raises:
        UsageError: the directory is not empty and ``force`` not given; a file in the way was edited or is not the
            exporter's; a link is in the way; or it cannot be written.
    """
    require_usable(directory, force=force)
    content = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    listed = {"version": _VERSION, "files": {name: _hash(data) for name, data in sorted(content.items())}}
    content[MANIFEST] = (json.dumps(listed, indent=1) + "\n").encode()
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with without_interrupts():
            if directory.is_dir() and any(directory.iterdir()):
                _replace(directory, content)
            else:
                _create(directory, content)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a cycle of links
        raise _cannot("written", directory, error) from error
    return tuple(sorted(directory / name for name in content))


def _cannot(done: str, directory: Path, error: Exception) -> UsageError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return UsageError(f"{directory}: cannot be {done} ({reason})")


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ---- A new directory ----


def _create(directory: Path, content: Mapping[str, bytes]) -> None:
    with _stage(directory.parent) as stage:
        _write_all(stage / _STAGED, content)
        if directory.is_dir():
            directory.rmdir()
        (stage / _STAGED).replace(directory)
    sync_folder(directory.parent)


@contextlib.contextmanager
def _stage(folder: Path) -> Iterator[Path]:
    """Return a context with a hidden folder that is removed afterwards; its lock shows that its process lives."""
    _remove_killed(folder)
    stage = folder / LEFTOVER.replace("*", secrets.token_hex(8))
    stage.mkdir(0o700)
    lock = _locked(stage)
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked(stage: Path) -> int | None:
    """Return a lock on a folder, or None if another process holds it, or there are no locks here."""
    if sys.platform == "win32":
        return None
    with contextlib.suppress(OSError):
        descriptor = os.open(stage, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        if lock_alone(descriptor):
            return descriptor
        os.close(descriptor)
    return None


def _remove_killed(folder: Path) -> None:
    """Remove stages whose processes were killed."""
    remove_leftovers(folder)
    for stage in folder.glob(LEFTOVER):
        lock = _locked(stage)
        if lock is not None:
            shutil.rmtree(stage, ignore_errors=True)
            os.close(lock)


def _write_all(root: Path, content: Mapping[str, bytes]) -> None:
    """Write files below a folder and flush them to disk."""
    folders = {root}
    for name, data in content.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        folders.update((path.parent, *list(path.parent.parents)[: len(PurePosixPath(name).parts) - 1]))
        with path.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    for folder in folders:
        sync_folder(folder)


# ---- A directory with an older export ----


def _replace(directory: Path, content: Mapping[str, bytes]) -> None:
    own = _listed(directory)
    gone = [name for name in own if name not in content and os.path.lexists(directory / name)]
    foreign = [name for name in (*content, *gone) if not _is_own(directory, name, own, content.get(name))]
    if foreign:
        names = ", ".join(foreign[:_MOST_NAMED]) + (", ..." if len(foreign) > _MOST_NAMED else "")
        raise UsageError(
            f"{directory}: would lose {names}, which no export wrote like that; move it away, or give another directory"
        )
    with _stage(directory) as stage:
        _write_all(stage / _STAGED, content)
        for name in gone:
            (directory / name).unlink(missing_ok=True)
        for name in sorted(content, key=lambda name: name == MANIFEST):
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            (stage / _STAGED / name).replace(target)
        for folder in {directory, *((directory / name).parent for name in content)}:
            sync_folder(folder)


def _listed(directory: Path) -> dict[str, str]:
    """Return the manifest's entries; none if it is missing or unreadable."""
    try:
        if not stat.S_ISREG(os.lstat(directory / MANIFEST).st_mode):
            return {}  # reading a pipe would block
        manifest = json.loads((directory / MANIFEST).read_bytes())
        files = manifest["files"] if manifest["version"] == _VERSION else {}
        return {name: digest for name, digest in files.items() if _is_inside(name) and isinstance(digest, str)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _is_inside(name: object) -> bool:
    """Return whether a name from a file is that of a file below the directory."""
    path = PurePosixPath(name) if isinstance(name, str) and "\\" not in name and "\0" not in name else PurePosixPath()
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _is_own(directory: Path, name: str, own: Mapping[str, str], new: bytes | None) -> bool:
    """Return whether replacing a file loses nothing: it is missing, or holds an export's old or new content.

    Some have the new content already if an earlier try was killed.
    """
    path = directory / name
    _refuse_links(directory, path)
    if any(os.path.lexists(each) and not each.is_dir() for each in path.parents if directory in each.parents):
        return False  # a file stands where a folder has to be
    if not os.path.lexists(path):
        return True
    if name == MANIFEST:
        return path.is_file()
    if not path.is_file():
        return False
    old = path.read_bytes()
    return old == new or own.get(name) == _hash(old)


def _refuse_links(directory: Path, path: Path) -> None:
    for part in (path, *path.parents):
        if part == directory:
            return
        if part.is_symlink():
            raise UsageError(f"{directory}: {part.relative_to(directory)} is a link, and links are not followed")
