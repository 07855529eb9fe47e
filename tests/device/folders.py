"""Exported folders of plain C on emulated microcontrollers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.device.program import binary
from tests.device.targets import HERE, Target, call, lines_of
from tflite_fuse.model.outside import InputMode, OutsideInput

Arrays = Sequence[npt.NDArray[np.generic]]

_PORT = re.compile(r"#define MODEL_(INPUT|OUTPUT)_(\d+)_BYTES (\d+)\n#define MODEL_\w+_OFFSET (\d+)")


@dataclass(frozen=True)
class Folder:
    """What a run of an exported folder told.

    Attributes:
        arena: bytes it declares.
        outputs: bytes of each run and output.
        small: sizes of arenas below the declared that were tried, and how many of them were refused.
        changed: the same of options and constants with one bit changed.
    """

    arena: int
    outputs: list[list[bytes]]
    small: tuple[int, int]
    changed: tuple[int, int]


def run_folder(
    target: Target, folder: Path, inputs: Sequence[Arrays], outside: Sequence[OutsideInput], changes: int
) -> Folder:
    """Compile an exported folder for a core as it is, but for its main program, and run it.

    Args:
        target: the core.
        folder: plain C, as exported.
        inputs: for each run one array per input the model had before any went outside.
        outside: inputs that are not in the arena.
        changes: single bits of options and constants to change, one at a time.
    """
    (folder / "ports.h").write_text(_ports(folder, inputs, outside, changes))
    sources = [path.name for path in sorted(folder.glob("*.c")) if path.name != "main.c"]
    own = [str(HERE / name) for name in ("exported.c", *target.sources)]
    flags = f"-std=gnu11 -O2 {target.flags} -I. -I{HERE}".split()
    link = target.link.format(here=HERE).split()
    call([f"{target.prefix}gcc", *flags, *own, *sources, *link, "-o", "program.elf"], folder)
    lines = lines_of(target, folder / "program.elf", 600)
    numbers = {line[0]: [int(word) for word in line[1:3]] for line in lines if line[0] != "output"}
    if numbers.get("arena", [0, -1])[1] != 0 or "failed" in numbers or "changed" not in numbers:
        raise RuntimeError(f"{target.name}: {lines[-1] if lines else 'no output'}")
    values = [bytes.fromhex(line[1]) if len(line) > 1 else b"" for line in lines if line[0] == "output"]
    each = len(values) // len(inputs)
    return Folder(
        arena=numbers["arena"][0],
        outputs=[values[at : at + each] for at in range(0, len(values), each)],
        small=(numbers["small"][0], numbers["small"][1]),
        changed=(numbers["changed"][0], numbers["changed"][1]),
    )


def _ports(folder: Path, inputs: Sequence[Arrays], outside: Sequence[OutsideInput], changes: int) -> str:
    """The header that gives the program its inputs."""
    found = _PORT.findall((folder / "model.h").read_text())
    elsewhere = {entry.position: entry for entry in outside}
    inside = [position for position in range(len(inputs[0])) if position not in elsewhere]
    lines, rows = [], {"INPUT": "", "OUTPUT": ""}
    for kind, number, size, offset in found:
        values = "0"
        if kind == "INPUT":
            values = f"values_{number}"
            data = b"".join(np.ascontiguousarray(arrays[inside[int(number)]]).tobytes() for arrays in inputs)
            lines.append(binary(folder, values, data))
        rows[kind] += f"    {{{offset}, {size}, {values}}},\n"
    for kind, text in rows.items():
        lines.append(f"static const port {kind.lower()}s[] = {{\n{text}    {{0, 0, 0}},\n}};")
    lines += _outside(folder, inputs, sorted(outside, key=lambda entry: entry.number))
    data_c = (folder / "model.c").read_text()
    for what in ("options", "constants"):
        sizes = [int(size) for size in re.findall(rf"uint8_t {what}_\d+\[(\d+)\]", data_c)]
        lines.append(f"#define MOST_{what.upper()} {max(sizes, default=1)}")
    return "\n".join([*lines, f"#define INPUT_SETS {len(inputs)}", f"#define CHANGES {changes}"]) + "\n"


def _outside(folder: Path, inputs: Sequence[Arrays], outside: Sequence[OutsideInput]) -> list[str]:
    if not outside:
        return [
            "static void give_pictures(uint32_t set) { (void)set; (void)read_picture; }",
            "static const tflite_fuse_outside* const outside_given = NULL;",
        ]
    lines, pictures, sources = [], [], []
    for entry in outside:
        data = b"".join(np.ascontiguousarray(arrays[entry.position]).tobytes() for arrays in inputs)
        size, name = len(data) // len(inputs), f"picture_{entry.number}"
        lines.append(binary(folder, name, data))
        pixel = size // (entry.rows * entry.columns)
        pictures.append(f"{{{size}, {entry.columns}, {pixel}, {name}, {name}}}")
        shape = f"{entry.rows}, {entry.columns}, {entry.channels}, TFLITE_FUSE_{entry.type.name}"
        read = f"read_picture, &pictures[{entry.number}]" if entry.mode is InputMode.STREAMED else "NULL, NULL"
        sources.append(f"{{{read}, {shape}}}")
    count = len(outside)
    return [
        *lines,
        f"static picture pictures[] = {{{', '.join(pictures)}}};",
        f"static const tflite_fuse_source sources[] = {{{', '.join(sources)}}};",
        f"static const void* frames[{count}];",
        f"static size_t sizes[{count}];",
        "static void give_pictures(uint32_t set) {",
        f"  for (int i = 0; i < {count}; ++i) {{",
        "    frames[i] = pictures[i].now = pictures[i].values + set * pictures[i].bytes;",
        "    sizes[i] = pictures[i].bytes;",
        "  }",
        "  (void)read_picture;",
        "}",
        f"static const tflite_fuse_outside given = {{TFLITE_FUSE_OUTSIDE_MARK_2, {count}, frames, sizes, "
        f"{count}, sources, NULL, 0}};",
        "static const tflite_fuse_outside* const outside_given = &given;",
    ]
