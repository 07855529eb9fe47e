"""Flash bytes of an exported project, measured: its library is compiled for a core of its format and linked."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tflite_fuse.export.folder import Files

_TIMEOUT = 120.0
_SECTIONS = "-std=gnu11 -ffunction-sections -fdata-sections -ffp-contract=off"


@dataclass(frozen=True)
class Core:
    """A core that a library is compiled for.

    Attributes:
        name: in words.
        prefix: of the compiler's commands.
        level: of optimization.
        flags: of the compiler for the core.
        headers: directory of the C library's headers.
    """

    name: str
    prefix: str
    level: str
    flags: str
    headers: str = ""


_CORTEX_M4 = "-mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard"
_ESPRESSIF = Core(
    "rv32imc, the instructions of an ESP32-C3",
    "riscv64-unknown-elf-",
    "-O2",
    "-march=rv32imc -misa-spec=2.2 -mabi=ilp32",
    "--specs=picolibc.specs",
)
_CORES = {
    "arduino": Core("a Cortex-M4", "arm-none-eabi-", "-Os", _CORTEX_M4),
    "platformio": Core("a Cortex-M4", "arm-none-eabi-", "-O2", _CORTEX_M4),
    "esp-idf": _ESPRESSIF,
    "esphome": _ESPRESSIF,
    "c": Core("a Cortex-M4", "arm-none-eabi-", "-Os", _CORTEX_M4),
    "zephyr": Core("a Cortex-M4", "arm-none-eabi-", "-Os", _CORTEX_M4),
}
"""Core by format, with the optimization level of its projects."""

_CALLED_BY_GLUE = (
    *("prepare", "invoke", "follow", "outside_serves", "message"),
    *("scratch_bytes", "state_bytes", "operand_count", "operand_bytes", "operand_type"),
)
_CALLED = dict.fromkeys(("c", "zephyr"), ("load", "run", "message"))
"""Functions of the library that a project calls, by format."""


@dataclass(frozen=True)
class Flash:
    """Bytes of flash.

    Attributes:
        model_bytes: of the model's own data.
        library_bytes: of code and constants of the library; None if not measured.
        core, flags: target of the measurement; empty if not measured.
    """

    model_bytes: int
    library_bytes: int | None = None
    core: str = ""
    flags: str = ""

    def sentence(self) -> str:
        """Return the figures as one clause."""
        model = f"{self.model_bytes:,} bytes of flash for the model"
        if self.library_bytes is None:
            return f"{model}; the library was not measured, as no compiler for its core was there"
        return f"{model}, {self.library_bytes:,} for the library at {self.flags} on {self.core}"


def measured(files: Files, format: str, model_bytes: int) -> Flash:
    """Measure the library of a project if a compiler for a core of its format is on the path.

    The C++ file that registers the operator is left out, because it needs the headers of TensorFlow Lite Micro.

    Args:
        files: of the project.
        format: of the project.
        model_bytes: bytes of the model's own data.
    """
    core = _CORES[format]
    code = tuple(sorted((name, _bytes(text)) for name, text in files.items() if _is_of_library(name)))
    if not code:
        return Flash(model_bytes, 0, core.name, core.level)
    size = _linked(code, core, _CALLED.get(format, _CALLED_BY_GLUE))
    return Flash(model_bytes) if size is None else Flash(model_bytes, size, core.name, core.level)


def _is_of_library(name: str) -> bool:
    return name.endswith((".c", ".h")) and name.rpartition("/")[2].startswith("tflite_fuse")


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


@functools.lru_cache(maxsize=8)
def _linked(code: tuple[tuple[str, bytes], ...], core: Core, called: tuple[str, ...]) -> int | None:
    """Return the bytes of code and constants that a program with these calls links; None without a compiler."""
    compiler, sizer = (shutil.which(f"{core.prefix}{name}") for name in ("gcc", "size"))
    if compiler is None or sizer is None:
        return None
    with tempfile.TemporaryDirectory(prefix="tflite-fuse-") as folder:
        for name, content in code:
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        roots = ",".join(("-Wl,--gc-sections", *(f"-u,tflite_fuse_{name}" for name in called)))
        sources = [name for name, _ in code if name.endswith(".c")]
        objects = [f"{Path(name).stem}.o" for name in sources]
        compile_all = [compiler, *f"{_SECTIONS} {core.level} {core.flags} {core.headers} -c".split(), *sources]
        link = [compiler, *f"{core.flags} -nostdlib -r".split(), roots, *objects, "-o", "linked.o"]
        if _output(compile_all, folder) is None or _output(link, folder) is None:
            return None
        listing = (_output([sizer, "linked.o"], folder) or "").splitlines()
    return int(listing[1].split()[0]) if len(listing) == 2 else None


def _output(command: Sequence[str], folder: str) -> str | None:
    try:
        done = subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
