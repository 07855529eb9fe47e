"""Run by ``convert`` in a process of its own: onnx2tf from one file to another, in the folder where it works."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_PICTURES = "calibration_image_sample_data_20x128x128x3_float32.npy"
"""File of pictures on which onnx2tf tries a model; it fetches them from a network if the working folder has none."""

_COPY = "model.onnx"
"""A copy in the working folder: onnx2tf simplifies the file that it reads in place."""


def main() -> None:
    """Convert ``argv[1]``, an ONNX file, to ``argv[2]``, float32 with channels last; the rest are shapes of samples."""
    source, target, *samples = sys.argv[1:]
    np.save(_PICTURES, np.random.default_rng(0).random((20, 128, 128, 3), dtype=np.float32))
    import onnx
    import onnx2tf

    model = onnx.load(source)
    onnx.save(model, _COPY)
    inputs = {each.name: [d.dim_value for d in each.type.tensor_type.shape.dim] for each in _inputs(model)}
    sampled = dict(each.rsplit("=", 1) for each in samples)
    if len(inputs) == len(sampled) == 1:
        sampled = dict(zip(inputs, sampled.values(), strict=True))
    shapes = [fixed for name, dims in inputs.items() if (fixed := _fixed(name, dims, sampled.get(name, "")))]
    # Signatures let names of ONNX that TensorFlow's own format forbids through.
    onnx2tf.convert(
        input_onnx_file_path=_COPY,
        output_folder_path="converted",
        output_signaturedefs=True,
        overwrite_input_shape=shapes or None,
        verbosity="error",
    )
    (converted,) = Path("converted").glob("*_float32.tflite")
    converted.replace(target)


def _inputs(model: Any) -> list[Any]:
    """Return the inputs of a model that are no weights."""
    weights = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in weights]


def _fixed(name: str, dims: Sequence[int], sample: str) -> str:
    """Return onnx2tf's option that gives an input the sizes of its samples; empty if only the batch has none.

    Left to itself, the converter makes all of them 1.
    """
    dims = [max(size, 0) for size in dims]
    if all(dims[1:]):
        return ""
    first = [int(size) for size in sample.split(",") if size]
    for sizes in (first, [*first[-1:], *first[:-1]]):
        if len(sizes) == len(dims) - 1 and all(size in (0, own) for size, own in zip(dims[1:], sizes, strict=True)):
            return f"{name}:{','.join(map(str, [1, *sizes]))}"
    shown = " x ".join(str(size or "?") for size in dims)
    raise ValueError(f"input {name} is {shown}: give samples of one size to --calibrate, or export fixed sizes")


if __name__ == "__main__":
    main()
