"""Code sizes on the pages on several devices and on the library."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts.comparison import PAGE
from tests.arduino.test_library_compiles import code_bytes, cross
from tests.device.test_emulated import FIRST_LIMITS, FLOAT_KIND_LIMIT, FLOATS_LIMIT, HALFWORDS_LIMIT, THUMB_LIMIT
from tflite_fuse.runtime.library.compiler import find_compiler
from tflite_fuse.runtime.library.sources import library_directory
from tflite_fuse.split.needs import LIBRARY_BYTES, STACK_BYTES, STATE_BYTES, SUMS_BYTES

TEXT = " ".join((PAGE.parent / "split.md").read_text().split())
LINK = library_directory() / "link"

MEMORY = """\
#include <stdio.h>
#include "link/tflite_fuse_serial.h"
int main(void) {
  printf("%d %d", TFLITE_FUSE_FRAME_BYTES, TFLITE_FUSE_HEADER_BYTES);
  printf(" %d %d", TFLITE_FUSE_SERIAL_BYTES(48), TFLITE_FUSE_SERIAL_BYTES(252));
}
"""


def said(pattern: str, text: str = TEXT) -> tuple[str, ...]:
    """What stands in the groups of a pattern on a page."""
    found = re.search(pattern, text)
    assert found, pattern
    return found.groups()


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (("message", "node", "session"), r"without allocation, in ([\d.]+) KiB of Thumb code at -Os"),
        (("serial",), r"`link/tflite_fuse_serial\.h`: ([\d.]+) KiB of code"),
        (("key",), r"Without a key none of it is linked \(([\d.]+) KiB of Thumb code\)"),
    ],
)
def test_code_for_links_has_the_size_on_the_page(names: tuple[str, ...], pattern: str, tmp_path: Path) -> None:
    total = 0
    for name in names:
        compiled = tmp_path / f"{name}.o"
        command = [*cross("cortex-m7"), "-std=c11", "-Os", f"-I{library_directory()}", "-c"]
        subprocess.run([*command, str(LINK / f"tflite_fuse_{name}.c"), "-o", str(compiled)], check=True)
        total += code_bytes(compiled)
    assert said(pattern) == (f"{total / 1024:.1f}",)


def test_memory_for_links_has_the_size_on_the_page(tmp_path: Path) -> None:
    source, program = tmp_path / "memory.c", tmp_path / "memory"
    source.write_text(MEMORY)
    command = [*find_compiler().command, f"-I{library_directory()}", str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    frame, header, small, large = map(int, subprocess.check_output([str(program)], text=True).split())
    assert said(r"with one frame of memory \(([\d,]+) B\)") == (f"{frame:,}",)
    assert said(r"one message of ([\d,]+) B") == (f"{frame:,}",)
    assert said(r"A message is (\d+) bytes of header") == (f"{header}",)
    assert said(r"(\d+) B for packets of 48 B, (\d+) B for those of 252 B") == (f"{small}", f"{large}")


def test_limits_of_library_tests_equal_those_on_pages() -> None:
    text = " ".join((library_directory().parent / "README.md").read_text().split())
    limits = (THUMB_LIMIT, HALFWORDS_LIMIT, FLOATS_LIMIT, FLOAT_KIND_LIMIT, FIRST_LIMITS["-O2"], FIRST_LIMITS["-Os"])
    all_kernels, halfwords, floats, of_float, at_o2, at_os = (f"{size / 1024:g}" for size in limits)
    found = said(
        r"at most ([\d.]+) KiB of Thumb code and constants for all kernels on int8, ([\d.]+) KiB for weights .*? and "
        r"([\d.]+) KiB for float32 .*? any other kind, ([\d.]+) KiB on float32",
        text,
    )
    assert found == (all_kernels, halfwords, floats, of_float)
    assert said(r"([\d.]+) KiB at most at -O2 and ([\d.]+) KiB at -Os with all kinds", text) == (at_o2, at_os)
    worker = (f"{LIBRARY_BYTES // 1024}", f"{SUMS_BYTES}")
    assert said(r"\*\*Flash\*\* is the fragment, (\d+) KiB for the library .*?, and (\d+) B for a worker") == worker
    assert said(r"([\d,]+) B of stack and (\d+) B of state\.") == (f"{STACK_BYTES:,}", f"{STATE_BYTES}")
