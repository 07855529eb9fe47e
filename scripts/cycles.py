#!/usr/bin/env python3
"""Cycles per inference by timing models of the cores: cycles.py [MODEL ...] [--target NAME] [--elf FILE --mark NAME].

Every model (default: the bundled sample) is rewritten as by ``tflite-fuse rewrite --target`` for each core. QEMU runs
its blocks with a plugin that counts how often each piece of code follows another, and the cache lines missed; a model
of the core's pipeline converts the counts to cycles. docs/time.md describes their accuracy. ``--elf`` counts any
program for the emulated board: from each call of its function ``--mark`` to the next. ``--pairs`` prints the published
cycles that the models are compared with. Exit codes: 0 done, 2 bad usage or a tool missing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.bench_device import SHARED_MODELS, known_as
from scripts.mains import chosen_targets, in_one_sentence
from scripts.readme import write_part
from scripts.timing.blocks import Counted, of_blocks, of_program
from scripts.timing.chips import CHIPS
from tests.device.program import fusable_core, program_of
from tests.device.targets import Target, build
from tflite_fuse.boards.time import known_pairs, modelled_error
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.errors import UsageError
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.runtime.inputs import generate_inputs

CMSIS_NN = {
    "cortex-m4": {
        "mlperf_tiny_dscnn_kws_int8": 10.96,
        "mlperf_tiny_resnet8_int8": 41.09,
        "mlperf_tiny_vww96_int8": 35.37,
        "tflm_person_detect_int8": 33.10,
        "mcunet_vww1_float_io_int8": 71.15,
        "mlperf_tiny_wakeword1d_int8": 3.32,
    },
    "cortex-m7": {
        "mlperf_tiny_dscnn_kws_int8": 5.72,
        "mlperf_tiny_resnet8_int8": 24.68,
        "mlperf_tiny_vww96_int8": 18.53,
        "tflm_person_detect_int8": 17.51,
        "mcunet_vww1_float_io_int8": 39.48,
        "mlperf_tiny_wakeword1d_int8": 1.66,
    },
}
"""Millions of cycles of whole unfused models in TFLM with CMSIS-NN (-O2), counted once and modelled in the same way.
The DEQUANTIZE at the end of vww1, which no block can hold, is in these figures and not in this library's."""

PAGE = Path(__file__).resolve().parents[1] / "docs" / "time.md"


@dataclass(frozen=True)
class Row:
    """One model, or one part of a program, on one core.

    Attributes:
        what: the model, or the number of the part.
        instructions: counted.
        core, branches, memory: cycles of instructions where nothing waits, of branches that were not expected, of
            waiting for the memory.
    """

    target: str
    what: str
    instructions: int
    core: float
    branches: float
    memory: float

    @property
    def cycles(self) -> float:
        return self.core + self.branches + self.memory


def of_model(path: Path, target: Target) -> Row:
    """Return the cycles of a model after the default rewrite for a core."""
    core = fusable_core(load_model(path))
    rewritten = tflite_fuse.rewrite(serialize_model(core), target=known_as(target).value, verify=False).model
    program = program_of(load_model(rewritten))
    with tempfile.TemporaryDirectory() as folder:
        elf = build(target, program, generate_inputs(core, 2), Path(folder), "-O2")
        return _row(target.name, path.stem, of_blocks(target, elf, len(program.steps), runs=2))


def of_elf(elf: Path, target: Target, mark: str) -> Iterator[Row]:
    """Yield the cycles of a program between calls of a function."""
    for number, each in enumerate(of_program(target, elf, mark)):
        yield _row(target.name, f"part {number}", [each])


def _row(target: str, what: str, counted: Sequence[Counted]) -> Row:
    cycles = [each.cycles for each in counted]
    return Row(
        target,
        what,
        sum(each.instructions for each in counted),
        sum(each.core for each in cycles),
        sum(each.branches for each in cycles),
        sum(each.memory for each in cycles),
    )


