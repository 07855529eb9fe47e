"""Reads a file once, and replaces files so that each holds its old bytes or its new ones.

New bytes go to a temporary file in the same folder, onto the disk, and then under the name. Interrupts wait meanwhile.
A killed process leaves at most one temporary file; the next process that writes into the folder removes it: a file
without a lock has no living writer.

Unknown keys in users' TOML files are errors, with the nearest known key.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from tflite_fuse.errors import UsageError
from tflite_fuse.units import parse_bytes

MOST_BYTES = 1 << 29
"""Largest file that is read; models for microcontrollers are far smaller."""

LEFTOVER = ".tflite-fuse-*.tmp"
"""Pattern of the names of temporary files and folders."""


def read_file(path: Path) -> bytes:
    """Return the content of a file, pipe or terminal, read once.

    Raises:
        UsageError: it cannot be read, or is larger than ``MOST_BYTES``.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise UsageError(f"{path}: cannot be read ({_reason(error)})") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path}: cannot be read (it has more than {MOST_BYTES:,} bytes)")
    return data


def write_atomically(data: bytes, path: Path) -> None:
    """Replace a file's content; of a link, the file it leads to.

    Raises:
        UsageError: the path cannot be written, or is a device, a pipe or another thing that is no file.
    """
    require_writable(path)
    try:
        target = path.resolve()
        with without_interrupts():
            replace_file(data, target, _mode(target))
            sync_folder(target.parent)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a cycle of links
        raise UsageError(f"{path}: cannot be written ({_reason(error)})") from error


def require_writable(path: Path | None) -> None:
    """Check before long work that a file can be written; None is no file.

    Raises:
        UsageError: no file can be written there.
    """
    try:
        if path is None:
            return
        if path.exists() and not path.is_file():
            raise UsageError(f"{path}: cannot be written (it is no regular file)")
        if path.exists() and not os.access(path, os.W_OK):
            raise UsageError(f"{path}: cannot be written (it is read-only)")
        if not (folder := path.resolve().parent).is_dir():
            raise UsageError(f"{path}: cannot be written (No such file or directory)")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"{path}: cannot be written (its folder is read-only)")
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a cycle of links
        raise UsageError(f"{path}: cannot be written ({_reason(error)})") from error


def require_apart(written: Sequence[Path | None], read: Sequence[Path | None] = ()) -> None:
    """Check that written files differ from read files and from each other; None is no file.

    Raises:
        UsageError: names the file.
    """
    own = [_place(path) for path in read if path is not None]
    for path in written:
        if path is None:
            continue
        if (place := _place(path)) in own:
            raise UsageError(f"{path}: is the input itself or written as well; give another path")
        own.append(place)


def _place(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):  # reported on use
        return path


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def replace_file(data: bytes, path: Path, mode: int) -> None:
    """Write, then rename; ``sync_folder`` flushes the name. Raises OSError."""
    remove_leftovers(path.parent)
    descriptor, temporary = _locked_temporary(path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            temporary.chmod(mode)
            os.fsync(stream.fileno())
            if sys.platform != "win32":
                temporary.replace(path)  # while its lock shows that its writer lives
        if sys.platform == "win32":
            temporary.replace(path)  # an open file cannot be renamed there
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _locked_temporary(folder: Path) -> tuple[int, Path]:
    """Return a new file with a lock that shows that its writer lives."""
    while True:
        temporary = folder / LEFTOVER.replace("*", os.urandom(8).hex())
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o600)
        lock_alone(descriptor, wait=True)  # without locks, leftovers stay
        if os.fstat(descriptor).st_nlink:
            return descriptor, temporary
        os.close(descriptor)  # removed as a leftover before it was locked


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed processes, if locks distinguish them from those of living ones."""
    if sys.platform == "win32":
        return
    for path in folder.glob(LEFTOVER):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would block
            try:
                if lock_alone(descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)


def lock_alone(descriptor: int, wait: bool = False) -> bool:
    """Lock a file or folder for as long as it is open; return False if another process has it.

    Windows has no lock that ends with its process and lets others read: there is none there, and the result is True.
    """
    if sys.platform == "win32":
        return True
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    return False


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, if the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Return a context that delays Ctrl-C and SIGTERM to its end. Other threads receive none anyway."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        waiting.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for each in waiting[:1]:
        signal.raise_signal(each)


_MOST_BYTES = 1 << 20
"""Largest TOML file."""

_LONGEST_NAME = 100


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the content of a TOML file. Raises UsageError if it cannot be read, or is no TOML."""
    return parse_toml(read_file(Path(path)), path)


def parse_toml(data: bytes, path: str | Path) -> dict[str, Any]:
    """Return the content of a TOML file with these bytes. Raises UsageError if it is no TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # the same parser, for Python 3.10
        import tomli as tomllib
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path}: is longer than {_MOST_BYTES:,} bytes")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f"{path}: is UTF-16, and TOML is UTF-8: save it as that")
    try:
        document = tomllib.loads(data.decode("utf-8-sig"))  # Windows editors may write a byte order mark
        _require_64_bits(document)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and int() of many digits
        raise UsageError(f"{path}: not valid TOML ({error})") from error
    return document


def _require_64_bits(value: object) -> None:
    """Raise ValueError for integers of more than 64 bits, which TOML excludes but Python's parser accepts."""
    if isinstance(value, int) and value.bit_length() > 63:
        raise ValueError("a whole number has more than 64 bits")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _require_64_bits(each)


def only(table: Mapping[str, Any], allowed: Collection[str], what: str) -> None:
    """Raise UsageError for the first key of a table that is not ``allowed``; ``what`` names the table."""
    for key in table:
        if key not in allowed:
            raise UsageError(f"{what} has the unknown key {key!r}{nearest(key, allowed)}")


def name_of(value: object, what: str) -> str:
    """Return the name that a file gives ``what``, which appears in tables, sentences and C. Raises UsageError."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > _LONGEST_NAME:
        shown = repr(value)[: _LONGEST_NAME // 2]
        raise UsageError(f"{what} needs a name in quotes, {_LONGEST_NAME} printable characters at most, not {shown}")
    return value


@contextlib.contextmanager
def about(what: object) -> Iterator[None]:
    """Return a context that puts the name of a file, or of a part of it, before the message of a UsageError."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from error


def nearest(word: str, words: Collection[str]) -> str:
    """Return ``; did you mean 'worker'?``, or nothing if none of ``words`` is similar."""
    import difflib  # for mistakes alone

    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def size_of(value: object, what: str) -> int:
    """Return the bytes of a number or of a text like 128kB, of at most twelve digits. Raises UsageError."""
    if isinstance(value, str):
        with about(what):
            return parse_bytes(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**12:
        raise UsageError(f'{what} is a size like "128kB" or 131072, not {value!r}')
    return value
