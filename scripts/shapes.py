"""Pictures of shapes, a function of a seed alone: what the sample model was trained and is tested on.

One filled shape per picture, at a random place, size, angle and colour, before a colour gradient, all under noise.
Nothing is stored: training, calibration and evaluation draw from different seeds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

SIZE = 128
"""Height and width of a picture in pixels; it has three channels."""

EVALUATION_SEED = 2_000_003
"""Seed of the held-out pictures. Training uses other seeds."""

FloatArray = npt.NDArray[np.float32]


def _disc(u: FloatArray, v: FloatArray) -> FloatArray:
    return np.hypot(u, v) - np.float32(0.85)


def _ring(u: FloatArray, v: FloatArray) -> FloatArray:
    distance: FloatArray = np.abs(np.hypot(u, v) - np.float32(0.75)) - np.float32(0.2)
    return distance


def _square(u: FloatArray, v: FloatArray) -> FloatArray:
    return np.maximum(np.abs(u), np.abs(v)) - np.float32(0.75)


def _triangle(u: FloatArray, v: FloatArray) -> FloatArray:
    angles = np.float32(np.pi) * np.array([0.5, 7.0 / 6.0, 11.0 / 6.0], np.float32)
    sides = [u * np.cos(angle) + v * np.sin(angle) for angle in angles]
    distance: FloatArray = np.maximum.reduce(sides) - np.float32(0.5)
    return distance


def _cross(u: FloatArray, v: FloatArray) -> FloatArray:
    wide = np.maximum(np.abs(u) - np.float32(0.95), np.abs(v) - np.float32(0.28))
    tall = np.maximum(np.abs(u) - np.float32(0.28), np.abs(v) - np.float32(0.95))
    return np.minimum(wide, tall)


def _star(u: FloatArray, v: FloatArray) -> FloatArray:
    """Five points at radius 1, five notches at radius 0.4: distance to the edge of the point nearest in angle."""
    turn = np.float32(2.0 * np.pi / 5.0)
    angle = np.arctan2(v, u)
    folded = np.abs(angle - turn * np.round(angle / turn))
    radius = np.hypot(u, v)
    x, y = radius * np.cos(folded), radius * np.sin(folded)
    notch_x, notch_y = 0.4 * np.cos(np.pi / 5.0), 0.4 * np.sin(np.pi / 5.0)
    length = np.hypot(notch_y, 1.0 - notch_x)
    return ((x - 1.0) * np.float32(notch_y / length) + y * np.float32((1.0 - notch_x) / length)).astype(np.float32)


_OUTLINES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    # Signed distance to the edge, negative inside, in a frame where the shape has radius about 1.
    "disc": _disc,
    "ring": _ring,
    "square": _square,
    "triangle": _triangle,
    "cross": _cross,
    "star": _star,
}

CLASSES = tuple(_OUTLINES)
"""Names of the classes; a label is an index into them."""

_ROWS, _COLUMNS = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)


def draw(label: int, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """One picture, uint8 of shape (SIZE, SIZE, 3)."""
    radius = rng.uniform(0.13, 0.4) * SIZE
    y, x = rng.uniform(radius * 0.9, SIZE - radius * 0.9, 2)
    angle = rng.uniform(0.0, 2.0 * np.pi)
    background = rng.uniform(0.0, 255.0, 3)
    slope = rng.uniform(-0.4, 0.4, (2, 3))
    colour = rng.uniform(0.0, 255.0, 3)
    while np.abs(colour - background).max() < 75.0:
        colour = rng.uniform(0.0, 255.0, 3)

    dy, dx = (_ROWS - np.float32(y)) / np.float32(radius), (_COLUMNS - np.float32(x)) / np.float32(radius)
    cosine, sine = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    outside = _OUTLINES[CLASSES[label]](dx * cosine + dy * sine, dy * cosine - dx * sine)
    cover = np.clip(0.5 - outside * np.float32(radius), 0.0, 1.0)[..., None]

    tilt = (_ROWS[..., None] - SIZE / 2) * slope[0] + (_COLUMNS[..., None] - SIZE / 2) * slope[1]
    picture = (background + tilt) * (1.0 - cover) + colour * cover
    picture += rng.normal(0.0, rng.uniform(2.0, 18.0), picture.shape)
    result: npt.NDArray[np.uint8] = np.clip(np.round(picture), 0, 255).astype(np.uint8)
    return result


def pictures(count: int, seed: int = EVALUATION_SEED) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """``count`` pictures, uint8 (count, SIZE, SIZE, 3), and their labels, every class equally often."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % len(CLASSES)).astype(np.int64)
    return np.stack([draw(int(label), rng) for label in labels]), labels


def quantized(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.int8]:
    """Pictures as the sample model reads them: int8 with scale 1/255 and zero point −128."""
    return (images.astype(np.int16) - 128).astype(np.int8)
