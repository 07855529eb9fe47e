#!/usr/bin/env python3
"""Run rewrites of models beside their originals, and count the changes of single weights that the runs detect.

    python scripts/bench_witness.py --models ../shared/models --inputs 256 --weights 60

This measures the second witness alone, without the proof, which compares every weight. Inputs are those of ``verify``:
edge values, random ones, and ones found by a search. Changes that alter no value of their own operator on any input do
not count as missed; those in constant channels and others are listed apart.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tflite_fuse import api
from tflite_fuse.check import validate
from tflite_fuse.errors import ModelError
from tflite_fuse.model.file import load_model
from tflite_fuse.runtime.comparing.comparison import MutationScore
from tflite_fuse.runtime.comparing.mutation import mutation_score
from tflite_fuse.runtime.comparing.watched import watched
from tflite_fuse.runtime.directed import directed
from tflite_fuse.runtime.inputs import generate_inputs


def score(path: Path, count: int, weights: int, seed: int) -> tuple[int, MutationScore]:
    """Return the number of tensors compared beside the outputs, and the mutation score."""
    model, after = load_model(path), load_model(api.rewrite(path, verify=False).model)
    certificate = validate(model, after)
    tensors = watched((model, after), certificate).first
    inputs = directed(model, generate_inputs(model, count, seed), tensors, seed)
    return len(tensors), mutation_score((model, after), certificate, inputs, weights, seed)


def main() -> None:
    """Print a row per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="files, or folders of them")
    parser.add_argument("--inputs", type=int, default=256)
    parser.add_argument("--weights", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| model | tensors | altered | caught | share | never vary | alter nothing | s |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    files = [each for path in arguments.models for each in (sorted(path.glob("*.tflite")) if path.is_dir() else [path])]
    for path in files:
        started = time.monotonic()
        try:
            tensors, caught = score(path, arguments.inputs, arguments.weights, arguments.seed)
        except ModelError as refusal:
            print(f"| {path.stem} | {refusal} |", flush=True)
            continue
        share = "" if caught.share is None else f"{100 * caught.share:.1f} %"
        numbers = f"{tensors} | {caught.altered} | {caught.caught} | {share} | {caught.constant} | {caught.silent}"
        print(f"| {path.stem} | {numbers} | {time.monotonic() - started:.0f} |", flush=True)


if __name__ == "__main__":
    main()
