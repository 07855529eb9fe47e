"""Programs that libFuzzer drives, in C or in Python: their time limit and their outcome."""

from __future__ import annotations

import atexit
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tflite_fuse.runtime.library.sources import library_directory, library_sources

_DONE = re.compile(r"Done (\d+) runs")
_MEGABYTES = 1024
_COMPILERS = ("clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14")
_FLAGS = (
    "-std=c11",
    "-g",
    "-O1",
    "-fsanitize=fuzzer,address,undefined,pointer-overflow",
    "-fno-sanitize-recover=all",
)


Seeds = Callable[[], Iterable[bytes]]
"""Makes the inputs to begin with."""


@dataclass(frozen=True)
class Target:
    """A fuzzer in C, under AddressSanitizer and UndefinedBehaviorSanitizer.

    Attributes:
        name: as it is counted.
        source: its file, beside this one.
        seeds: the sound inputs it damages.
        longest: bytes of the longest input.
        flags: more of the compiler's.
        parts: files of the library it needs; all where none are named.
    """

    name: str
    source: str
    seeds: Seeds
    longest: int
    flags: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def run(self, first: int, seconds: int) -> tuple[int, str]:
        """Return executions done, and what ended them if that was not the time.

        Args:
            first: seed of the mutations.
            seconds: to go on for.
        """
        program = _built(self)
        if isinstance(program, str):
            return 0, f"not run: {program}"
        command = [str(program), f"-max_len={self.longest}", "-timeout=20"]
        return run(self.name, command, seeds_folder(self.seeds), first, seconds)


@functools.cache
def seeds_folder(seeds: Seeds) -> Path:
    """Return a folder of the first inputs, one file each, until this process ends."""
    folder = _folder()
    for number, data in enumerate(seeds()):
        (folder / str(number)).write_bytes(data)
    return folder


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tflite-fuse-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def _built(target: Target) -> Path | str:
    """Return the program, or why there is none here."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        return "no clang"
    program, source = _folder() / target.name, Path(__file__).with_name(target.source)
    sources = [source, *([library_directory() / part for part in target.parts] or library_sources())]
    command = [compiler, *_FLAGS, *target.flags, f"-I{library_directory()}", *map(str, sources), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return program if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it cannot be built"])[-1]


def run(name: str, command: Sequence[str], seeds: Path, first: int, seconds: int) -> tuple[int, str]:
    """Return executions done, and what ended them if that was not the time: a file of the working directory tells more.

    Args:
        name: of the fuzzer.
        command: the program with options of its own.
        seeds: folder of inputs to begin with; it stays as it is.
        first: seed of the mutations.
        seconds: to go on for.
    """
    with tempfile.TemporaryDirectory(prefix="tflite-fuse-fuzz-") as folder:
        found = Path(folder) / "found"
        found.mkdir()
        limits = [f"-seed={first % 2**31 + 1}", f"-max_total_time={seconds}", f"-rss_limit_mb={_MEGABYTES}"]
        done = subprocess.run(
            [*command, *limits, str(found), str(seeds)],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        ran = _DONE.search(done.stderr)
        if done.returncode == 0 and ran:
            return int(ran[1]), ""
        kept = Path.cwd() / f"fuzz-{name}-{first}.txt"
        artefacts = sorted(
            each for each in Path(folder).iterdir() if each.name.startswith(("crash-", "timeout-", "oom-"))
        )
        data = artefacts[0].read_bytes().hex() if artefacts else "none"
        kept.write_text(done.stderr[-20_000:] + f"\ninput: {data}\n")
        return 0, f"see {kept.name}"
