"""The device library's own files, for folders that bring it along."""

from __future__ import annotations

from tflite_fuse.runtime.library.sources import library_directory

_GLUE = "tflite_fuse_tflm"
_MANIFESTS = ("LICENSE", "library.json", "library.properties", "CMakeLists.txt", "idf_component.yml", "keywords.txt")


def sources(where: str, *, glue: bool = True) -> dict[str, bytes]:
    """The library's sources and headers, below ``where`` in a folder.

    Args:
        where: path with a slash at its end, or nothing for the folder itself.
        glue: with the operator for TFLM.

    Raises:
        RuntimeUnavailableError: this installation lacks them.
    """
    root = library_directory()
    paths = sorted(path for path in root.rglob("*") if path.suffix in (".c", ".h", ".cpp"))
    wanted = (path for path in paths if glue or not path.name.startswith(_GLUE))
    return {f"{where}{path.relative_to(root).as_posix()}": path.read_bytes() for path in wanted}


def licence(where: str) -> dict[str, bytes]:
    """The library's licence, which goes wherever its sources go."""
    return _beside(where, ("LICENSE",))


def package(where: str) -> dict[str, bytes]:
    """The library as PlatformIO and ESP-IDF take it: sources, manifests, build files, licence."""
    return {**sources(f"{where}src/"), **_beside(where, _MANIFESTS)}


def _beside(where: str, names: tuple[str, ...]) -> dict[str, bytes]:
    root = library_directory().parent
    return {f"{where}{name}": (root / name).read_bytes() for name in names}
