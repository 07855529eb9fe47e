#!/usr/bin/env python3
"""Test exports of whole models: bench_exports.py [MODEL ...] [--target NAME] [--json] [--results FILE] [--write].

Every model (default: the bundled sample and those of ``shared/models`` beside the project) is rewritten by default and
exported in every format. Printed is the arena that each declares for the runtime and kernels of its format, or why the
format does not support the model. Plain C is compiled for every emulated core, with another main program, and run on
one input: outputs are compared with the original's in TensorFlow Lite Micro on this machine; arenas of all small sizes
from 0 bytes on, and of sizes just below the declared one, must be refused, and so must changed bits of options and
constants. Formats with TFLM are written, not run. ``--results`` reads those that ``--json`` printed before, because all
models on all cores take an hour. Exit codes: 0 every possible export is right, 1 an export is wrong, 2 bad usage or
a tool is missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import tflite_fuse
from scripts.bench_device import SHARED_MODELS
from scripts.mains import chosen_targets
from scripts.readme import README, write_part
from tests.device.folders import run_folder
from tests.device.targets import TARGETS, Target
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.export import export_model
from tflite_fuse.export.package import FORMATS
from tflite_fuse.memory.tflm.runtimes import runtime_for
from tflite_fuse.model import load_model
from tflite_fuse.model.outside import outside_inputs
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs

PAGE = README.parent / "arduino" / "README.md"
CHANGES = 200
SHOWN = tuple(format for format in FORMATS if format not in ("zephyr", "esphome"))
"""An application for Zephyr has the C of the plain folder, and ESPHome takes models of microWakeWord alone."""


@dataclass(frozen=True)
class Exported:
    """One model in one format: the arena it declares, or why there is no such export."""

    model: str
    format: str
    arena_bytes: int | None
    reason: str = ""


@dataclass(frozen=True)
class Tried:
    """A folder of plain C on one core. ``fault``: what was wrong, empty if nothing."""

    model: str
    target: str
    fault: str


def exports(name: str, model: bytes, folder: Path) -> Iterator[Exported]:
    """Export the model in every format, each into a folder of that name."""
    for format in SHOWN:
        try:
            yield Exported(name, format, export_model(model, folder / format, format).arena_bytes)
        except TfliteFuseError as error:
            yield Exported(name, format, None, str(error))


def try_folder(name: str, original: Path, rewritten: bytes, folder: Path, targets: Sequence[Target]) -> Iterator[Tried]:
    """Run a folder of plain C on each core."""
    samples = generate_inputs(load_model(original), 1)
    expected = [
        [np.asarray(output).tobytes() for output in outputs]
        for outputs in tflm.run(original.read_bytes(), samples).outputs
    ]
    for target in targets:
        print(f"{name} on {target.name} ...", file=sys.stderr, flush=True)
        try:
            found = run_folder(target, folder, samples, outside_inputs(load_model(rewritten)), CHANGES)
        except RuntimeError as error:
            yield Tried(name, target.name, str(error).splitlines()[0])
            continue
        faults = [
            *(["other outputs"] if found.outputs != expected else []),
            *([f"{found.small[0] - found.small[1]} small arenas taken"] if found.small[0] != found.small[1] else []),
            *([f"{CHANGES - found.changed[1]} changes not seen"] if found.changed[1] != CHANGES else []),
        ]
        yield Tried(name, target.name, ", ".join(faults))


def as_markdown(found: Sequence[Exported], tried: Sequence[Tried]) -> str:
    """Return arenas by format, and the cores that plain C was run on: all of them only where it was all of them."""
    names = ["c", *(format for format in SHOWN if format != "c")]
    heads = ["plain C", *(f"{format}: {runtime_for(format)}" for format in names[1:])]
    lines = [
        f"| arena declared, bytes | {' | '.join(heads)} | plain C was run, outputs equal |",
        "|---|" + "---:|" * len(names) + "---|",
    ]
    for model in dict.fromkeys(entry.model for entry in found):
        arenas = {entry.format: entry.arena_bytes for entry in found if entry.model == model}
        cells = [f"{arenas[name]:,}" if arenas[name] is not None else "–" for name in names]
        runs = [entry for entry in tried if entry.model == model]
        bad = [f"{run.target}: {run.fault}" for run in runs if run.fault]
        good = [run.target for run in runs if not run.fault]
        said = "all cores" if runs and set(good) == set(TARGETS) else ", ".join(good)
        lines.append(f"| {model} | {' | '.join(cells)} | {'; '.join([*([said] if said else []), *bad]) or '–'} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Export, run and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="a .tflite file")
    parser.add_argument("--target", action="append", default=[], metavar="NAME", help="an emulated core; default all")
    parser.add_argument("--results", type=Path, metavar="FILE", help="what --json printed before, instead of running")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write", action="store_true", help="replace the table in arduino/README.md")
    options = parser.parse_args(arguments)
    found: list[Exported] = []
    tried: list[Tried] = []
    try:
        targets = chosen_targets(options.target)
        if options.results is not None:
            results = json.loads(options.results.read_text())
            found, tried = (
                [Exported(**each) for each in results["exports"]],
                [Tried(**each) for each in results["runs"]],
            )
        for path in (
            []
            if options.results is not None
            else options.models or [Path(SAMPLE_MODEL), *sorted(SHARED_MODELS.glob("*.tflite"))]
        ):
            rewritten = tflite_fuse.rewrite(path, verify=False).model
            with tempfile.TemporaryDirectory() as name:
                here = list(exports(path.stem, rewritten, Path(name)))
                found += here
                if any(entry.format == "c" and entry.arena_bytes is not None for entry in here):
                    tried += try_folder(path.stem, path, rewritten, Path(name) / "c", targets)
    except (TfliteFuseError, OSError, ValueError, KeyError, TypeError) as error:
        print(f"bench_exports: {error}", file=sys.stderr)
        return 2
    text = as_markdown(found, tried)
    if options.write:
        write_part("exports", f"{text}\n", PAGE)
    if options.json:
        print(json.dumps({"exports": [asdict(e) for e in found], "runs": [asdict(e) for e in tried]}, indent=2))
    else:
        print(text)
        for entry in found:
            if entry.reason:
                print(f"{entry.model}, {entry.format}: {entry.reason}")
    return 1 if any(run.fault for run in tried) else 0


if __name__ == "__main__":
    sys.exit(main())
