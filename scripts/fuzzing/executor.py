"""Damaged blocks through the C library, under AddressSanitizer and UndefinedBehaviorSanitizer, on 64 and on 32 bits."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from random import Random

from tests.fusion.random_blocks import random_block, random_config
from tests.fusion.witness import plan
from tflite_fuse.fusion.encoding.encode import encode
from tflite_fuse.runtime.library.sources import library_directory, library_sources

_COMPILERS = ("clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14")
_FLAGS = (
    "-std=c11",
    "-g",
    "-O1",
    "-fsanitize=fuzzer,address,undefined,pointer-overflow",
    "-fno-sanitize-recover=all",
    "-DTFLITE_FUSE_MAX_WORK=0x80000",
)
_SEEDS = 60
_LONGEST = 8192
_DONE = re.compile(r"Done (\d+) runs")


def build(folder: Path, bits: int) -> Path | str:
    """The fuzzer for a width of pointers, or why there is none here."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        return "no clang"
    program = folder / f"executor{bits}"
    sources = [Path(__file__).with_name("executor.c"), *library_sources()]
    command = [compiler, *_FLAGS, f"-m{bits}", f"-I{library_directory()}", *map(str, sources), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return program if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it cannot be built"])[-1]


def write_seeds(folder: Path) -> None:
    """Sound blocks of every kind, with inputs in the arena, outside it and streamed."""
    folder.mkdir(parents=True)
    for number in range(_SEEDS):
        rng = Random(number)
        block = random_block(rng, largest=6)
        encoded = encode(block, plan(block, random_config(rng, block)))
        head = struct.pack("<B3xI", number % 16, len(encoded.options))
        (folder / str(number)).write_bytes(head + encoded.options + encoded.constants)


def run(bits: int, first: int, seconds: int) -> tuple[int, str]:
    """Executions done, and the report that ended them, empty without any.

    Args:
        bits: of a pointer, 64 or 32.
        first: seed of the mutations.
        seconds: to go on for.
    """
    with tempfile.TemporaryDirectory(prefix="tflite-fuse-fuzz-") as name:
        folder = Path(name)
        program = build(folder, bits)
        if isinstance(program, str):
            return 0, f"not run: {program}"
        write_seeds(folder / "seeds")
        limits = [f"-seed={first % 2**31 + 1}", f"-max_total_time={seconds}", f"-max_len={_LONGEST}", "-timeout=20"]
        command = [str(program), *limits, "-rss_limit_mb=1024", "-print_final_stats=0", str(folder / "seeds")]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
        ran = _DONE.search(done.stderr)
        if done.returncode == 0 and ran:
            return int(ran[1]), ""
        kept = Path.cwd() / f"fuzz-executor{bits}-{first}.txt"
        artefacts = sorted(each for each in folder.iterdir() if each.name.startswith(("crash-", "timeout-", "oom-")))
        data = artefacts[0].read_bytes().hex() if artefacts else "none"
        kept.write_text(done.stderr[-20_000:] + f"\ninput: {data}\n")
        return 0, f"see {kept.name}"
