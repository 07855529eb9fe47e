"""Run by ``convert`` in a process of its own: ai-edge-quantizer from a float32 .tflite file to full int8."""

from __future__ import annotations

import sys

import numpy as np


def main() -> None:
    """Quantize ``argv[1]`` to ``argv[2]``, calibrated on the arrays of the archive ``argv[3]``.

    ``argv[4]`` is the model's signature, then come its inputs' names in the order of the arrays.
    """
    source, target, archive, signature, *names = sys.argv[1:]
    from ai_edge_quantizer import quantizer, recipe

    with np.load(archive) as samples:
        arrays = [samples[f"arr_{at}"] for at in range(len(names))]
    fed = [dict(zip(names, each, strict=True)) for each in zip(*arrays, strict=False)]
    step = quantizer.Quantizer(source, recipe.static_wi8_ai8())
    step.quantize(step.calibrate({signature: fed})).export_model(target, overwrite=True)


if __name__ == "__main__":
    main()
