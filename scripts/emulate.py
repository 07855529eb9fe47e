#!/usr/bin/env python3
"""Run a folder of plain C on an emulated microcontroller: emulate.py FOLDER [--target cortex-m7] [--flags=-O2].

FOLDER was written by ``tflite-fuse export small.tflite FOLDER --format c``; its main.c may be changed. It is compiled
bare-metal and started in QEMU; its output is printed here. Exit codes: that of the program, or 2 if a tool is missing,
FOLDER is no folder, or it does not compile.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.device.targets import HERE, TARGETS, Target

RUNNING = tuple(name for name in TARGETS if not name.startswith("xtensa"))
"""Targets with a C library that prints through the emulator."""

TIMEOUT = 1800
"""Seconds after which a program has hung."""


def build(folder: Path, target: Target, flags: str, elf: Path) -> str:
    """Compile a folder; return the compiler's errors, empty if it succeeds."""
    sources = sorted(folder.glob("*.c"))
    start = [HERE / name for name in target.sources]
    if target.name.startswith("cortex"):
        start.append(HERE / "print.c")
    command = [
        f"{target.prefix}gcc",
        *f"-std=gnu11 {target.flags} {flags} -I{folder} -I{HERE}".split(),
        *map(str, (*sources, *start)),
        *target.link.format(here=HERE).split(),
        "-o",
        str(elf),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() or "the compiler failed" if done.returncode else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile and run; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what export --format c wrote")
    parser.add_argument("--target", choices=RUNNING, default=RUNNING[0], help=f"the core (default {RUNNING[0]})")
    parser.add_argument("--flags", default="-O2", help="of the compiler (default -O2)")
    options = parser.parse_args(arguments)
    target: Target = TARGETS[options.target]
    if not (options.folder / "model.h").is_file():
        parser.error(f"{options.folder}: holds no model.h; `tflite-fuse export MODEL {options.folder} --format c` does")
    if missing := target.missing():
        parser.error(f"{', '.join(missing)} not installed: see docs/tutorial.md for the packages")
    with tempfile.TemporaryDirectory(prefix="tflite-fuse-emulate-") as name:
        elf = Path(name) / "program.elf"
        complaint = build(options.folder.resolve(), target, options.flags, elf)
        if complaint:
            parser.error(f"{options.folder} does not compile for {target.name}:\n{complaint}")
        try:
            done = subprocess.run([*target.emulator.split(), str(elf)], timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            parser.error(f"the program did not end in {TIMEOUT} seconds")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
