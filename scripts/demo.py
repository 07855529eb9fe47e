#!/usr/bin/env python3
"""Demonstrate tflite-fuse on the bundled sample model: before, after, the proof, and the accuracy of both."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts import shapes
from tflite_fuse.boards.fit import fit_sentence
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.report.sentences import headline
from tflite_fuse.runtime import tflm

PICTURES = 120


def accuracy(model: bytes, count: int) -> tuple[float, bytes]:
    """Return the share of held-out pictures classified correctly in TFLM, and all output bytes."""
    images, labels = shapes.pictures(count)
    outputs = tflm.run(model, [[image[None]] for image in shapes.quantized(images)]).outputs
    scores = np.concatenate([first[0] for first in outputs])
    return float(np.mean(scores.argmax(axis=1) == labels)), scores.tobytes()


def main() -> None:
    """Rewrite the sample model, verify it and compare accuracies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=PICTURES, help="held-out pictures to classify")
    pictures = parser.parse_args().pictures
    console = Console(soft_wrap=True, highlight=False)

    console.print(f"The model: {tflite_fuse.inspect(SAMPLE_MODEL).verdict()}.\n", markup=False)
    result = tflite_fuse.rewrite(SAMPLE_MODEL)
    report = result.report
    fit = fit_sentence(report.after.arena_bytes, report.after.file_bytes)
    for line in headline(report, "out.tflite", fit):
        console.print(line, markup=False)
    if report.verified is None or not report.verified.bit_exact:
        raise SystemExit("demo: the result was not verified")

    before, bytes_before = accuracy(SAMPLE_MODEL.read_bytes(), pictures)
    after, bytes_after = accuracy(result.model, pictures)
    same = "the same bytes" if bytes_before == bytes_after else "DIFFERENT bytes"
    console.print(f"Accuracy on {pictures} held-out pictures: {before:.1%} before, {after:.1%} after, {same}.")
    if bytes_before != bytes_after:
        raise SystemExit(1)

    console.print("\nTry your own: tflite-fuse rewrite in.tflite out.tflite")


if __name__ == "__main__":
    main()
