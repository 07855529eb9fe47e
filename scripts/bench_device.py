#!/usr/bin/env python3
"""Instructions per inference on emulated microcontrollers: bench_device.py [MODEL ...] [--target NAME] [--json].

Every model (default: those of ``shared/models`` beside the project that have published figures, and the bundled sample)
is rewritten as by ``tflite-fuse rewrite --target`` for each core, without recompute. Its blocks run bare-metal in QEMU,
which counts every instruction as one; outputs are compared with the unfused model's in TensorFlow Lite Micro on this
machine. Operators at the ends that no block can hold (the DEQUANTIZE of vww1) are not counted for us. For models with
variables, such as wake words, the mean over ``--inputs`` time steps is counted. Exit codes: 0 done, 1 an output
differs, 2 bad usage or a tool is missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from rich.console import Console
from rich.table import Table

import tflite_fuse
from scripts.mains import chosen_targets, in_one_sentence
from scripts.readme import write_part
from tests.device.program import fusable_core, program_of
from tests.device.targets import TARGETS, Report, Target, build, execute, library_size
from tflite_fuse.cost.instructions import Target as PredictedTarget
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.passes.streaming.rings import find_variables
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs

SHARED_MODELS = Path(__file__).resolve().parents[2] / "shared" / "models"


CMSIS_NN, ESP_NN, REFERENCE = "TFLM + CMSIS-NN", "TFLM + ESP-NN (generic C)", "TFLM reference kernels"
PEERS: dict[str, dict[str, dict[str, float]]] = {
    "cortex-m7": {
        "mlperf_tiny_vww96_int8": {REFERENCE: 103.2, CMSIS_NN: 24.0},
        "tflm_person_detect_int8": {REFERENCE: 98.6, CMSIS_NN: 22.7},
        "mlperf_tiny_resnet8_int8": {REFERENCE: 109.4, CMSIS_NN: 30.0},
        "mcunet_vww1_float_io_int8": {REFERENCE: 195.0, CMSIS_NN: 47.8, "TinyEngine": 33.5},
        "mlperf_tiny_dscnn_kws_int8": {REFERENCE: 44.2, CMSIS_NN: 7.65},
    },
    "rv32imc": {
        "mlperf_tiny_vww96_int8": {REFERENCE: 109.9, ESP_NN: 65.3},
        "tflm_person_detect_int8": {REFERENCE: 105.2, ESP_NN: 58.7},
        "mlperf_tiny_resnet8_int8": {REFERENCE: 125.5, ESP_NN: 96.4},
        "mcunet_vww1_float_io_int8": {REFERENCE: 199.6, ESP_NN: 111.3},
        "mlperf_tiny_dscnn_kws_int8": {REFERENCE: 44.3, ESP_NN: 25.8},
    },
}
"""Millions of instructions of whole unfused models, counted once in the same emulators (-O2; TinyEngine -O3 with
floating-point requantization). This script does not measure them again."""


@dataclass(frozen=True)
class Run:
    """One model on one target.

    Attributes:
        instructions: of one inference, the mean over the inputs.
        blocks: the same of each block in execution order.
        head_bytes: of the rewritten model's arena, as TFLM reports it.
        bit_exact: whether all outputs were TFLM's, with a streamed input, too.
        streamed: instructions of the default rewrite with a streamed input, its pixels copied from a picture in
            memory, over those of this one; None where no input can be streamed.
    """

    target: str
    model: str
    instructions: int
    blocks: tuple[int, ...]
    head_bytes: int
    bit_exact: bool
    streamed: float | None


def measure(path: Path, targets: Sequence[Target], inputs: int, flags: str) -> Iterator[Run]:
    """Yield the counts of one model on several targets."""
    model = load_model(path)
    core = model if find_variables(model) else fusable_core(model)
    samples = generate_inputs(core, inputs)
    with tflm.session(serialize_model(core)) as loaded:
        answers = [loaded.infer(arrays, (), reset=number == 0) for number, arrays in enumerate(samples)]
    expected = [[np.asarray(output).tobytes() for output in outputs] for outputs in answers]
    for target in targets:
        known = known_as(target)
        result = tflite_fuse.rewrite(serialize_model(core), target=known.value, verify=False)
        head = tflm.measure(result.model).head_bytes
        streamed = in_streams(serialize_model(core), known)
        print(f"{path.stem} on {target.name} ...", file=sys.stderr, flush=True)
        report = on_core(target, result.model, samples, flags)
        blocks = tuple(round(sum(counts) / inputs) for counts in zip(*report.instructions, strict=True))
        exact, slower = report.outputs == expected, None
        if streamed is not None:
            report = on_core(target, streamed, samples, flags)
            exact, slower = exact and report.outputs == expected, report.total / inputs / sum(blocks)
        yield Run(target.name, path.stem, sum(blocks), blocks, head, exact, slower)


def on_core(target: Target, model: bytes, samples: Sequence[Sequence[Any]], flags: str) -> Report:
    """Return the counts of a rewritten model on an emulated core."""
    program = program_of(load_model(model))
    with tempfile.TemporaryDirectory() as name:
        return execute(target, build(target, program, samples, Path(name), flags), program)


def known_as(target: Target) -> PredictedTarget:
    """Return the name of a target on the command line."""
    return next(known for known in PredictedTarget if known.core == target.name)


def in_streams(model: bytes, target: PredictedTarget) -> bytes | None:
    """Return the model rewritten for a streamed input; None if it has none that can be."""
    try:
        return tflite_fuse.rewrite(model, input_mode="streamed", target=target.value, verify=False).model
    except TfliteFuseError:
        return None


def library_bytes(targets: Sequence[Target], flags: str) -> dict[str, int]:
    """Return the bytes of code and constants of the whole library for each target."""
    with tempfile.TemporaryDirectory() as name:
        return {target.name: sum(library_size(target, Path(name), flags).values()) for target in targets}


def as_table(target: str, runs: Sequence[Run]) -> Table:
    """Return a table of all models on one target, with the counts of peers."""
    peers = PEERS.get(target, {})
    names = list(dict.fromkeys(name for run in runs for name in peers.get(run.model, {})))
    table = Table(title=f"{target}: millions of instructions per inference", title_justify="left")
    table.add_column("model", overflow="fold")
    for column in ("this library", *names, "head bytes", "same bytes", "input streamed", "blocks"):
        table.add_column(column, justify="right")
    for run in runs:
        known = peers.get(run.model, {})
        others = (
            f"{known[name]:.1f} (x{known[name] * 1e6 / run.instructions:.2f})" if name in known else "-"
            for name in names
        )
        blocks = " + ".join(f"{count / 1e6:.2f}" for count in run.blocks)
        proof = "yes" if run.bit_exact else "NO"
        table.add_row(
            run.model, f"{run.instructions / 1e6:.2f}", *others, f"{run.head_bytes:,}", proof, _times(run), blocks
        )
    return table


def as_markdown(runs: Sequence[Run]) -> str:
    """Return the README's table of the targets on which peers were counted."""
    lines = [
        "| million instructions per inference | Cortex-M7 | TFLM + CMSIS-NN | RISC-V (rv32imc) | TFLM + ESP-NN "
        "| input streamed: M7, rv32imc |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    found = {(run.target, run.model): run for run in runs}
    for model in dict.fromkeys(run.model for run in runs):
        cells = [model]
        for target, peer in (("cortex-m7", CMSIS_NN), ("rv32imc", ESP_NN)):
            run, known = found.get((target, model)), PEERS[target].get(model, {}).get(peer)
            cells += [f"{run.instructions / 1e6:.1f}" if run else "-", f"{known:.1f}" if known else "-"]
        cells.append(", ".join(_times(found.get((target, model))) for target in ("cortex-m7", "rv32imc")))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _times(run: Run | None) -> str:
    return f"x{run.streamed:.2f}" if run and run.streamed else "-"


@in_one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the counts; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[1], formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="a .tflite file")
    parser.add_argument("--target", action="append", default=[], metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--inputs", type=int, default=2, help="inputs to run and compare (default 2)")
    parser.add_argument("--flags", default="-O2", help="compiler flags (default -O2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write", action="store_true", help="replace the table in README.md")
    options = parser.parse_args(arguments)
    beside = [path for path in sorted(SHARED_MODELS.glob("*.tflite")) if path.stem in PEERS["cortex-m7"]]
    targets = chosen_targets(options.target)
    runs = [
        run
        for path in options.models or [Path(SAMPLE_MODEL), *beside]
        for run in measure(path, targets, max(options.inputs, 1), options.flags)
    ]
    sizes = library_bytes(targets, options.flags)
    if options.write:
        write_part("speed", f"{as_markdown(runs)}\n")
    if options.json:
        print(
            json.dumps(
                {"flags": options.flags, "library_bytes": sizes, "runs": [asdict(run) for run in runs]}, indent=2
            )
        )
    else:
        console = Console(width=None if sys.stdout.isatty() else 160)
        for target in targets:
            console.print(as_table(target.name, [run for run in runs if run.target == target.name]))
            console.print(f"code and constants of the whole library: {sizes[target.name]:,} bytes\n", highlight=False)
    return 0 if all(run.bit_exact for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
