#!/usr/bin/env python3
"""What float32 networks gain: bench_floats.py [MODEL ...].

Every model is an int8 .tflite file (default: those of ``shared/models`` beside the project). Its float32 twin, as
``scripts/build_model.py --float32`` makes it, is rewritten with the input in the arena and streamed; both are compared
with the twin in TensorFlow Lite Micro. Where the input cannot be streamed the mean counts the arena with it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from math import prod
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.bench_device import SHARED_MODELS
from scripts.zoo.float_twin import float_twin
from tflite_fuse.errors import LimitError, TfliteFuseError
from tflite_fuse.model import load_model, serialize_model

_NAMES = ("vww96", "resnet8", "dscnn_kws", "autoencoder", "person_detect")


def _row(path: Path, shares: list[list[float]]) -> str:
    data, cells = serialize_model(float_twin(load_model(path))), [path.stem]
    for place, mode in enumerate(("resident", "streamed")):
        try:
            report = tflite_fuse.rewrite(data, input_mode=mode).report
        except LimitError:  # streamed it would be larger than the twin is
            shares[place].append(shares[0][-1])
            cells += ["–", "–"]
            continue
        exact = report.verified is not None and report.verified.bit_exact
        share = report.before.arena_bytes / report.after.arena_bytes
        shares[place].append(share)
        cells += [] if place else [f"{report.before.arena_bytes:,}"]
        cells += [f"{report.after.arena_bytes:,}", f"{share:.2f}" + ("" if exact else " (not verified)")]
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="an int8 .tflite file")
    options = parser.parse_args(arguments)
    found = options.models or [p for n in _NAMES for p in sorted(SHARED_MODELS.glob(f"*{n}*.tflite"))]
    print("| float32 twin of | arena | rewritten | times smaller | input streamed | times smaller |")
    print("|---|---|---|---|---|---|")
    shares: list[list[float]] = [[], []]
    try:
        for path in found:
            print(_row(path, shares), flush=True)
    except TfliteFuseError as error:
        print(f"bench_floats: {error}", file=sys.stderr)
        return 2
    means = [prod(each) ** (1 / len(each)) if each else 1.0 for each in shares]
    print(f"| geometric mean | | | {means[0]:.2f} | | {means[1]:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
