#!/usr/bin/env python3
"""Print the README's table: the arena of real models before and after, every row verified in TFLM.

bench_readme.py [MODEL ...] [--write] [--inputs N]: by default the bundled sample and the models beside the checkout.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.readme import write_part
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.errors import LimitError
from tflite_fuse.report.report import Report
from tflite_fuse.runtime import tflm

ROOT = Path(__file__).resolve().parents[1]
MODELS = (
    "mlperf_tiny_vww96_int8",
    "tflm_person_detect_int8",
    "mlperf_tiny_resnet8_int8",
    "mlperf_tiny_dscnn_kws_int8",
    "mcunet_in3_int8",
    "swiftnet_vww224_uint8",
)


def rewrite(path: Path, inputs: int, **options: object) -> Report:
    """Return the report of a rewrite, verified on a number of inputs where TFLM loads the model."""
    verify = None if inputs else False
    return tflite_fuse.rewrite(path, inputs=inputs or 1, verify=verify, **options).report  # type: ignore[arg-type]


def streamed(path: Path, inputs: int) -> str:
    """Return the arena in bytes with a streamed input, or a dash where no input can be streamed."""
    try:
        return f"{rewrite(path, inputs, input_mode='streamed').after.arena_bytes:,}"
    except LimitError:
        return "-"


def row(path: Path, inputs: int) -> str:
    """Return one line of the table."""
    plain = rewrite(path, inputs, passes=("reorder", "plan"))
    fused = rewrite(path, inputs)
    proof = f"{fused.verified.inputs} inputs" if fused.verified else "not loadable by TFLM"
    return (
        f"| {path.stem} | {fused.before.arena_bytes:,} | {plain.after.arena_bytes:,} | {fused.after.arena_bytes:,} "
        f"| {streamed(path, inputs)} | {proof} |"
    )


def main() -> None:
    """Print the table, or write it into README.md with --write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path, help="models to measure")
    parser.add_argument("--inputs", type=int, default=16, help="inputs to verify each row on")
    parser.add_argument("--write", action="store_true", help="replace the table in README.md")
    options = parser.parse_args()
    if not tflm.available():
        parser.error("this needs the runtime: pip install .[verify]")
    beside = (ROOT.parent / "shared" / "models" / f"{name}.tflite" for name in MODELS)
    models = options.models or [SAMPLE_MODEL, *(path for path in beside if path.exists())]
    lines = [
        "| arena to allocate, in bytes | TFLM today | reordered and planned | fused, no more work "
        "| and the input streamed | same bytes on |",
        "|---|---:|---:|---:|---:|---|",
        *(row(path, options.inputs) for path in models),
    ]
    table = "\n".join(lines)
    print(table)
    if options.write:
        write_part("table", f"{table}\n")


if __name__ == "__main__":
    main()
