"""Run by ``convert`` in a process of its own: onnx2tf from one file to another, in the folder where it works."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

_PICTURES = "calibration_image_sample_data_20x128x128x3_float32.npy"
"""What onnx2tf tries a model on and fetches from a network where no such file is in the working folder."""


def main() -> None:
    """Convert ``argv[1]``, an ONNX file, to ``argv[2]``, float32 with channels last."""
    source, target = sys.argv[1:]
    np.save(_PICTURES, np.random.default_rng(0).random((20, 128, 128, 3), dtype=np.float32))
    import onnx2tf

    # Signatures let names of ONNX that TensorFlow's own format forbids through.
    onnx2tf.convert(
        input_onnx_file_path=source, output_folder_path="converted", output_signaturedefs=True, verbosity="error"
    )
    (found,) = Path("converted").glob("*_float32.tflite")
    found.replace(target)


if __name__ == "__main__":
    main()
