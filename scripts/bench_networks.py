#!/usr/bin/env python3
"""Arenas of networks of common kinds under TFLM: unchanged, rewritten, and with a streamed input.

bench_networks.py [--inputs N] [--write] [NAME ...]: a row per network (whose name contains a NAME), every row compared
in TFLM. The last column is the upper bound for a rewrite with a resident input: before over (input + tail).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.readme import write_part
from scripts.zoo import networks
from scripts.zoo.borders import with_borders
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.types import TensorType, tensor_nbytes

PAGE = Path(__file__).resolve().parents[1] / "docs" / "faq.md"

HEAD = "| network | TFLM | rewritten | ratio | streamed | ratio | F | ceiling |\n|---|--:|--:|--:|--:|--:|--:|--:|\n"

NETWORKS: dict[str, Callable[[], Model]] = {
    "U-Net 96 x 96, TRANSPOSE_CONV": lambda: networks.u_network(96),
    "U-Net 96 x 96, RESIZE_BILINEAR": lambda: networks.u_network(96, transposed=False),
    "EfficientNet-like 128 x 128, squeeze-excite": networks.efficient_network,
    "YOLOv5n-like 224 x 224": networks.yolo_network,
    "detector's neck, 96 x 96": lambda: networks.neck_network(96),
    "MobileNetV1 0.25, 96 x 96": networks.mobile_network,
    "the same, uint8 to float32": lambda: with_borders(networks.mobile_network(), TensorType.UINT8, TensorType.FLOAT32),
    "the same, float32 to float32": lambda: with_borders(networks.mobile_network(), *[TensorType.FLOAT32] * 2),
    "DS-CNN, 40 bands x 98 steps of time": networks.spectrogram_network,
    "DS-CNN, 10 bands x 49 steps of time": lambda: networks.spectrogram_network(10, 49),
}


def row(name: str, model: Model, inputs: int) -> str:
    """Return one line of the table, compared on a number of inputs."""
    data = serialize_model(model)
    many: dict[str, Any] = {"verify": inputs > 0, "inputs": inputs or 1}
    resident = tflite_fuse.rewrite(data, **many).report
    mode = "columns" if "steps of time" in name else "streamed"
    streamed = tflite_fuse.rewrite(data, **many, input_mode=mode).report
    before, after = resident.before.arena_bytes, resident.after.arena_bytes
    kept = sum(tensor_nbytes(model.main.tensors[tensor]) for tensor in model.main.inputs)
    ceiling = before / (kept + resident.after.tail_bytes)
    return (
        f"| {name} | {before:,} | {after:,} | {before / after:.2f} | {streamed.after.arena_bytes:,} "
        f"| {before / streamed.after.arena_bytes:.2f} | {resident.compute_factor:.2f} | {ceiling:.2f} |"
    )


def main() -> None:
    """Print the table, or write it into the page of questions with --write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=4)
    parser.add_argument("--write", action="store_true", help=f"replace the table in {PAGE.name}")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.write and arguments.names:
        parser.error("the page holds all networks: give no NAME with --write")
    table = HEAD
    print(table, end="")
    for name, build in NETWORKS.items():
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        line = row(name, build(), arguments.inputs)
        print(line, flush=True)
        table += f"{line}\n"
    if arguments.write:
        write_part("networks", table, PAGE)


if __name__ == "__main__":
    main()
