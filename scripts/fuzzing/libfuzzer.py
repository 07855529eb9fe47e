"""Programs that libFuzzer drives, in C or in Python: how they are told when to end, and what they end with."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
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


@functools.cache
def build(source: Path, program: Path, *flags: str, parts: tuple[str, ...] = ()) -> Path | str:
    """A fuzzer of the library, or of some files of it, and its target in C, or why there is none here."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        return "no clang"
    sources = [source, *([library_directory() / part for part in parts] or library_sources())]
    command = [compiler, *_FLAGS, *flags, f"-I{library_directory()}", *map(str, sources), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return program if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it cannot be built"])[-1]


def run(name: str, command: Sequence[str], seeds: Path, first: int, seconds: int) -> tuple[int, str]:
    """Executions done, and what ended them if that was not the time: a file of the working directory tells more.

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
