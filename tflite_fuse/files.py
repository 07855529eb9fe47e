"""Reading a file once, and replacing files so that each holds its old bytes or its new ones, whatever happens.

New bytes go to a temporary file in the same folder, onto the disk, and then under the name. An interrupt waits for so
long. A process that is killed leaves at most one temporary file; the next one that writes into the folder removes it:
a file without a lock has no living writer.

TOML files of users: what is not understood is an error, with the nearest thing that would be.
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
"""Larger files are not read; none for a microcontroller comes near."""

LEFTOVER = ".tflite-fuse-*.tmp"
"""What temporary files and folders are called."""


def read_file(path: Path) -> bytes:
    """A file's content, a pipe's or a terminal's too, in one go.

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
    """Replace a file's content; a link stays one, what it leads to is replaced.

    Raises:
        UsageError: the path cannot be written, or is a device, a pipe or another thing that is no file.
    """
    require_writable(path)
    try:
        target = path.resolve()
        with without_interrupts():
            replace_file(data, target, _mode(target))
            sync_folder(target.parent)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that lead to each other
        raise UsageError(f"{path}: cannot be written ({_reason(error)})") from error


def require_writable(path: Path | None) -> None:
    """Refuse early what could not be written after all the work; None is nothing to be written.

    Raises:
        UsageError: no file can be there.
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
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that lead to each other
        raise UsageError(f"{path}: cannot be written ({_reason(error)})") from error


def require_apart(written: Sequence[Path | None], read: Sequence[Path | None] = ()) -> None:
    """Refuse to write over what is read, or over what is written as well; None is no file.

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
    except (OSError, ValueError, RuntimeError):  # refused where it is used
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
    """Write, then rename. The folder is not yet on the disk: see ``sync_folder``. Raises OSError."""
    remove_leftovers(path.parent)
    descriptor, temporary = _locked_temporary(path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            temporary.chmod(mode)
            os.fsync(stream.fileno())
            if sys.platform != "win32":
                temporary.replace(path)  # while its lock says that its writer lives
        if sys.platform == "win32":
            temporary.replace(path)  # an open file cannot be renamed there
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _locked_temporary(folder: Path) -> tuple[int, Path]:
    """A new file whose lock says that its writer lives."""
    while True:
        temporary = folder / LEFTOVER.replace("*", os.urandom(8).hex())
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o600)
        lock_alone(descriptor, wait=True)  # where there are no locks, leftovers cannot be recognised and stay
        if os.fstat(descriptor).st_nlink:
            return descriptor, temporary
        os.close(descriptor)  # taken for a leftover before it was locked


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of processes that were killed, where locks tell them from those of living ones."""
    if sys.platform == "win32":
        return
    for path in folder.glob(LEFTOVER):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would wait
            try:
                if lock_alone(descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)


def lock_alone(descriptor: int, wait: bool = False) -> bool:
    """Lock a file or folder for as long as it is open; False where another process has.

    Windows has no lock that a killed process gives back and that lets others read: True there without one.
    """
    if sys.platform == "win32":
        return True
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    return False


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder onto the disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C and a request to end come after the block, not inside. Other threads are never interrupted anyway."""
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
"""Longer files are no settings."""


def read_toml(path: str | Path) -> dict[str, Any]:
    """What a file says. Raises UsageError: it cannot be read, or is no TOML."""
    return parse_toml(read_file(Path(path)), path)


def parse_toml(data: bytes, path: str | Path) -> dict[str, Any]:
    """What a file of these bytes says. Raises UsageError: it is no TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # the same parser, from before it came with the language
        import tomli as tomllib
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path}: is longer than {_MOST_BYTES:,} bytes")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f"{path}: is UTF-16, and TOML is UTF-8: save it as that")
    try:
        document = tomllib.loads(data.decode("utf-8-sig"))  # editors of Windows mark files of UTF-8, too
        _require_64_bits(document)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError, as what int() says of many digits
        raise UsageError(f"{path}: not valid TOML ({error})") from error
    return document


def _require_64_bits(value: object) -> None:
    """TOML's whole numbers are what 64 bits hold; Python's parser takes any, which neither floats nor arrays do."""
    if isinstance(value, int) and value.bit_length() > 63:
        raise ValueError("a whole number has more than 64 bits")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _require_64_bits(each)


def only(table: Mapping[str, Any], known: Collection[str], what: str) -> None:
    """Raise UsageError for the first key that ``what`` does not have."""
    for key in table:
        if key not in known:
            raise UsageError(f"{what} has the unknown key {key!r}{nearest(key, known)}")


def nearest(word: str, known: Collection[str]) -> str:
    """``; did you mean 'worker'?``, or nothing where nothing is near."""
    import difflib  # for mistakes alone

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def size_of(value: object, what: str) -> int:
    """Bytes, of a number or of a text like 128kB, of at most twelve digits. Raises UsageError."""
    if isinstance(value, str):
        try:
            return parse_bytes(value)
        except UsageError as error:
            raise UsageError(f"{what}: {error}") from error
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**12:
        raise UsageError(f'{what} is a size like "128kB" or 131072, not {value!r}')
    return value
