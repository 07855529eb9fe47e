#!/usr/bin/env python3
"""Cycles saved by kinds of weights: bench_weights.py [MODEL ...] [--target NAME].

Every model (default: some of ``shared/models`` beside the project) is rewritten with weights of 8 bits, in pairs and of
16 bits, within the arena of the default rewrite. A line each: cycles predicted for the core (instructions where it has
no timing model), and the percentage that the latter two save.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse

SHARED_MODELS = Path(__file__).resolve().parents[2] / "shared" / "models"
NAMES = ("mlperf_tiny_vww96_int8", "mlperf_tiny_dscnn_kws_int8", "mlperf_tiny_resnet8_int8")
KINDS = ("8bit", "paired", "16bit")


def saved(path: Path, target: str) -> tuple[int, list[float]]:
    """Return cycles or instructions with weights of 8 bits, and the percentages that the other kinds save."""
    default = tflite_fuse.rewrite(path, target=target, verify=False).report.after.arena_bytes
    plain, *packed = (_taken(path, kind, target, tflite_fuse.Goal(max_ram=default)) for kind in KINDS)
    return plain, [100 * (1 - each / plain) for each in packed]


def _taken(path: Path, kind: str, target: str, goal: tflite_fuse.Goal) -> int:
    prediction = tflite_fuse.rewrite(path, goal=goal, weights=kind, target=target, verify=False).report.prediction
    assert prediction is not None
    return prediction.instructions if prediction.cycles is None else prediction.cycles.cycles


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("models", nargs="*", type=Path, default=[SHARED_MODELS / f"{name}.tflite" for name in NAMES])
    parser.add_argument("--target", default="cortex-m7")
    chosen = parser.parse_args(arguments)
    for path in chosen.models:
        plain, (paired, wide) = saved(path, chosen.target)
        print(f"{path.stem}: {plain:,}, paired {paired:.1f} %, 16bit {wide:.1f} %", flush=True)


if __name__ == "__main__":
    main()
