"""Write a folder so that it is complete or not there."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from tflite_fuse.errors import UsageError

Files = Mapping[str, str | bytes]
"""Path inside the folder, with slashes → content."""

_OWN_PREFIX = "tflite_fuse"


def require_usable(directory: Path, *, force: bool) -> None:
    """Refuse early what ``write_folder`` would refuse. Raises UsageError."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory}: is a file; give a directory to export to")
    try:
        occupied = directory.is_dir() and any(directory.iterdir())
    except OSError as error:
        raise UsageError(f"{directory}: cannot be read ({error.strerror or error})") from error
    if occupied and not force:
        raise UsageError(f"{directory}: is not empty; give another directory, or --force to write into it")


def write_folder(directory: Path, files: Files, *, force: bool) -> tuple[Path, ...]:
    """Write files into a new or empty directory, or with ``force`` over those of the same name in any.

    Everything is written beside the directory first: if that fails, nothing is left. With ``force`` other files stay,
    except those of an older library (``tflite_fuse*`` where a new one goes), which would no longer fit.

    Returns:
        Paths of the files, sorted.

    Raises:
        UsageError: the directory is not empty and ``force`` not given, or it cannot be written.
    """
    require_usable(directory, force=force)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as temporary:
            staged = Path(temporary) / "export"
            _write_all(staged, files)
            if directory.is_dir() and any(directory.iterdir()):
                _merge(staged, directory, files)
            else:
                if directory.is_dir():
                    directory.rmdir()
                staged.replace(directory)
    except OSError as error:
        raise UsageError(f"{directory}: cannot be written ({error.strerror or error})") from error
    return tuple(sorted(directory / name for name in files))


def _write_all(root: Path, files: Files) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def _merge(staged: Path, directory: Path, files: Files) -> None:
    for folder in {(directory / name).parent for name in files if Path(name).name.startswith(_OWN_PREFIX)}:
        kept = {(directory / name).name for name in files if (directory / name).parent == folder}
        for stale in folder.glob(f"{_OWN_PREFIX}*") if folder.is_dir() else ():
            if stale.is_file() and stale.name not in kept:
                stale.unlink()
    for name in files:
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (staged / name).replace(target)
