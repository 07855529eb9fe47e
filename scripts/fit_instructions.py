#!/usr/bin/env python3
"""Fit the costs of instructions per target: fit_instructions.py [MODEL ...] [--target NAME] [--json] [--write].

Every model (default: the bundled sample, small generated networks, and the models of ``shared/models`` beside the
project) is run as ``tflite-fuse rewrite`` writes it, in the least RAM without recompute, and with every operator as a
block of its own in runs of several lengths. Costs are fitted to all blocks of emulated runs. Then each model is left
out in turn: the prediction of costs fitted to the others is printed beside its count. ``--write`` stores the costs for
``--cost instructions``. ``--new`` keeps known costs and fits only those of new counts, from models with the newest
kinds of stages: a few minutes. ``--keep`` keeps the named costs, of kernels that did not change and that few of the
models use. ``--cycles`` does all of this in cycles of the cores with a timing model (``scripts/timing``), for ``--cost
cycles``, from fewer programs; counts that none of these contains are priced in proportion to their instructions.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.bench_device import SHARED_MODELS
from scripts.mains import chosen_targets, in_one_sentence
from scripts.timing.blocks import of_blocks
from scripts.timing.chips import CHIPS
from scripts.zoo import networks
from scripts.zoo.float_twin import float_twin, with_float16_weights
from tests.device.program import fusable_core, program_of
from tests.device.targets import Target, build, execute
from tests.runtime.fused_models import fuse
from tflite_fuse import Goal
from tflite_fuse.cost.instructions import (
    COSTS_FILE,
    COUNTS,
    CYCLES_FILE,
    PredictionError,
    block_counts,
    kernels_of,
    predicted_instructions,
)
from tflite_fuse.cost.instructions import Target as PredictedTarget
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.errors import UsageError
from tflite_fuse.ir.block import BlockConfig
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.runtime.inputs import generate_inputs

_VIEWS = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})

_WAYS = (
    ("default", None, "8bit"),
    ("least RAM", Goal(max_compute=1.0), "8bit"),
    ("pairs", None, "paired"),
    ("16 bits", None, "16bit"),
)

_RUNS = (1, 2, 3, 8)

_FEWER_WAYS, _FEWER_RUNS = (_WAYS[0], _WAYS[2]), (1, 4)
"""Of cycles, which take longer to count."""

_ALIKE = (
    *("one dimension 2", "larger once more", "gated 17", "residuals 16", "wide", "float cells", "float wide"),
    *("float bilinear neck", "cells", "larger again", "float gates"),
)
"""Networks that do little that the others do not, left out of what is counted in cycles."""

_LARGE = 0.1
"""Power of its instructions by which the error of a block counts: models are mostly made of their large blocks."""

_FLOATS_OF = {"xtensa-lx106": "rv32imc"}
"""Cores whose tools have no functions for floats, and one without instructions for them whose costs stand in."""

_WHOLE = 1 << 15
"""Height and width of tiles that hold any of these tensors."""


@dataclass(frozen=True)
class Program:
    """One model as blocks. ``way``: how it was rewritten, empty for operators that are blocks of their own."""

    model: str
    way: str
    data: Model
    core: Model


@dataclass(frozen=True)
class Measured:
    """A program, what each block does and the instructions it took on one target."""

    program: Program
    counts: tuple[dict[str, int], ...]
    instructions: tuple[int, ...]


def programs(name: str, model: Model, fewer: bool = False) -> Iterator[Program]:
    """Yield the rewritten model, and the model with one block per operator."""
    core = fusable_core(model)
    data = serialize_model(core)
    ways, runs = (_FEWER_WAYS, _FEWER_RUNS) if fewer else (_WAYS, _RUNS)
    found = [(way, tflite_fuse.rewrite(data, goal=goal, weights=bits, verify=False).model) for way, goal, bits in ways]
    found += [("", _apart(core, chunk)) for chunk in runs]
    seen = set[bytes]()
    for way, data in found:
        if data in seen:  # its weights have one form
            continue
        seen.add(data)
        program = Program(name, way, load_model(data), core)
        if len(blocks_in(program.data)) == len(program.data.main.operators):
            yield program


def _apart(core: Model, chunk: int) -> bytes:
    """Return a model with every operator as a block of its own, in runs of ``chunk`` pixels."""
    apart = serialize_model(core)
    together: list[int] = []
    for index in reversed(range(len(core.main.operators))):
        together.append(index)
        if operator_name(core, core.main.operators[index]) not in _VIEWS:  # which are no blocks on their own
            apart = fuse(apart, together, BlockConfig(_WHOLE, _WHOLE, chunk))
            together = []
    return apart


def measure(program: Program, target: Target, cycles: bool = False) -> Measured:
    """Run a program once; ``instructions`` are cycles of the timing model if these are meant."""
    built, kernels = program_of(program.data), kernels_of(target.name)
    counts = tuple(block_counts(found.block, found.schedule, kernels) for found in blocks_in(program.data).values())
    with tempfile.TemporaryDirectory() as folder:
        elf = build(target, built, generate_inputs(program.core, 1), Path(folder), "-O2")
        if cycles:
            return Measured(
                program, counts, tuple(round(each.cycles.total) for each in of_blocks(target, elf, len(counts)))
            )
        return Measured(program, counts, tuple(execute(target, elf, built).instructions[0]))


def fit_costs(
    counts: Sequence[Mapping[str, int]], instructions: Sequence[int], known: Mapping[str, float] = MappingProxyType({})
) -> dict[str, float]:
    """Return costs of 0 or more that minimize the squares of relative errors.

    Args:
        counts: of blocks that were run.
        instructions: what each took, > 0.
        known: costs that stay as they are.

    Raises:
        UsageError: there are no runs, or one took no instructions.
    """
    if not counts or min(instructions, default=0) <= 0:
        raise UsageError("costs are fitted from runs that took instructions, and there are none")
    names, took = [name for name in COUNTS if name not in known], np.array(instructions, dtype=np.float64)
    weight = took ** (_LARGE - 1)
    scaled = np.array([[row[name] for name in names] for row in counts], dtype=np.float64) * weight[:, None]
    left = took - np.array([sum(row[name] * cost for name, cost in known.items()) for row in counts])
    # Columns of equal length: counts are of magnitudes that differ by thousands.
    length = np.maximum(np.linalg.norm(scaled, axis=0), np.finfo(float).tiny)
    costs, _ = nnls(scaled / length, left * weight)
    return dict(known) | dict(zip(names, (costs / length).tolist(), strict=True))


def fitted(runs: Sequence[Measured], known: Mapping[str, float] = MappingProxyType({})) -> dict[str, float]:
    """Return costs fitted to all blocks of some runs."""
    rows = [row for run in runs for row in run.counts]
    return fit_costs(rows, [count for run in runs for count in run.instructions], known)


def left_out(runs: Sequence[Measured], known: Mapping[str, float] = MappingProxyType({})) -> list[tuple[str, int, int]]:
    """Return (model, instructions, what the others' costs predict) of every rewritten model."""
    found = []
    for run in runs:
        if run.program.way:
            costs = fitted([other for other in runs if other.program.model != run.program.model], known)
            predicted = sum(predicted_instructions(counts, costs) for counts in run.counts)
            found.append((f"{run.program.model}, {run.program.way}", sum(run.instructions), predicted))
    return found


@in_one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Fit and print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[1], formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="a .tflite file; three at least")
    known = sorted({target.core for target in PredictedTarget})
    parser.add_argument(
        "--target", action="append", metavar="NAME", help=f"an emulated core; default {', '.join(known)}"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write", action="store_true", help="keep the costs for rewrite and pareto")
    parser.add_argument(
        "--keep", action="append", default=[], metavar="COUNT", help="counts whose costs stay as they are"
    )
    parser.add_argument("--new", action="store_true", help="fit the costs that are not known yet, keep the others")
    parser.add_argument("--cycles", action="store_true", help="fit cycles of cores with a timing model")
    options = parser.parse_args(arguments)
    file = CYCLES_FILE if options.cycles else COSTS_FILE
    known = sorted(CHIPS) if options.cycles else known
    models = {path.stem: load_model(path) for path in options.models or _known_models()}
    if not options.models:
        models = _generated_new() if options.new else models | _generated()
    if not options.models and options.cycles:
        models = {name: model for name, model in models.items() if name not in _ALIKE}
    made = [program for name, model in models.items() for program in programs(name, model, options.cycles)]
    results: dict[str, dict[str, Any]] = {}
    for target in chosen_targets(options.target or known):
        costs = _known_costs(file, target.name)
        costs = {name: cost for name, cost in costs.items() if options.new or name in options.keep}
        if target.name in _FLOATS_OF:
            other = _FLOATS_OF[target.name]
            floats = results[other]["costs"] if other in results else _known_costs(file, other)
            costs |= {name: cost for name, cost in floats.items() if name.startswith("float ")}
        here = [each for each in made if target.name not in _FLOATS_OF or not _has_floats(each)]
        runs = [measure(program, target, options.cycles) for program in here]
        if options.cycles:
            costs = _in_proportion(target.name, runs) | costs
        results[target.name] = {"costs": fitted(runs, costs) if runs else costs, "left_out": left_out(runs, costs)}
    if options.write:
        kept = _kept(file)
        for name, found in results.items():
            kept[name] = {"costs": found["costs"], "error": asdict(_error(found["left_out"]))} | (
                {"error": kept[name]["error"]} if options.new else {}
            )
        file.write_text(json.dumps(kept, indent=2) + "\n")
    print(
        json.dumps(results, indent=2)
        if options.json
        else _text(results, "cycles" if options.cycles else "instructions")
    )
    return 0


def _known_models() -> list[Path]:
    return [Path(SAMPLE_MODEL), *sorted(SHARED_MODELS.glob("mlperf*.tflite")), *sorted(SHARED_MODELS.glob("tflm*"))]


def _generated() -> dict[str, Model]:
    return {
        "inverted residuals": networks.inverted_residual_network(size=24, blocks=3),
        "cells": networks.cell_network(size=24),
        "one dimension": networks.one_dimensional_network(),
        "pyramid": networks.pyramid_network(size=24),
        "one column": networks.one_dimensional_network(length=96, channels=24, along_rows=True),
        "one dimension 2": networks.one_dimensional_network(length=128, channels=32),
        "larger again": networks.u_network(size=16, channels=(8, 12)),
        "larger once more": networks.u_network(size=24, channels=(16, 24)),
        "a neck": networks.neck_network(size=32, bilinear=True),
        "wide": networks.wide_network(),
        **{f"gated {size}": networks.gated_network(size, channels) for size, channels in ((24, 8), (17, 12))},
        "residuals 16": networks.inverted_residual_network(size=16, blocks=2),
        "wide 16": networks.wide_network(),
        **_generated_new(),
    }


def _generated_new() -> dict[str, Model]:
    """Return networks of the kinds of stages that came last: their counts are fitted with ``--new``."""
    found = {
        "residuals": networks.inverted_residual_network(size=16, blocks=2),
        "cells": networks.cell_network(size=16),
        "one dimension": networks.one_dimensional_network(),
        "wide": networks.wide_network(),
        "branches": networks.branching_network(),
        "gates": networks.gated_network(16, 8),
        "neck": networks.neck_network(size=32),
        "bilinear neck": networks.neck_network(size=32, bilinear=True),
    }
    twins = {f"float {name}": float_twin(model) for name, model in found.items()}
    narrow = ((64, 48, 5, 48, 30), (100, 33, 10), (32, 64, 64, 3))
    dense = {f"float16 {layers}": float_twin(networks.dense_network(layers)) for layers in narrow}
    return twins | {name: with_float16_weights(model) for name, model in dense.items()}


def _in_proportion(target: str, runs: Sequence[Measured]) -> dict[str, float]:
    """Return cycles per count of no program: its instructions, times cycles per instruction of the programs."""
    rows, known = [row for run in runs for row in run.counts], _known_costs(COSTS_FILE, target)
    seen = {name for row in rows for name, count in row.items() if count}
    ratio = sum(sum(run.instructions) for run in runs) / sum(predicted_instructions(row, known) for row in rows)
    return {name: cost * ratio for name, cost in known.items() if name not in seen}


def _has_floats(program: Program) -> bool:
    return any(tensor.is_real for found in blocks_in(program.data).values() for tensor in found.block.tensors)


def _kept(file: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return kept


def _known_costs(file: Path, target: str) -> dict[str, float]:
    known: dict[str, Any] = _kept(file).get(target, {"costs": {}})
    return {name: cost for name, cost in known["costs"].items() if name in COUNTS}


def _error(left_out: Sequence[tuple[str, int, int]]) -> PredictionError:
    errors = [abs(said / took - 1) for _, took, said in left_out] or [0.0]
    return PredictionError(sum(errors) / len(errors), max(errors))


def _text(results: dict[str, dict[str, Any]], unit: str) -> str:
    lines = []
    for target, found in results.items():
        lines.append(f"{target}: {unit} per count")
        costs, rows = found["costs"], found["left_out"]
        assert isinstance(costs, dict) and isinstance(rows, list)
        lines += [f"  {name:20} {cost:9.2f}" for name, cost in costs.items()]
        lines.append(f"  left out                                  {unit:>12}    predicted    error")
        lines += [f"  {name:42.42} {took:12,} {said:12,} {said / took - 1:+8.1%}" for name, took, said in rows]
        error = _error(rows)
        lines.append(f"  mean error {error.mean:.1%}, largest {error.largest:.1%}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
