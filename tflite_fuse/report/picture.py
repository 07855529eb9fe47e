"""The arena as a picture for a notebook: one self-contained SVG."""

from __future__ import annotations

from html import escape

from tflite_fuse.report.arena_map import ArenaMap, Box

_WIDTH, _HEIGHT = 640, 220
_COLOURS = {"tensor": "#4c78a8", "scratch": "#bab0ac", "ring": "#f58518"}
_MOST_BOXES = 4000
"""Most boxes of a picture; more would be one grey area."""


def arena_picture(found: ArenaMap) -> str:
    """Return the head of an arena over the steps of an inference, as an ``<svg>`` element.

    Steps go from left to right, bytes from the bottom up; every part has a tooltip with its name and bytes. Empty if
    there are no boxes, or more than ``_MOST_BOXES``.
    """
    steps, head = len(found.steps) + 1, found.head_bytes
    if not head or not found.boxes or len(found.boxes) > _MOST_BOXES:
        return ""
    parts = "".join(_part(box, _WIDTH / steps, _HEIGHT / head) for box in found.boxes)
    words = f"The arena's {head:,} bytes of activations and scratch over {len(found.steps):,} steps"
    legend = "tensors blue, scratch of blocks grey, line buffers in it orange"
    return (
        f'<figure style="margin: 0"><svg role="img" aria-label="{words}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'style="max-width: {_WIDTH}px; width: 100%; background: #f4f4f4">{parts}</svg>'
        f"<figcaption>{words}: {legend}.</figcaption></figure>"
    )


def _part(box: Box, across: float, up: float) -> str:
    x, width = (box.first + 1) * across, (box.last - box.first + 1) * across
    y, height = _HEIGHT - (box.offset + box.nbytes) * up, box.nbytes * up
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{_COLOURS[box.kind]}" '
        f'stroke="#fff" stroke-width="0.5"><title>{escape(box.name)}: {box.nbytes:,} bytes</title></rect>'
    )
