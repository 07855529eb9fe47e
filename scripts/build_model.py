#!/usr/bin/env python3
"""Build an int8 model of random weights from a layer list: build_model.py ARCH.json OUT.tflite [--seed N] [--float32].

With --float32 the model is its float32 twin, with every integer replaced by the number it represents; an int8 .tflite
file is also accepted in place of a layer list. scripts/zoo/architectures.py describes the format of the layer list.
Needs only the package's core dependencies, neither TensorFlow nor an installed package.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.mains import in_one_sentence
from scripts.zoo.architectures import build_architecture_file
from scripts.zoo.float_twin import float_twin
from tflite_fuse.errors import UsageError
from tflite_fuse.model import Model, load_model, save_model


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return int(text)


def _model(options: argparse.Namespace) -> Model:
    if options.architecture.suffix == ".tflite":
        if not options.float32:
            raise UsageError(f"{options.architecture} is a model already; --float32 makes its float32 twin")
        return float_twin(load_model(options.architecture))
    model = build_architecture_file(options.architecture, options.seed)
    return float_twin(model) if options.float32 else model


@in_one_sentence
def main(arguments: list[str] | None = None) -> int:
    """Build one model; return the exit code: 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(description="Build an int8 .tflite model with random weights from a layer list.")
    parser.add_argument("architecture", metavar="ARCH.json", type=Path, help="layer list; with --float32 also a model")
    parser.add_argument("output", metavar="OUT.tflite", type=Path, help="model to write")
    parser.add_argument("--seed", type=_seed, default=0, help="of weights and ranges (default 0)")
    parser.add_argument("--float32", action="store_true", help="the float32 twin of the model")
    options = parser.parse_args(arguments)
    model = _model(options)
    save_model(model, options.output)
    size = options.output.stat().st_size
    print(f"{options.output}: {len(model.main.operators)} operators, {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
