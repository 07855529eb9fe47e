"""The device library's own files, for folders that bring it along."""

from __future__ import annotations

import re

from tflite_fuse.runtime.library.sources import library_directory

_GLUE = "tflite_fuse_tflm"
_INCLUDED_PATH = re.compile(rb'(?<=#include ")[./a-z]+/(?=tflite_fuse)')
_MANIFESTS = ("LICENSE", "library.json", "library.properties", "CMakeLists.txt", "idf_component.yml", "keywords.txt")


def sources(where: str) -> dict[str, bytes]:
    """The library's sources and headers, below ``where`` in a folder.

    Args:
        where: path with a slash at its end, or nothing for the folder itself.

    Raises:
        RuntimeUnavailableError: this installation lacks them.
    """
    root = library_directory()
    paths = sorted(path for path in root.rglob("*") if path.suffix in (".c", ".h", ".cpp"))
    return {f"{where}{path.relative_to(root).as_posix()}": path.read_bytes() for path in paths}


def flat_sources() -> dict[str, bytes]:
    """The library without the operator for TFLM, all in one folder, so that ``cc *.c`` builds it.

    Its files include each other by relative paths (``"../executor/tflite_fuse_machine.h"``), because that is all that
    works in a sketch; here the names alone are left, which differ from each other.

    Raises:
        RuntimeUnavailableError: this installation lacks them.
    """
    parts = ((path.rpartition("/")[2], content) for path, content in sources("").items())
    return {name: _INCLUDED_PATH.sub(b"", content) for name, content in parts if not name.startswith(_GLUE)}


def licence(where: str) -> dict[str, bytes]:
    """The library's licence, which goes wherever its sources go."""
    return _beside(where, ("LICENSE",))


def package(where: str) -> dict[str, bytes]:
    """The library as PlatformIO and ESP-IDF take it: sources, manifests, build files, licence."""
    return {**sources(f"{where}src/"), **_beside(where, _MANIFESTS)}


def _beside(where: str, names: tuple[str, ...]) -> dict[str, bytes]:
    root = library_directory().parent
    return {f"{where}{name}": (root / name).read_bytes() for name in names}
