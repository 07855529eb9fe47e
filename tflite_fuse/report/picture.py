"""The arena as a picture for a notebook: one self-contained SVG."""

from __future__ import annotations

from html import escape

from tflite_fuse.report.arena_map import ArenaMap, Box

_WIDTH, _HEIGHT, _SECOND = 640, 220, 110
"""Size of the picture, and height of that of a second memory below it."""
_COLOURS = {"tensor": "#4c78a8", "scratch": "#bab0ac", "ring": "#f58518"}
_MOST_BOXES = 4000
"""Most boxes of a picture; more would be one grey area."""


def arena_picture(arena: ArenaMap) -> str:
    """Return the head of an arena over the steps of an inference, as an ``<svg>`` element.

    Steps go from left to right, bytes from the bottom up; every part has a tooltip with its name and bytes. A second
    memory follows below, over the same steps. Empty if there are no boxes, or more than ``_MOST_BOXES``.
    """
    head, second = arena.head_bytes, arena.second
    if not head or not arena.boxes or len(arena.boxes) > _MOST_BOXES:
        return ""
    words = f"The arena's {head:,} bytes of activations and scratch over {len(arena.steps):,} steps"
    legend, shown = "tensors blue, scratch of blocks grey, line buffers in it orange", _drawn(arena, _HEIGHT, words)
    if second is not None:
        below = f"{escape(second.name)}, {second.head_bytes:,} bytes"
        shown, legend = shown + _drawn(second, _SECOND, below), f"{legend}; below it {below}"
    return f'<figure style="margin: 0">{shown}<figcaption>{words}: {legend}.</figcaption></figure>'


def _drawn(arena: ArenaMap, height: int, words: str) -> str:
    steps = len(arena.steps) + 1
    parts = "".join(_part(box, height, _WIDTH / steps, height / max(arena.head_bytes, 1)) for box in arena.boxes)
    return (
        f'<svg role="img" aria-label="{words}" viewBox="0 0 {_WIDTH} {height}" '
        f'style="max-width: {_WIDTH}px; width: 100%; background: #f4f4f4">{parts}</svg>'
    )


def _part(box: Box, bottom: int, across: float, up: float) -> str:
    x, width = (box.first + 1) * across, (box.last - box.first + 1) * across
    y, height = bottom - (box.offset + box.nbytes) * up, box.nbytes * up
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{_COLOURS[box.kind]}" '
        f'stroke="#fff" stroke-width="0.5"><title>{escape(box.name)}: {box.nbytes:,} bytes</title></rect>'
    )
