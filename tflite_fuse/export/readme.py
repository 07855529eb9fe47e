"""The README of an exported folder: five steps to a running board, its files, and the printed output."""

from __future__ import annotations

from collections.abc import Sequence

from tflite_fuse.export import library
from tflite_fuse.export.flash import Flash
from tflite_fuse.export.ports import Port
from tflite_fuse.export.text import comment, fill

CHIRALE = "2.0.0"
"""Newest version of Chirale_TensorFlowLite."""

WITHOUT_TFLM = ("c", "zephyr")
"""Formats of projects without TensorFlow Lite Micro."""


def readme(
    format: str, title: str, folder: str, arena_bytes: int, flash: Flash, notes: Sequence[str], outputs: Sequence[Port]
) -> str:
    """Return the text of ``README.md``.

    Args:
        format: of ``FORMATS``.
        title: of the model.
        folder: the directory's name.
        arena_bytes: of the declared arena.
        flash: of model and library.
        notes: of the export, one sentence each.
        outputs: of the model.

    Raises:
        RuntimeUnavailableError: this installation lacks the library.
    """
    arena, version = f"{arena_bytes:,}", library.version()
    listed = [f"- {note[0].upper()}{note[1:]}.\n" for note in notes]
    return fill(
        "readme/README.md",
        title=comment(title),
        format=format,
        version=version,
        steps=fill(f"readme/{format}.md", folder=folder, chirale=CHIRALE, arena=arena, version=version),
        flash=_flash(format, flash),
        notes="".join((*listed, "\n")) if listed else "",
        printed="\n".join((*_printed(format, arena_bytes, outputs), "")),
    )


def _flash(format: str, flash: Flash) -> str:
    text = f"{flash.sentence()}."
    if flash.library_bytes:
        text += " The library was measured at export, after the linker removed unused sections."
    if format in WITHOUT_TFLM:
        return text
    return f"{text} The file that registers the operator, and the runtime, come on top."


def _printed(format: str, arena_bytes: int, outputs: Sequence[Port]) -> list[str]:
    with_tflm = format not in WITHOUT_TFLM
    free = 16 if with_tflm else 0
    lines = [f"arena: {arena_bytes - free} bytes used, {free} free (MODEL_ARENA_BYTES)"]
    lines += ["microseconds: 41873"] if with_tflm else []
    for port in outputs:
        lines += [
            f"output {port.number}[{number}]{port.factor} = {12 - 7 * number}"
            for number in range(min(2, port.elements))
        ]
        lines += ["..."] if port.elements > 2 else []
    return lines
