#!/usr/bin/env python3
"""Streaming models before and after: bench_streams.py MODEL ... [--steps N] [--target NAME] [--json].

Both models run the same steps in TensorFlow Lite Micro on this machine, one interpreter each, with a reset in the
middle, and every byte of every step is compared. Where the rewritten one consists of blocks alone it runs on emulated
microcontrollers as well: instructions of a step, the mean of the last ones. Exit codes: 0 done, 1 an output differs,
2 bad usage.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

import tflite_fuse
from scripts.bench_device import chosen_targets
from tests.device.program import program_of
from tests.device.targets import Target, build, execute
from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.model import load_model
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.runtime import tflm

Array = npt.NDArray[np.int8]

DEVICE_STEPS = 12
"""Steps run in an emulator; the second half counts."""


@dataclass(frozen=True)
class Result:
    """One model.

    Attributes:
        arena_before, arena_after: bytes on a 32-bit target, head and tail, state included.
        state: bytes that outlive a step after the rewrite.
        operators_before, operators_after: how many.
        steps: compared.
        different: steps with another output.
        outputs: different outputs among them: few say little.
        instructions: of a step, by target.
    """

    model: str
    arena_before: int
    arena_after: int
    state: int
    operators_before: int
    operators_after: int
    steps: int
    different: int
    outputs: int
    instructions: dict[str, int]


def random_steps(model: Model, count: int) -> list[list[Array]]:
    """Random values, every third step loud ones around another mean."""
    rng = np.random.default_rng(1)
    dims = [model.main.tensors[tensor].dims for tensor in model.main.inputs]
    return [
        [
            np.clip(rng.normal(-60, 50, each), -128, 127).astype(np.int8)
            if step % 3 == 0
            else rng.integers(-128, 128, each).astype(np.int8)
            for each in dims
        ]
        for step in range(count)
    ]


def outputs_of(data: bytes, steps: Sequence[Sequence[Array]]) -> list[bytes]:
    """What a model answers to each step; the runtime is reset before the one in the middle."""
    with tflm.session(data) as loaded:
        found = [loaded.infer(arrays, (), reset=step == len(steps) // 2) for step, arrays in enumerate(steps)]
    return [b"".join(array.tobytes() for array in arrays) for arrays in found]


def measure(path: Path, targets: Sequence[Target], steps: int) -> Result:
    """Rewrites a model and compares. Raises TfliteFuseError."""
    data = path.read_bytes()
    model, done = load_model(data), tflite_fuse.rewrite(data, verify=False)
    rewritten = load_model(done.model)
    fed = random_steps(model, steps)
    before, after = outputs_of(data, fed), outputs_of(done.model, fed)
    return Result(
        model=path.stem,
        arena_before=done.report.before.arena_bytes,
        arena_after=done.report.after.arena_bytes,
        state=sum(tensor_nbytes(tensor) for tensor in rewritten.main.tensors if tensor.is_variable),
        operators_before=sum(len(graph.operators) for graph in model.subgraphs[:1]),
        operators_after=len(rewritten.main.operators),
        steps=steps,
        different=sum(a != b for a, b in zip(before, after, strict=True)),
        outputs=len(set(before)),
        instructions={target.name: on_device(rewritten, target, fed[:DEVICE_STEPS], before) for target in targets},
    )


def on_device(model: Model, target: Target, steps: Sequence[Sequence[Array]], wanted: Sequence[bytes]) -> int:
    """Instructions of a step. Raises ValueError: an operator is no block, or an output is another one."""
    program = program_of(model)
    with tempfile.TemporaryDirectory() as folder:
        report = execute(target, build(target, program, steps, Path(folder), "-O2"), program)
    for answers, expected in zip(report.outputs, wanted, strict=False):
        if b"".join(np.asarray(each).tobytes() for each in answers) != expected:
            raise ValueError(f"{target.name} gives another output than TensorFlow Lite Micro")
    late = report.instructions[len(report.instructions) // 2 :]
    return round(sum(sum(blocks) for blocks in late) / len(late))


def as_table(results: Sequence[Result], targets: Sequence[Target]) -> Table:
    """One row each."""
    table = Table(title="streaming models", title_justify="left")
    names = [f"instructions, {target.name}" for target in targets]
    for column in ("model", "arena before", "after", "ratio", "of it state", "operators", "steps", "differ", *names):
        table.add_column(column, justify="left" if column == "model" else "right")
    for each in results:
        ratio = f"{each.arena_before / each.arena_after:.2f}"
        counts = f"{each.operators_before} -> {each.operators_after}", f"{each.steps:,}", str(each.different)
        sizes = f"{each.arena_before:,}", f"{each.arena_after:,}", ratio, f"{each.state:,}"
        table.add_row(each.model, *sizes, *counts, *(f"{count:,}" for count in each.instructions.values()))
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="a .tflite file")
    parser.add_argument("--steps", type=int, default=1000, help="steps to compare (default 1000)")
    parser.add_argument("--target", action="append", default=[], metavar="NAME", help="a core to count on")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        targets = chosen_targets(options.target) if options.target else []
        results = [measure(path, targets, max(options.steps, 2)) for path in options.models]
    except (TfliteFuseError, OSError, ValueError) as error:
        print(f"bench_streams: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 180).print(as_table(results, targets))
    return 1 if any(result.different for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
