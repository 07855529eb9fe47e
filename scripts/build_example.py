#!/usr/bin/env python3
"""Write the model of the Arduino example StreamedInput, which detects the direction of an image's stripes.

A model small enough to read: edges in eight directions (CONV_2D), their mean strength (MEAN), opposite directions
together (FULLY_CONNECTED). It is rewritten for streamed input and written as C.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from tflite_fuse.export import export_model
from tflite_fuse.model import schema as s
from tflite_fuse.model import serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import BUILTIN_CODES, TensorType

SIZE = 64
"""Rows and columns of the picture; one channel, 0 is grey."""

EXAMPLE = Path(__file__).resolve().parents[1] / "arduino" / "examples" / "StreamedInput"

_FILTERS = (
    ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1)),  # brighter to the right: stripes run |
    ((-1, -2, -1), (0, 0, 0), (1, 2, 1)),  # brighter below: stripes run -
    ((-2, -1, 0), (-1, 0, 1), (0, 1, 2)),  # brighter below on the right: stripes run /
    ((0, 1, 2), (-1, 0, 1), (-2, -1, 0)),  # brighter above on the right: stripes run \
)
_STEEPEST = 4 * 255


def stripes_model() -> s.Model:
    """Return a model, int8 [1, 64, 64, 1] to int8 [1, 4]: the strength of stripes in each direction."""
    edges = 8 * np.array([*_FILTERS, *_FILTERS], np.int8)[..., None]
    edges[4:] *= -1
    pairs = 100 * np.concatenate([np.eye(4, dtype=np.int8)] * 2, axis=1)
    tensors = (
        activation("picture", (1, SIZE, SIZE, 1), 1.0, 0),
        constant("filters", edges, 1, 1 / 8),
        activation("edges", (1, SIZE // 2, SIZE // 2, 8), _STEEPEST / 255, -128),
        constant("rows and columns", np.array([1, 2], np.int32), 2),
        activation("strengths", (1, 8), 1.0, -128),
        constant("opposite directions", pairs, 3, 1 / 100),
        activation("directions", (1, 4), 2.0, -128),
    )
    same, relu = 0, 1
    convolution = make_options("Conv2DOptions", padding=same, stride_w=2, stride_h=2, fused_activation_function=relu)
    operators = (
        s.Operator(0, (0, 1), (2,), convolution),
        s.Operator(1, (2, 3), (4,), make_options("ReducerOptions", keep_dims=False)),
        s.Operator(2, (4, 5), (6,), make_options("FullyConnectedOptions")),
    )
    codes = tuple(code(name) for name in ("CONV_2D", "MEAN", "FULLY_CONNECTED"))
    data = (s.Buffer(), *(s.Buffer(each.tobytes()) for each in (edges, np.array([1, 2], np.int32), pairs)))
    return s.Model(3, codes, (s.SubGraph(tensors, (0,), (6,), operators, "stripes"),), "stripes", data)


def activation(name: str, shape: tuple[int, ...], scale: float, zero_point: int) -> s.Tensor:
    """Return an int8 tensor in the arena."""
    return s.Tensor(shape, TensorType.INT8, 0, name, s.Quantization(scale=(scale,), zero_point=(zero_point,)))


def constant(name: str, values: npt.NDArray[np.integer], buffer: int, scale: float | None = None) -> s.Tensor:
    """Return a tensor whose values are in a buffer of the file."""
    kind = TensorType.INT8 if values.dtype == np.int8 else TensorType.INT32
    quantization = None if scale is None else s.Quantization(scale=(scale,), zero_point=(0,))
    return s.Tensor(values.shape, kind, buffer, name, quantization)


def code(name: str) -> s.OperatorCode:
    """Return the operator code of a builtin operator."""
    number = BUILTIN_CODES[name]
    return s.OperatorCode(min(number, 127), None, 1, number)


def write_c(result: tflite_fuse.Result, name: str, folder: Path) -> None:
    """Write ``model.h`` and ``model.c`` of a rewritten model into a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / f"{name}.tflite"
        result.save(source)
        export_model(source, Path(scratch) / "c", "c")
        for file in ("model.h", "model.c"):
            shutil.copyfile(Path(scratch) / "c" / file, folder / file)


def write_example(folder: Path) -> tflite_fuse.Result:
    """Write ``model.h`` and ``model.c`` into a folder; return the report of the rewrite."""
    result = tflite_fuse.rewrite(serialize_model(stripes_model()), input_mode="streamed")
    write_c(result, "stripes", folder)
    return result


def main() -> None:
    """Write the example's model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=EXAMPLE, help="where to")
    report = write_example(parser.parse_args().folder).report
    print(f"the picture has {SIZE * SIZE:,} bytes; the model streams it through {report.after.head_bytes:,}")


if __name__ == "__main__":
    main()
