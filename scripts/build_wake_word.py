#!/usr/bin/env python3
"""Write the model of the Arduino example WakeWord, which detects a tone that rises through all bands.

A model small enough to read, over a window of 16 time steps of 8 bands: rising and falling edges (CONV_2D), their
amount (FULLY_CONNECTED), a probability (LOGISTIC). It is converted to a stream of one time step per call, and written
as C.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.build_example import activation, code, constant, write_c
from tflite_fuse.model import schema as s
from tflite_fuse.model import serialize_model
from tflite_fuse.model.options import make_options

STEPS, BANDS = 16, 8
"""Of the window; a step is one value for each band, -128 is silence."""

EXAMPLE = Path(__file__).resolve().parents[1] / "arduino" / "examples" / "WakeWord"

_RISING = np.repeat(3 * np.eye(3, dtype=np.int8) - 1, 2, axis=0)
"""Steps by bands: two steps in the low band, then two in each of those above."""


def sweep_model() -> s.Model:
    """Return a model, int8 [1, 16, 8, 1] to int8 [1, 1]: the probability of a rising tone in 256ths, minus 128."""
    edges = 30 * np.stack([_RISING, np.fliplr(_RISING)])[..., None]
    least = np.array([-2 * 255 * 30] * 2, np.int32)  # what is less steep does not count
    last = STEPS - 5, BANDS - 2
    difference = np.tile(np.array([64, -64], np.int8), last[0] * last[1])[None]
    threshold = np.array([round(-4.5 * 256 * 255 / 8)], np.int32)
    tensors = (
        activation("steps", (1, STEPS, BANDS, 1), 1 / 255, -128),
        constant("edges", edges, 1, 1 / 30),
        constant("least", least, 2, 1 / 30 / 255),
        activation("how steep", (1, *last, 2), 8 / 255, -128),
        constant("rising less falling", difference, 3, 1 / 256),
        constant("threshold", threshold, 4, 8 / 255 / 256),
        activation("score", (1, 1), 1 / 8, 0),
        activation("probability", (1, 1), 1 / 256, -128),
    )
    valid, relu = 1, 1
    convolution = make_options("Conv2DOptions", padding=valid, stride_w=1, stride_h=1, fused_activation_function=relu)
    operators = (
        s.Operator(0, (0, 1, 2), (3,), convolution),
        s.Operator(1, (3, 4, 5), (6,), make_options("FullyConnectedOptions")),
        s.Operator(2, (6,), (7,), None),
    )
    data = (s.Buffer(), *(s.Buffer(each.tobytes()) for each in (edges, least, difference, threshold)))
    codes = tuple(code(name) for name in ("CONV_2D", "FULLY_CONNECTED", "LOGISTIC"))
    return s.Model(3, codes, (s.SubGraph(tensors, (0,), (7,), operators, "sweep"),), "sweep", data)


def write_example(folder: Path) -> tflite_fuse.Result:
    """Write ``model.h`` and ``model.c`` into a folder; return the report of the rewrite."""
    result = tflite_fuse.rewrite(serialize_model(sweep_model()), stream_time=1)
    write_c(result, "sweep", folder)
    return result


def main() -> None:
    """Write the example's model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=EXAMPLE, help="where to")
    stream = write_example(parser.parse_args().folder).report.stream
    assert stream is not None
    print(f"{stream.macs_of_window:,} multiply-accumulates a window, {stream.macs_of_call:,} a step")


if __name__ == "__main__":
    main()
