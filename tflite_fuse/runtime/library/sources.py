"""Where the C sources are: beside the package in a checkout, inside it once installed."""

from __future__ import annotations

from pathlib import Path

from tflite_fuse.errors import RuntimeUnavailableError

_PACKAGE = Path(__file__).resolve().parents[2]


def library_directory() -> Path:
    """The C library's ``src`` directory, the one source for this machine and for devices.

    Raises:
        RuntimeUnavailableError: the package was installed without it.
    """
    for arduino in (_PACKAGE / "_arduino", _PACKAGE.parent / "arduino"):
        if (arduino / "src").is_dir():
            return arduino / "src"
    raise RuntimeUnavailableError("the C sources of tflite-fuse are missing from this installation; install it again")


def library_sources() -> list[Path]:
    """The C library's .c files, sorted. Raises RuntimeUnavailableError if they are missing."""
    return sorted(library_directory().rglob("*.c"))


def shim_directory() -> Path:
    """The sources that make the C library an operator of the TensorFlow Lite Micro wheel."""
    return _PACKAGE / "runtime" / "shim"
