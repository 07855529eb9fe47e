"""C sources of the device library, in a checkout or installed, and the library as an operator of desktop runtimes.

The operator's shared library is built from ``arduino/src`` and ``runtime/shim`` on first use and cached.
"""

from __future__ import annotations

from pathlib import Path

from tflite_fuse.errors import RuntimeUnavailableError
from tflite_fuse.ir.program import CUSTOM_CODE
from tflite_fuse.model.file import custom_codes
from tflite_fuse.runtime.library.compiler import build_library, sanitizer_environment
from tflite_fuse.runtime.processes.worker import RuntimeName, WorkerKind

_PACKAGE = Path(__file__).resolve().parents[2]


def library_directory() -> Path:
    """Return the C library's ``src`` directory, the single source for this machine and for devices.

    Raises:
        RuntimeUnavailableError: the package was installed without it.
    """
    for arduino in (_PACKAGE / "_arduino", _PACKAGE.parent / "arduino"):
        if (arduino / "src").is_dir():
            return arduino / "src"
    raise RuntimeUnavailableError("the C sources of tflite-fuse are missing from this installation; install it again")


def library_sources() -> list[Path]:
    """Return the C library's .c files, sorted. Raises RuntimeUnavailableError if they are missing."""
    return sorted(library_directory().rglob("*.c"))


def shim_directory() -> Path:
    """Return the sources that make the C library an operator of desktop runtimes."""
    return _PACKAGE / "runtime" / "shim"


REGISTERER = "tflite_fuse_register"

_FLAGS: dict[RuntimeName, tuple[str, ...]] = {"tflm": (), "litert": ("-DTFLITE_FUSE_LITERT",)}
_OPERATOR = ("guard.c", "operator.c", "outside.c")


def shim_library(runtime: RuntimeName, *, sanitize: bool = False) -> Path:
    """Return the library for ``tflm`` or ``litert``. Raises RuntimeUnavailableError without C compiler or sources."""
    shim, library = shim_directory(), library_directory()
    sources = [*library_sources(), *(shim / name for name in (*_OPERATOR, f"{runtime}_wheel.c"))]
    name, flags = f"tflite_fuse_{runtime}", _FLAGS[runtime]
    return build_library(name, sources, [library, shim], sanitize=sanitize, flags=flags)


def kind_for(runtime: RuntimeName, model_bytes: bytes, *, sanitize: bool = False) -> WorkerKind:
    """Return the worker kind that runs a model: with our operator if the model has fused blocks.

    Args:
        runtime: ``tflm`` or ``litert``.
        model_bytes: a .tflite file.
        sanitize: run our operator with AddressSanitizer and UndefinedBehaviorSanitizer, on copies of exact size of
            every tensor, so each access outside one is reported. For tests: several times slower.

    Raises:
        RuntimeUnavailableError: the model has fused blocks, and there is no C compiler or no C source.
    """
    if CUSTOM_CODE.encode() not in model_bytes or CUSTOM_CODE not in custom_codes(model_bytes):
        return WorkerKind(runtime)
    environment = sanitizer_environment() if sanitize else ()
    return WorkerKind(runtime, (str(shim_library(runtime, sanitize=sanitize)),), (REGISTERER,), environment)
