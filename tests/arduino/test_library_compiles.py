"""The C library compiles without warnings, here and for its target cores, and stays small."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.compiling import compiled
from tests.device.targets import NOT_OF_A_WORKER, OF_HALFWORDS, ON_CALL
from tflite_fuse.runtime.library.compiler import find_compiler
from tflite_fuse.runtime.library.sources import library_directory, library_sources
from tflite_fuse.split.needs import LIBRARY_BYTES

STRICT = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
BY_CLANG = ["-O0"]  # clang warns before it optimizes
MOST_THUMB_CODE = LIBRARY_BYTES
CORES = {
    "cortex-m7": "arm-none-eabi-gcc -mcpu=cortex-m7 -mthumb",
    "cortex-m55": "arm-none-eabi-gcc -mcpu=cortex-m55 -mthumb -mfloat-abi=hard",
    "cortex-m0": "arm-none-eabi-gcc -mcpu=cortex-m0 -mthumb",
    "rv32imc": "riscv64-unknown-elf-gcc -march=rv32imc -misa-spec=2.2 -mabi=ilp32 --specs=picolibc.specs",
    "xtensa-lx106": ("xtensa-lx106-elf-gcc -mlongcalls --specs=/usr/lib/xtensa-lx106-elf/picolibc.specs"),
}


def compile_all(command: list[str]) -> list[Path]:
    more = BY_CLANG if command[0] == "clang" else []
    return compiled([*command, *STRICT, *more, f"-I{library_directory()}"], library_sources())


def cross(core: str) -> list[str]:
    command = shlex.split(CORES[core])
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return command


def test_without_warnings_on_this_machine() -> None:
    compile_all(list(find_compiler().command))


@pytest.mark.parametrize("command", [["clang"], ["gcc", "-m32"], ["clang", "-m32"]], ids=" ".join)
def test_without_warnings_by_other_compilers_and_on_32_bits(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "header.c").write_text("#include <string.h>\n")
    trial = [*command, "-c", str(tmp_path / "header.c"), "-o", str(tmp_path / "header.o")]
    if shutil.which(command[0]) is None or subprocess.run(trial, capture_output=True).returncode != 0:
        pytest.skip(f"{' '.join(command)} or its C library is not installed")
    compile_all(command)


@pytest.mark.parametrize("core", CORES)
def test_without_warnings_for_a_device(core: str) -> None:
    objects = compile_all(cross(core))
    if core == "cortex-m7":
        left_out = (*NOT_OF_A_WORKER, *OF_HALFWORDS, *ON_CALL)
        floats = "tflite_fuse_float_"
        kept = [each for each in objects if each.stem not in left_out and not each.stem.startswith(floats)]
        assert_small_and_without_globals(kept)


def test_no_unaligned_loads_where_they_are_forbidden() -> None:
    """Kernels with DSP instructions load words from any address: a build that forbids this must not have them."""
    (source,) = (each for each in library_sources() if each.stem == "tflite_fuse_conv_dsp")
    for flags, is_there in ([], True), (["-mno-unaligned-access"], False):
        (found,) = compiled([*cross("cortex-m7"), *STRICT, *flags, f"-I{library_directory()}"], [source])
        assert (code_bytes(found) > 0) is is_there


def code_bytes(compiled: Path) -> int:
    command = ["arm-none-eabi-size", str(compiled)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(listing.splitlines()[-1].split()[0])


def assert_small_and_without_globals(objects: list[Path]) -> None:
    command = ["arm-none-eabi-size", "-t", *map(str, objects)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text, data, bss = (int(number) for number in listing.splitlines()[-1].split()[:3])
    assert text <= MOST_THUMB_CODE
    assert (data, bss) == (0, 0)
