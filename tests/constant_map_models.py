"""Networks in which an operator meets a constant that differs from pixel to pixel."""

from __future__ import annotations

import numpy as np

from tests.drawing.raw_models import RawModel, add_convolution, edgy_int8
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model

SIZE = (1, 12, 10)
"""Batch, rows and columns of all images before the last convolution."""

JOINS = ("position", "gate", "coordinates", "limit")


def with_constant_map(join: str) -> Model:
    """A convolution, an operator with a constant, two convolutions.

    Args:
        join: ``position`` adds a number for each value, ``gate`` multiplies each pixel by a number, ``coordinates``
            appends two channels, ``limit`` bounds each channel.
    """
    raw, rng = RawModel(), np.random.default_rng(5)
    source = raw.tensor((*SIZE, 3), 0.5)
    image, width = add_convolution(raw, source, (*SIZE, 8), kernel=3), 8
    if join == "coordinates":
        stored = raw.constant(edgy_int8(rng, (*SIZE, 2)), [0.3], zero_point=-7)
        parts, width, name, options = [stored, image], 10, "CONCATENATION", make_options("ConcatenationOptions", axis=3)
        output = raw.tensor((*SIZE, width), 0.3, -7)
    else:
        dims = {"position": (*SIZE[1:], 8), "gate": (*SIZE, 1), "limit": (8,)}[join]
        parts = [image, raw.constant(edgy_int8(rng, dims), [0.02], zero_point=5)]
        name = {"position": "ADD", "gate": "MUL", "limit": "MAXIMUM"}[join]
        options = make_options(f"{name.capitalize()}Options") if join != "limit" else None
        output = raw.tensor((*SIZE, width), 0.3, -7)
    raw.operator(name, parts, [output], options)
    wide = add_convolution(raw, output, (*SIZE, 8), kernel=3)
    return raw.build([source], [add_convolution(raw, wide, (1, 6, 5, 4), kernel=3, stride=2)])
