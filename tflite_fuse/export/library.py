"""The device library's own files, for folders that include it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tflite_fuse.emit.options import Options, read_options
from tflite_fuse.errors import RuntimeUnavailableError
from tflite_fuse.export.folder import Files
from tflite_fuse.ir.enums import StageKind, WeightLayout
from tflite_fuse.ir.structs import StageDesc
from tflite_fuse.runtime.library.sources import library_directory


@dataclass(frozen=True)
class Parts:
    """The used parts; the numbers are those of ``tflite_fuse_loops.h``.

    Attributes:
        kinds: of stages.
        convolutions: a bit for each layout of weights that loops of convolutions read.
        depthwise: bit 0 for plain weights, bit ``width - 3 + stride`` for packed ones.
        float16: 1 if layers on float32 have weights in float16.
    """

    kinds: frozenset[StageKind]
    convolutions: int
    depthwise: int
    float16: int = 0


def parts_of(blocks: Iterable[bytes]) -> Parts:
    """Return the parts that blocks with these options use.

    Raises:
        BlockError: options are damaged.
    """
    kinds = set[StageKind]()
    convolutions = depthwise = float16 = 0
    for options in map(read_options, blocks):
        for stage in options.stages:
            kind = StageKind(stage.kind)
            kinds.add(kind)
            convolutions |= _convolution(kind, stage, options)
            depthwise |= _depthwise(kind, stage, options)
            float16 |= int(stage.weight_layout == WeightLayout.FLOAT16)
    return Parts(frozenset(kinds), convolutions, depthwise, float16)


def _input_extent(stage: StageDesc, options: Options) -> tuple[int, int]:
    """Return pixels and channels of a stage's first input."""
    tensor = options.tensors[options.stage_inputs[stage.first_input]]
    return tensor.height * tensor.width, tensor.channels


def _convolution(kind: StageKind, stage: StageDesc, options: Options) -> int:
    """Return the bit of a convolution's layout.

    Packed weights of a depthwise convolution of one input channel have the convolution's layout. A fully connected
    layer of several pixels sums pixels as they arrive.
    """
    layout = stage.weight_layout
    if kind not in (StageKind.CONV, StageKind.DEPTHWISE, StageKind.FULLY_CONNECTED):
        return 0
    pixels, channels = _input_extent(stage, options)
    if kind is StageKind.DEPTHWISE and (layout == WeightLayout.PLAIN or channels != 1):
        return 0
    if kind is StageKind.FULLY_CONNECTED and layout == WeightLayout.PLAIN and pixels > 1:
        return 0
    return 1 << layout


def _depthwise(kind: StageKind, stage: StageDesc, options: Options) -> int:
    if kind is not StageKind.DEPTHWISE:
        return 0
    if stage.weight_layout == WeightLayout.PLAIN:
        return 1
    return 0 if _input_extent(stage, options)[1] == 1 else 1 << (stage.kernel_width - 3 + stage.stride_width)


_GLUE = "tflite_fuse_tflm"
_INCLUDED_PATH = re.compile(rb'(?<=#include ")[./a-z]+/(?=tflite_fuse)')
_OF_SPLITS = (
    "worker/",
    "link/",
    *(f"tflite_fuse_{name}." for name in ("worker", "link", "key", "coordinator", "arduino")),
)
_OF_BYTES = (WeightLayout.PLAIN, WeightLayout.PACKED_DOWN, WeightLayout.PACKED)
_TABLE = "tflite_fuse_kinds.c"
_LOOPS = "tflite_fuse_loops.h"
_OTHER_VERSION = "the C sources of tflite-fuse are of another version; install it again"
_ROW = re.compile(r"row\((\w+), (\w+)\)")
_ROWS = re.compile(r"#define TFLITE_FUSE_KINDS\(row\).*?\n\n", re.DOTALL)
_ROWS_OF_FLOATS = re.compile(r"(#define TFLITE_FUSE_KINDS_OF_FLOATS\(row\)).*?\n\n", re.DOTALL)
_ROWS_OF_SPLITS = re.compile(r"(#define TFLITE_FUSE_KINDS_OF_SPLITS\(row\)).*?\n\n", re.DOTALL)
_ENTRY = re.compile(r"^TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_(\w+)", re.MULTILINE)
_FUNCTION = re.compile(r"^(?!static)\w[\w ]*\b(tflite_fuse_\w+)\(", re.MULTILINE)
_MANIFESTS = ("LICENSE", "library.json", "library.properties", "CMakeLists.txt", "idf_component.yml", "keywords.txt")


def sources(where: str, *, splits: bool = False) -> dict[str, bytes]:
    """Return the library's sources and headers, below ``where`` in a folder.

    Args:
        where: path with a slash at its end, or empty for the folder itself.
        splits: include the files for several devices.

    Raises:
        RuntimeUnavailableError: this installation lacks them.
    """
    root = library_directory()
    paths = sorted(path for path in root.rglob("*") if path.suffix in (".c", ".h", ".cpp"))
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    return {f"{where}{name}": content for name, content in files.items() if splits or not name.startswith(_OF_SPLITS)}


