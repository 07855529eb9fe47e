"""Compiles C of this package into shared libraries for this machine, once per source text, compiler and flags.

Libraries are cached in ``$TFLITE_FUSE_CACHE``, else ``$XDG_CACHE_HOME/tflite-fuse``, else ``~/.cache/tflite-fuse``; if
the folder cannot be written, or others can write there, in a directory that lives as long as this process. A cached
library is loaded as code, so it must belong to this user and match the checksum behind it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tflite_fuse.errors import RuntimeUnavailableError
from tflite_fuse.files import lock_alone

_NAMES = ("cc", "gcc", "clang")
_FLAGS = ("-std=c11", "-fPIC", "-shared", "-Wall", "-Wextra")
# Not -O2: gcc vectorises the kernels only at -O3, which makes them about four times as fast here.
_PLAIN = ("-O3",)
# Not -O1: it takes three times as long to compile with sanitizers, and the small blocks of tests run no faster.
_SANITIZED = ("-O0", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
_TIMEOUT = 1800.0


@dataclass(frozen=True)
class Compiler:
    """A C compiler: the command that runs it and its version text."""

    command: tuple[str, ...]
    version: str


def find_compiler() -> Compiler:
    """Return the compiler in ``$CC``, else the first of cc, gcc, clang.

    Raises:
        RuntimeUnavailableError: none works.
    """
    return _find_compiler(os.environ.get("CC", ""), os.environ.get("PATH", ""))


@functools.lru_cache
def _find_compiler(preferred: str, path: str) -> Compiler:
    try:
        candidates = [tuple(shlex.split(preferred))] if preferred.strip() else [(name,) for name in _NAMES]
    except ValueError as error:  # an unclosed quotation
        raise RuntimeUnavailableError(f"the C compiler in CC is no command, {preferred}: {error}") from error
    for command in candidates:
        if command and shutil.which(command[0], path=path):
            try:
                return Compiler(command, _output([*command, "--version"]) + _output([*command, "-dumpmachine"]))
            except (OSError, subprocess.SubprocessError):
                continue
    looked_for = preferred or ", ".join(_NAMES)
    raise RuntimeUnavailableError(
        f"no working C compiler was found (looked for {looked_for}), and fused models need one to run on this machine; "
        "install gcc, or set CC to your compiler"
    )


def _output(command: Sequence[str]) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    # A compiler's output may have any encoding, as names of folders have.
    completed = subprocess.run(
        command, check=True, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT, env=environment
    )
    return completed.stdout


def build_library(
    name: str, sources: Sequence[Path], include: Sequence[Path], *, sanitize: bool = False, flags: Sequence[str] = ()
) -> Path:
    """Compile C11 sources into one shared library, or find it in the cache, and return its path.

    The library is complete whenever it exists, also if several processes build it at once.

    Args:
        name: start of the library's file name.
        sources: the .c files. They may include any .h file in ``include``, whose texts are part of the cache's key.
        include: directories of headers.
        sanitize: with AddressSanitizer and UndefinedBehaviorSanitizer; loading it needs ``sanitizer_environment``.
        flags: more compiler flags.

    Raises:
        RuntimeUnavailableError: no compiler, or it refuses the sources (with its first error).
    """
    compiler = find_compiler()
    options = [*_FLAGS, *(_SANITIZED if sanitize else _PLAIN), *flags]
    headers = [header for directory in include for header in directory.rglob("*.h")]
    key = _key(compiler, options, sorted({*sources, *headers}))
    library = _cache_directory() / f"{name}{'-sanitized' if sanitize else ''}-{key}.so"
    if not _is_whole(library):
        with _turn(library):
            if not _is_whole(library):  # another process may have built it meanwhile
                _compile(compiler, options, sources, include, library)
    return library


@contextlib.contextmanager
def _turn(library: Path) -> Iterator[None]:
    """Wait until another process that builds the same library has ended."""
    lock = library.with_suffix(".lock")
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError:  # the compiler reports the folder's error
        yield
        return
    try:
        lock_alone(descriptor, wait=True)
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _key(compiler: Compiler, options: Sequence[str], files: Sequence[Path]) -> str:
    digest = hashlib.sha256("\0".join([*compiler.command, compiler.version, *options]).encode())
    for file in files:
        content = file.read_bytes()
        digest.update(f"\0{file.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:20]


def _compile(
    compiler: Compiler, options: Sequence[str], sources: Sequence[Path], include: Sequence[Path], library: Path
) -> None:
    """Compile sources to a shared library, which appears complete or not at all. Raises RuntimeUnavailableError."""
    descriptor, unfinished = tempfile.mkstemp(prefix=library.stem, suffix=".tmp", dir=library.parent)
    os.close(descriptor)
    command = [*compiler.command, *options, *(f"-I{directory}" for directory in include)]
    command += [*(str(source) for source in sources), "-o", unfinished, "-ldl", "-lm"]
    try:
        _output(command)
        with Path(unfinished).open("r+b") as file:
            if not (content := file.read()):
                raise OSError(f"the C compiler {compiler.command[0]} wrote nothing")
            file.write(hashlib.sha256(content).digest())  # loaders ignore bytes behind the image
            file.flush()
            os.fsync(file.fileno())
        Path(unfinished).chmod(0o700)
        Path(unfinished).replace(library)
    except subprocess.CalledProcessError as error:
        errors = [line for line in error.stderr.splitlines() if "error: " in line] or error.stderr.splitlines()
        raise RuntimeUnavailableError(
            f"the C compiler {compiler.command[0]} cannot compile {library.stem}: {(errors or ['it says nothing'])[0]}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise RuntimeUnavailableError(
            f"the C compiler {compiler.command[0]} took more than {_TIMEOUT:g} s for {library.stem}: try again when "
            "the machine has less to do"
        ) from error
    except OSError as error:
        raise RuntimeUnavailableError(f"the C library {library.stem} cannot be built: {error}") from error
    finally:
        Path(unfinished).unlink(missing_ok=True)


def _is_whole(library: Path) -> bool:
    """Return whether a library matches its checksum and only this user can have changed it."""
    try:
        if not stat.S_ISREG(library.lstat().st_mode) or not _is_private(library):
            return False
        content = library.read_bytes()
    except OSError:
        return False
    size = hashlib.sha256().digest_size
    return hashlib.sha256(content[:-size]).digest() == content[-size:]


def _is_private(path: Path) -> bool:
    """Return whether a path belongs to this user and no other user can write to it."""
    status = path.stat()
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def _cache_directory() -> Path:
    chosen = os.environ.get("TFLITE_FUSE_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        directory = Path(chosen) if chosen else Path(shared).expanduser() / "tflite-fuse"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory.absolute() if _is_private(directory) else Path(_process_directory().name)
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return Path(_process_directory().name)


@functools.cache
def _process_directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tflite-fuse-")


@functools.cache
def sanitizer_environment() -> tuple[tuple[str, str], ...]:
    """Return the environment variables that a process needs to load a library built with ``sanitize``.

    Raises:
        RuntimeUnavailableError: the compiler has no shared AddressSanitizer library (only gcc's is supported).
    """
    compiler = find_compiler()
    library = Path(_output([*compiler.command, "-print-file-name=libasan.so"]).strip())
    if not library.is_absolute() or not library.exists():
        raise RuntimeUnavailableError(f"the C compiler {compiler.command[0]} has no shared AddressSanitizer library")
    return (
        # The wheel's exceptions pass through AddressSanitizer, which looks for libstdc++ at process start.
        ("LD_PRELOAD", f"{library.resolve()} libstdc++.so.6"),
        ("ASAN_OPTIONS", "detect_leaks=0:halt_on_error=1:allocator_may_return_null=1"),
        ("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=0"),
    )
