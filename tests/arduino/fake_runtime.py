"""The glue compiled and run natively against a stand-in for each generation of TensorFlow Lite Micro."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests import PATIENCE
from tests.compiling import compiled, shared_folder
from tflite_fuse.runtime.library.sources import library_directory, library_sources

HERE = Path(__file__).parent
GLUE = library_directory() / "tflm" / "tflite_fuse_tflm.cpp"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
SANITIZERS = ("-g", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
INT8, UINT8, FLOAT32, INT32 = 9, 3, 1, 2

_ALWAYS = ("lite/c/common.h", "lite/micro/kernels/kernel_util.h", "lite/micro/micro_mutable_op_resolver.h")
_CONTEXT, _LOG, _COMMON = "lite/micro/micro_context.h", "lite/micro/micro_log.h", "lite/micro/micro_common.h"
GENERATIONS = {
    1: _ALWAYS,
    2: (*_ALWAYS, _CONTEXT),
    3: (*_ALWAYS, _CONTEXT, _LOG),
    4: (*_ALWAYS, _CONTEXT, _LOG, _COMMON),
    5: (*_ALWAYS, _CONTEXT, _LOG, _COMMON),
    6: (*_ALWAYS, _CONTEXT, _LOG, _COMMON),
}
"""Headers each has. What else differs is told in ``fake_tflm.h``."""


@functools.cache
def workshop() -> Path:
    """A directory for objects and programs that lives as long as the tests."""
    folder = tempfile.TemporaryDirectory(prefix="tflite-fuse-arduino-")
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def compiler(name: str) -> str:
    """Path of a compiler; skips the test where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def build(command: Sequence[str | Path]) -> None:
    """Run a compiler, which must be silent."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


def headers_of(generation: int) -> Path:
    """A directory with that generation's headers."""
    root = shared_folder() / f"generation{generation}"
    for name in GENERATIONS[generation]:
        header = root / "tensorflow" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        written = header.with_suffix(f".{os.getpid()}")  # other workers may be reading the header
        written.write_text('#include "fake_tflm.h"\n')
        written.replace(header)
    return root


def glue_flags(generation: int) -> list[str]:
    folders = (library_directory(), headers_of(generation), HERE)
    return [f"-DFAKE_GENERATION={generation}", *(f"-I{folder}" for folder in folders)]


def library_objects() -> list[Path]:
    """The C library, with sanitizers."""
    return compiled([compiler("gcc"), "-std=c11", *SANITIZERS], library_sources())


@functools.cache
def driver(generation: int) -> Path:
    """``run_operator.cpp`` with the glue and the library."""
    program = workshop() / f"run_operator{generation}"
    command = [compiler("g++"), "-std=c++11", *SANITIZERS, *glue_flags(generation)]
    build([*command, *compiled(command, [GLUE, HERE / "run_operator.cpp"]), *library_objects(), "-o", program])
    return program


@dataclass(frozen=True)
class FakeTensor:
    """A tensor of the scenario: ``data`` if it is a constant; ``arena`` if it gets memory before the first run, which a
    ``variable`` keeps."""

    shape: tuple[int, ...]
    data: bytes | None = None
    content: bytes = b""
    type: int = INT8
    arena: bool = True
    variable: bool = False

    def line(self) -> str:
        size = 4 if self.type in (FLOAT32, INT32) else 1
        for extent in self.shape:
            size *= max(extent, 0)
        where = "none"
        if self.data is not None:
            where = f"const {_hex(self.data)}"
        elif self.variable:
            where = f"variable {size}"
        elif self.arena:
            where = f"arena {size} {_hex(self.content)}"
        return f"tensor {self.type} {len(self.shape)} {' '.join(map(str, self.shape))} {where}"


@dataclass(frozen=True)
class Scenario:
    """One operator and what it meets. ``extra`` are further lines, see ``run_operator.cpp``."""

    options: bytes
    tensors: tuple[FakeTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    extra: tuple[str, ...] = ()

    def change_tensor(self, index: int, **fields: object) -> Scenario:
        changed = replace(self.tensors[index], **fields)  # type: ignore[arg-type]
        return replace(self, tensors=(*self.tensors[:index], changed, *self.tensors[index + 1 :]))

    def text(self) -> str:
        lines = [f"options {_hex(self.options)}", *(tensor.line() for tensor in self.tensors)]
        for name, indices in (("inputs", self.inputs), ("outputs", self.outputs)):
            lines.append(f"{name} {len(indices)} {' '.join(map(str, indices))}")
        return "\n".join([*lines, *self.extra, ""])


@dataclass(frozen=True)
class Outcome:
    """Statuses (0 = kTfLiteOk), what was logged, and each run's outputs."""

    register: list[int] = field(default_factory=list)
    prepare: int = -1
    invoke: list[int] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    persistent_left: int = -1


def play(generation: int, scenario: Scenario) -> Outcome:
    """Run a scenario. A crash or a sanitizer's report fails the test."""
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    command = [driver(generation)]
    done = subprocess.run(
        command, input=scenario.text(), capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert done.returncode == 0, done.stderr
    outcome = Outcome()
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "register":
            outcome.register.append(int(rest.split()[-1]))
        elif word == "prepare":
            outcome = replace(outcome, prepare=int(rest))
        elif word == "invoke":
            outcome.invoke.append(int(rest))
        elif word == "output":
            outcome.outputs.append(bytes.fromhex(rest))
        elif word == "persistent":
            outcome = replace(outcome, persistent_left=int(rest.split()[-1]))
        else:
            outcome.log.append(line)
    return outcome


def _hex(data: bytes) -> str:
    return data.hex() or "-"