def version() -> str:
    """Return the library's version from its manifest.

    Raises:
        RuntimeUnavailableError: this installation lacks it.
    """
    text = (library_directory().parent / "library.properties").read_text(encoding="utf-8")
    return re.search(r"^version=(\S+)$", text, re.MULTILINE)[1]  # type: ignore[index]


def flat_sources() -> dict[str, bytes]:
    """Return the library without the operator for TFLM, all in one folder, for ``cc *.c``.

    Its files include each other by relative paths (``"../executor/tflite_fuse_machine.h"``), which sketches require;
    here only the unique names are left.

    Raises:
        RuntimeUnavailableError: this installation lacks them.
    """
    parts = ((path.rpartition("/")[2], content) for path, content in sources("").items())
    return {name: _INCLUDED_PATH.sub(b"", content) for name, content in parts if not name.startswith(_GLUE)}


def with_parts(files: Files, parts: Parts) -> Files:
    """Return a folder with only the kernels and loops of these parts, and without the library if there is no block.

    Other kinds lose their row in the library's table, and their file if no other one calls it; other loops lose their
    bit. Linkers that collect sections then leave them out, and a block that uses one is refused.

    Raises:
        RuntimeUnavailableError: the installed library's table does not match this package.
    """
    if not parts.kinds:
        return {name: content for name, content in files.items() if "/tflite_fuse/" not in name}
    path, table = _file_named(files, _TABLE)
    names = {kind.name for kind in parts.kinds}
    there = "".join(match.group() for rows in (_ROWS, _ROWS_OF_FLOATS) if (match := rows.search(table)))
    kept = [row for row in _ROW.finditer(there) if row.group(1) in names]
    if len(kept) != len(names):
        raise RuntimeUnavailableError(_OTHER_VERSION)
    rows = " \\\n  ".join(("#define TFLITE_FUSE_KINDS(row)", *(row.group() for row in kept)))
    explanation = "/* Those of this project's model: add the rows of the library to run models with others. */\n"
    for pattern in (_ROWS_OF_SPLITS, _ROWS_OF_FLOATS):
        table = pattern.sub(r"\1\n\n", table, count=1)
    files = _without_kernels(files, {row.group(2) for row in kept})
    files = {**files, path: _ROWS.sub(lambda _: f"{explanation}{rows}\n\n", table, count=1)}
    return _with_loops(files, CONV=parts.convolutions, DEPTHWISE=parts.depthwise, FLOAT16=parts.float16)


def _with_loops(files: Files, **loops: int) -> Files:
    path, text = _file_named(files, _LOOPS)
    for name, bits in loops.items():
        text, count = re.subn(rf"(#define TFLITE_FUSE_{name}_LOOPS) \w+", rf"\1 {bits:#x}", text)
        if count != 1:
            raise RuntimeUnavailableError(_OTHER_VERSION)
    return {**files, path: text.encode()}


def _without_kernels(files: Files, kept: Collection[str]) -> Files:
    """Return the files without kernels that are not in ``kept``, except those that remaining files call."""
    code = {name: _text(content) for name, content in files.items() if name.endswith(".c")}
    entries = {name: set(_ENTRY.findall(text)) for name, text in code.items() if not name.endswith(_TABLE)}
    gone = {name for name, kinds in entries.items() if kinds and not kinds & set(kept)}
    staying = "".join(text for name, text in code.items() if name not in gone and entries.get(name))
    called = {name for name in gone if any(re.search(rf"\b{f}\b", staying) for f in _FUNCTION.findall(code[name]))}
    return {name: content for name, content in files.items() if name not in gone - called}


def for_workers(where: str) -> Files:
    """Return the library for devices of a split: without TensorFlow Lite Micro, on int8 with 8-bit weights.

    Fragments have 8-bit weights for every core.

    Raises:
        RuntimeUnavailableError: this installation lacks the library, or has another one.
    """
    files: Files = {name: content for name, content in package(where, splits=True).items() if _GLUE not in name}
    path, table = _file_named(files, _TABLE)
    floats = {name for name in files if "/floats/" in name and _ENTRY.search(_text(files[name]))}
    files = {name: content for name, content in files.items() if name not in floats}
    files = {**files, path: _ROWS_OF_FLOATS.sub(r"\1\n\n", table, count=1).encode()}
    return _with_loops(files, CONV=sum(1 << layout for layout in _OF_BYTES))


def _file_named(files: Files, name: str) -> tuple[str, str]:
    """Return path and text of a file of the library; both empty if a folder has none."""
    path = next((path for path in files if path.rpartition("/")[2] == name), "")
    return path, _text(files[path]) if path else ""


def _text(content: str | bytes) -> str:
    return content if isinstance(content, str) else content.decode()


def licence(where: str) -> dict[str, bytes]:
    """Return the library's licence, which accompanies its sources."""
    return _beside(where, ("LICENSE",))


def package(where: str, *, splits: bool = False) -> dict[str, bytes]:
    """Return the library in the form of PlatformIO and ESP-IDF: sources, manifests, build files, licence."""
    return {**sources(f"{where}src/", splits=splits), **_beside(where, _MANIFESTS)}


def _beside(where: str, names: tuple[str, ...]) -> dict[str, bytes]:
    root = library_directory().parent
    return {f"{where}{name}": (root / name).read_bytes() for name in names}
