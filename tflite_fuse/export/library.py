"""The device library's own files, for folders that bring it along."""

from __future__ import annotations

import re
from collections.abc import Collection

from tflite_fuse.errors import RuntimeUnavailableError
from tflite_fuse.export.folder import Files
from tflite_fuse.ir.block import StageKind, WeightForm
from tflite_fuse.runtime.library.sources import library_directory

_GLUE = "tflite_fuse_tflm"
_INCLUDED_PATH = re.compile(rb'(?<=#include ")[./a-z]+/(?=tflite_fuse)')
_OF_SPLITS = (
    "worker/",
    "link/",
    *(f"tflite_fuse_{name}." for name in ("worker", "link", "key", "coordinator", "arduino")),
)
_OF_LIBM = {
    "tflite_fuse_float_library_curve.c": {StageKind.FLOAT_LIBRARY_CURVE.name},
    "tflite_fuse_float_softmax.c": {StageKind.FLOAT_SOFTMAX.name},
}
"""Kernels that call functions of the C library's mathematics, and their kinds."""
_TABLE = "tflite_fuse_kinds.c"
_OTHER_VERSION = "the C sources of tflite-fuse are of another version; install it again"
_ROW = re.compile(r"row\((\w+), \w+\)")
_ROWS_OF_SPLITS = re.compile(r"(#define TFLITE_FUSE_KINDS_OF_SPLITS\(row\)).*?\n\n", re.DOTALL)
_FORMS = {
    WeightForm.SIXTEEN: "#define TFLITE_FUSE_INT16_CONV tflite_fuse_conv_int16",
    WeightForm.PAIRED: "#define TFLITE_FUSE_PAIRED_CONV tflite_fuse_conv_paired",
}
_ROWS = re.compile(r"#define TFLITE_FUSE_KINDS\(row\).*?\n\n", re.DOTALL)
_ROWS_OF_FLOATS = re.compile(r"(#define TFLITE_FUSE_KINDS_OF_FLOATS\(row\)).*?\n\n", re.DOTALL)
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


def version() -> str:
    """Return the library's version, as its manifests say.

    Raises:
        RuntimeUnavailableError: this installation lacks them.
    """
    text = (library_directory().parent / "library.properties").read_text(encoding="utf-8")
    return re.search(r"^version=(\S+)$", text, re.MULTILINE)[1]  # type: ignore[index]


def flat_sources() -> dict[str, bytes]:
    """The library without the operator for TFLM, all in one folder, so that ``cc *.c`` builds it.

    Its files include each other by relative paths (``"../executor/tflite_fuse_machine.h"``), because that is all that
    works in a sketch; here the names alone are left, which differ from each other.

    Raises:
        RuntimeUnavailableError: this installation lacks them.
    """
    parts = ((path.rpartition("/")[2], content) for path, content in sources("").items() if not _is_of_split(path))
    return {name: _INCLUDED_PATH.sub(b"", content) for name, content in parts if not name.startswith(_GLUE)}


def _is_of_split(path: str) -> bool:
    """Whether a file is for several devices together."""
    return path.startswith(_OF_SPLITS)


def with_kinds(files: Files, kinds: Collection[StageKind], forms: Collection[WeightForm] = ()) -> Files:
    """The same folder with the kernels of these kinds alone, and of weights in these forms beside bytes.

    The others lose their row in the library's table of kinds. Nothing names them then, so that linkers that collect
    sections leave them out; a block that uses one is refused as if the kind were unknown. Kernels that need the C
    library's mathematics are no part of the folder then, so that it is built without ``-lm``.

    Raises:
        RuntimeUnavailableError: the installed library's table is not what this package knows.
    """
    path, table = _table(files)
    if not path or not kinds:
        return files
    wanted = {kind.name for kind in kinds}
    there = "".join(found.group() for rows in (_ROWS, _ROWS_OF_FLOATS) if (found := rows.search(table)))
    kept = [row.group() for row in _ROW.finditer(there) if row.group(1) in wanted]
    if len(kept) != len(wanted):
        raise RuntimeUnavailableError(_OTHER_VERSION)
    rows = " \\\n  ".join(("#define TFLITE_FUSE_KINDS(row)", *kept))
    said = "/* Those of this project's model: add the rows of the library to run models with others. */\n"
    for others in (_ROWS_OF_SPLITS, _ROWS_OF_FLOATS):
        table = others.sub(r"\1\n\n", table, count=1)
    files = {name: content for name, content in files.items() if not _OF_LIBM.get(_file(name), wanted) - wanted}
    return with_weights({**files, path: _ROWS.sub(lambda _: f"{said}{rows}\n\n", table, count=1)}, forms)


def with_weights(files: Files, forms: Collection[WeightForm]) -> Files:
    """The same folder with the convolutions of weights in these forms alone, beside those of bytes.

    Raises:
        RuntimeUnavailableError: as ``with_kinds``.
    """
    path, table = _table(files)
    if any(line not in table for line in _FORMS.values()):
        raise RuntimeUnavailableError(_OTHER_VERSION)
    for line in (line for form, line in _FORMS.items() if form not in forms):
        table = table.replace(line, f"{line.rpartition(' ')[0]} NULL")
    return {**files, path: table.encode()}


def _file(path: str) -> str:
    return path.rpartition("/")[2]


def without_floats(files: Files) -> Files:
    """The same folder without the kernels on float32."""
    path, table = _table(files)
    kept = {name: content for name, content in files.items() if _file(name) not in _OF_LIBM}
    return {**kept, path: _ROWS_OF_FLOATS.sub(r"\1\n\n", table, count=1).encode()}


def _table(files: Files) -> tuple[str, str]:
    """Path and text of the library's table of kinds; both empty where a folder has none."""
    path = next((path for path in files if path.rpartition("/")[2] == _TABLE), "")
    content = files[path] if path else ""
    return path, content if isinstance(content, str) else content.decode()


def without_tflm(where: str) -> dict[str, bytes]:
    """``package`` for projects that have no TensorFlow Lite Micro, without what registers the operator there."""
    return {name: content for name, content in package(where).items() if _GLUE not in name}


def licence(where: str) -> dict[str, bytes]:
    """The library's licence, which goes wherever its sources go."""
    return _beside(where, ("LICENSE",))


def package(where: str) -> dict[str, bytes]:
    """The library as PlatformIO and ESP-IDF take it: sources, manifests, build files, licence."""
    return {**sources(f"{where}src/"), **_beside(where, _MANIFESTS)}


def _beside(where: str, names: tuple[str, ...]) -> dict[str, bytes]:
    root = library_directory().parent
    return {f"{where}{name}": (root / name).read_bytes() for name in names}
