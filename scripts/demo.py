#!/usr/bin/env python3
"""Show on the bundled sample model what tflite-fuse does: before, after, the proof, and the accuracy of both."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console

import tflite_fuse
from tflite_fuse.data import SAMPLE_MODEL, shapes
from tflite_fuse.report.tables import report_table
from tflite_fuse.runtime import tflm

PICTURES = 120


def accuracy(model: bytes, count: int) -> tuple[float, bytes]:
    """Share of held-out pictures the model gets right in TFLM, and all its output bytes."""
    images, labels = shapes.pictures(count)
    outputs = tflm.run(model, [[image[None]] for image in shapes.quantized(images)]).outputs
    scores = np.concatenate([first[0] for first in outputs])
    return float(np.mean(scores.argmax(axis=1) == labels)), scores.tobytes()


def main() -> None:
    """Rewrite, prove, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=PICTURES, help="held-out pictures to classify")
    pictures = parser.parse_args().pictures
    console = Console(soft_wrap=True, highlight=False)

    console.print(f"The model: {tflite_fuse.inspect(SAMPLE_MODEL).verdict()}.\n", markup=False)
    result = tflite_fuse.rewrite(SAMPLE_MODEL)
    console.print(report_table(result.report))
    for note in result.report.notes:
        console.print(f"- {note}", markup=False)

    verified = result.report.verified
    if verified is None or not verified.bit_exact:
        raise SystemExit("demo: the result was not verified")
    console.print(f"\nSame bytes on {verified.inputs} inputs in {verified.runtime} {verified.version}.")

    before, bytes_before = accuracy(SAMPLE_MODEL.read_bytes(), pictures)
    after, bytes_after = accuracy(result.model, pictures)
    same = "the same bytes" if bytes_before == bytes_after else "DIFFERENT bytes"
    console.print(f"Accuracy on {pictures} held-out pictures: {before:.1%} before, {after:.1%} after, {same}.")
    if bytes_before != bytes_after:
        raise SystemExit(1)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.tflite"
        result.save(path)
        console.print(
            f"\nTry your own: tflite-fuse rewrite in.tflite out.tflite ({path.stat().st_size:,} bytes written)"
        )


if __name__ == "__main__":
    main()
