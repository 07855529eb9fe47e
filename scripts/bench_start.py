#!/usr/bin/env python3
"""Stack and start-up on emulated microcontrollers: bench_start.py [MODEL ...] [--target NAME] [--flags FLAGS].

Every model (default: the bundled sample and those of ``shared/models`` beside the project that fit) is rewritten by
default and run bare-metal in QEMU. Printed are the most stack bytes of checking and running a block, found by painting
the stack before each call, and the instructions of checking all blocks, with and without their checksum
(TFLITE_FUSE_NO_CRC). The stack of interrupts and of the library's callers is not included.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from tests.device.program import fusable_core, program_of
from tests.device.targets import TARGETS, Report, Target, build, execute
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.runtime.inputs import generate_inputs

SHARED_MODELS = Path(__file__).resolve().parents[2] / "shared" / "models"
MODELS = ("mlperf_tiny_vww96_int8", "mlperf_tiny_resnet8_int8", "mlperf_tiny_dscnn_kws_int8")


def run(path: Path, target: Target, flags: str) -> Report:
    """Run one inference of a model on a target."""
    core = fusable_core(load_model(path))
    program = program_of(load_model(tflite_fuse.rewrite(serialize_model(core), verify=False).model))
    with tempfile.TemporaryDirectory() as name:
        return execute(target, build(target, program, generate_inputs(core, 1), Path(name), flags), program)


def main() -> None:
    """Print one line for each model and target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = [path for name in MODELS if (path := SHARED_MODELS / f"{name}.tflite").exists()]
    parser.add_argument("models", nargs="*", type=Path, default=[SAMPLE_MODEL, *shared])
    parser.add_argument("--target", action="append", choices=TARGETS, help="may be given several times; default: all")
    parser.add_argument("--flags", default="-O2")
    arguments = parser.parse_args()
    print("| model | core | stack, check | stack, run | instructions to check | of them the checksum |")
    print("|---|---|---:|---:|---:|---:|")
    for path in arguments.models:
        for name in arguments.target or TARGETS:
            target = TARGETS[name]
            if target.missing():
                print(f"| {path.stem} | {name} | not run: {', '.join(target.missing())} is missing |")
                continue
            checked = run(path, target, arguments.flags)
            bare = run(path, target, f"{arguments.flags} -DTFLITE_FUSE_NO_CRC")
            check, deepest = checked.stack
            total, checksum = sum(checked.prepare), sum(checked.prepare) - sum(bare.prepare)
            print(f"| {path.stem} | {name} | {check:,} | {deepest:,} | {total:,} | {checksum:,} |", flush=True)


if __name__ == "__main__":
    main()