def as_table(rows: Sequence[Row]) -> str:
    """Return a table for a terminal."""
    lines = [f"{'core':12} {'model':32} {'instructions':>14} {'cycles':>14} = core + branches + memory"]
    for row in rows:
        parts = f"{row.core:,.0f} + {row.branches:,.0f} + {row.memory:,.0f}"
        lines.append(f"{row.target:12} {row.what:32.32} {row.instructions:14,} {row.cycles:14,.0f} = {parts}")
    return "\n".join(lines)


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the README's table of cycles beside those of TFLM with CMSIS-NN."""
    lines = ["| million cycles per inference, modelled | this library | TFLM + CMSIS-NN | model's error |"]
    lines.append("|---|---:|---:|---|")
    for row in rows:
        peer, error = CMSIS_NN.get(row.target, {}).get(row.what), modelled_error(row.target)
        off = "uncalibrated" if error is None else f"{error.mean:.0%}, at most {error.largest:.0%}"
        figure = "-" if peer is None else f"{peer:.1f}"
        lines.append(f"| {row.what}, {row.target} | {row.cycles / 1e6:.1f} | {figure} | {off} |")
    return "\n".join(lines) + "\n"


def pairs_as_markdown() -> str:
    """Return modelled beside published cycles, and the error of each core."""
    lines = [
        "| core | chip | engine | model | million instructions | million cycles, modelled | measured | error |",
        "|---|---|---|---|---:|---:|---:|---:|",
    ]
    targets = dict.fromkeys(pair.target for pair in known_pairs())
    for pair in known_pairs():
        if pair.modelled is None:
            continue
        figures = [f"{value / 1e6:.3f}" for value in (pair.instructions, pair.modelled, pair.cycles)]
        error = f"{pair.modelled / pair.cycles - 1:+.0%}"
        lines.append(f"| {' | '.join([pair.target, pair.device, pair.engine, pair.model, *figures, error])} |")
    for target in targets:
        if (error := modelled_error(target)) is not None:
            lines.append(f"\n{target}: off by {error.mean:.0%} on average, {error.largest:.0%} at most.")
    return "\n".join(lines) + "\n"


@in_one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Count and print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[1], formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="a .tflite file")
    parser.add_argument("--target", action="append", default=[], metavar="NAME", help=", ".join(CHIPS))
    parser.add_argument("--elf", type=Path, metavar="FILE", help="a program for the emulated board of one target")
    parser.add_argument("--mark", metavar="NAME", help="its function whose calls are the ends of its parts")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--pairs", action="store_true", help="print the published cycles and what the models say")
    parser.add_argument("--write", action="store_true", help="replace the table in README.md, or in docs/time.md")
    options = parser.parse_args(arguments)
    if options.pairs:
        if options.write:
            write_part("pairs", pairs_as_markdown(), PAGE)
        print(pairs_as_markdown(), end="")
        return 0
    rows = list(_rows(options))
    if options.write:
        write_part("cycles", as_markdown(rows))
    print(
        json.dumps([asdict(row) | {"cycles": row.cycles} for row in rows], indent=2) if options.json else as_table(rows)
    )
    return 0


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    if shutil.which("gcc") is None:
        raise UsageError("gcc is missing, which builds the counter of instructions: install it")
    targets = chosen_targets(options.target, CHIPS)
    if options.elf is None:
        peers = [SHARED_MODELS / f"{name}.tflite" for name in CMSIS_NN["cortex-m7"]] if options.write else []
        for path in options.models or peers or [Path(SAMPLE_MODEL)]:
            yield from (of_model(path, target) for target in targets)
        return
    if len(options.target) != 1 or options.mark is None:
        raise UsageError("a program is for one --target, and its parts end at one --mark")
    yield from of_elf(options.elf, targets[0], options.mark)


if __name__ == "__main__":
    sys.exit(main())
