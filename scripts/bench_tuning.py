#!/usr/bin/env python3
"""Gain of each heuristic parameter: bench_tuning.py [--only FIELD] [--model TEXT] [--json].

Each field of ``tflite_fuse.tuning.Tuning`` is switched off in turn (``off`` of its ``rule``); a set of models is
rewritten, its graphs are ordered and placed again, and networks are split over three to twenty workers. A row shows the
increase of arena, predicted instructions and processor time; ``--json`` has every model's. A rule whose row is "same"
and whose processor time is not above 1 can be deleted, unless it limits what notes offer.

The set: the sample, a few small models of ``--data`` (default: the folder ``shared`` beside the project), random
networks of ``bench_small_networks.py``, the order graphs of ``--data``, and harder random tangles. Exit codes: 0 done,
2 bad input.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

from scripts.bench_small_networks import small_network, tiny_network
from scripts.graphs import read_graph, tangle
from scripts.mains import in_one_sentence
from scripts.sweep_split import NAMED, equal
from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.ir.program import Program
from tflite_fuse.memory.budget import WORK, Budget
from tflite_fuse.memory.order.least_peak import minimal_peak_order
from tflite_fuse.memory.place.portfolio import place, rounded
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.outside import InputMode
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import MetricsOptions, RewriteOptions
from tflite_fuse.pipelines.metrics import model_metrics
from tflite_fuse.rewriting.rewrite import rewrite_model
from tflite_fuse.split.splitting import SplitOptions, split_model
from tflite_fuse.tuning import TUNING, Tuning

SAMPLE = Path(__file__).resolve().parents[1] / "tflite_fuse" / "data" / "sample_shapes_int8.tflite"
SHARED = (
    "models/mlperf_tiny_dscnn_kws_int8",
    "models/mlperf_tiny_resnet8_int8",
    "models/mlperf_tiny_wakeword1d_int8",
    "real/gesture_tcn_int8",
    "cases/heads_order_a",
)
SEEDS = (1, 7, 39)
TINY_SEEDS = (19, 24, 8010)
GRAPH_WORK = WORK // 50
GOALS = {
    "": RewriteOptions(),
    ", least RAM": RewriteOptions(goal=Goal(least_ram=True)),
    ", streamed": RewriteOptions(input_mode=InputMode.STREAMED),
    ", 1.1 of the instructions": RewriteOptions(goal=Goal(max_compute=1.1), target=Target.CORTEX_M7),
}

SOME = (
    ("models/mlperf_tiny_dscnn_kws_int8", ", stream of windows", RewriteOptions(stream_time=2)),
    ("models/mlperf_tiny_dscnn_kws_int8", ", Cortex-M4", RewriteOptions(target=Target.CORTEX_M4)),
    ("models/mcunet_vww1_float_io_int8", "", RewriteOptions()),
)
"""A model for each rule that has no effect on the others: slack_calls, slack_cycles, slack."""

PREDICTED = "models/swiftnet_vww224_uint8"
"""A model whose metrics are predicted; quick_order has no effect on the others."""

Run = Callable[[Tuning], tuple[int, float]]
"""Arena in bytes and predicted instructions (0 for none) under these rules."""


@dataclass(frozen=True)
class Figure:
    """What one model takes: bytes, instructions, seconds of processor time."""

    arena: int
    instructions: float
    seconds: float


@dataclass(frozen=True)
class Row:
    """One model under one rule switched off, and under all rules."""

    field: str
    model: str
    off: Figure
    on: Figure


def runs(data: Path) -> Iterator[tuple[str, Run]]:
    """Yield the models and options of the set by name."""
    files = [SAMPLE, *(path for name in SHARED if (path := data / f"{name}.tflite").exists())]
    contents = [(path.stem, path.read_bytes()) for path in files]
    contents += [(f"network {seed}", serialize_model(small_network(Random(seed).randint))) for seed in SEEDS]
    contents += [(f"tiny network {seed}", serialize_model(tiny_network(Random(seed).randint))) for seed in TINY_SEEDS]
    for name, content in contents:
        for goal, options in GOALS.items():
            yield name + goal, _rewriting(content, options)
    for name, goal, options in SOME:
        if (path := data / f"{name}.tflite").exists():
            yield path.stem + goal, _rewriting(path.read_bytes(), options)
    if (path := data / f"{PREDICTED}.tflite").exists():
        yield path.stem + ", predicted", _predicting(path.read_bytes())
    for path in sorted((data / "graphs").glob("*.json")):
        yield path.stem, _planning(read_graph(path))
    for window in (25, 40):
        yield f"tangle of 100, window {window}", _planning(tangle(100, 3, window, 2))
    for name in ("branching", "big end", "u"):
        for options in (SplitOptions(), SplitOptions(max_flash=80_000), SplitOptions(objective="throughput")):
            goal = "" if options.max_flash is None else ", little flash"
            yield f"{name} split, {options.objective}{goal}", _splitting(NAMED[name](), options)
    for workers, objective in ((8, "time"), (20, "time"), (20, "ram"), (32, "time")):
        options = SplitOptions(objective=objective)
        yield f"branching split over {workers}, {objective}", _splitting(NAMED["branching"](), options, workers)


def _rewriting(content: bytes, options: RewriteOptions) -> Run:
    def run(tuning: Tuning) -> tuple[int, float]:
        _, report = rewrite_model(load_model(content), content, replace(options, tuning=tuning, verify=False))
        prediction = report.prediction
        return report.after.arena_bytes, 0.0 if prediction is None else float(prediction.instructions)

    return run


def _predicting(content: bytes) -> Run:
    def run(tuning: Tuning) -> tuple[int, float]:
        metrics = model_metrics(load_model(content), content, MetricsOptions(tuning=tuning))
        return int(metrics["arena_bytes"]), metrics["instructions"]

    return run


def _planning(graph: Program) -> Run:
    def run(tuning: Tuning) -> tuple[int, float]:
        budget = Budget(GRAPH_WORK)
        ordered = minimal_peak_order(rounded(graph), budget.part(tuning.order_share), tuning=tuning)
        return place(graph.reordered(ordered.order), budget=budget, tuning=tuning).height, 0.0

    return run


def _splitting(model: Model, options: SplitOptions, workers: int = 3) -> Run:
    """Return RAM of the worker that needs most, and predicted nanoseconds in the place of instructions."""

    def run(tuning: Tuning) -> tuple[int, float]:
        split = split_model(model, equal(workers), replace(options, tuning=tuning))
        taken = split.timeline.period if options.objective == "throughput" else split.timeline.seconds
        return max(each.ram_bytes for each in split.needs if each.by_phase), taken * 1e9

    return run


def measured(run: Run, tuning: Tuning) -> Figure:
    """Return the arena in bytes and the work of a run; an unreachable goal has no arena."""
    begin = time.process_time()
    try:
        arena, instructions = run(tuning)
    except TfliteFuseError:
        arena, instructions = 0, 0.0
    return Figure(arena, instructions, time.process_time() - begin)


def bench(data: Path, only: str, model: str) -> Iterator[Row]:
    """Yield a row for each rule and model, grouped by rule."""
    chosen = [(name, run) for name, run in runs(data) if model in name]
    on = {name: measured(run, TUNING) for name, run in chosen}
    for field in fields(Tuning):
        if only in field.name:
            off = replace(TUNING, **{field.name: field.metadata["off"]})
            yield from (Row(field.name, name, measured(run, off), on[name]) for name, run in chosen)


def _change(pairs: Sequence[tuple[float, float]]) -> str:
    """Return the most any grows and shrinks, and how many do either, in percent of what there is with the rule."""
    changes = [100 * (off - on) / on for off, on in pairs if on and off != on]
    if not changes:
        return "same"
    return f"{min(changes):+.1f} to {max(changes):+.1f} % ({len(changes)})"


def print_table(rows: Sequence[Row]) -> None:
    """Print a line for each rule."""
    table = Table("rule off", "of", "arena", "instructions", "CPU", "worst")
    for field in fields(Tuning):
        some = [row for row in rows if row.field == field.name]
        if not some:
            continue
        worst = max(some, key=lambda row: row.off.arena / row.on.arena if row.on.arena else 0.0)
        cpu = sum(row.off.seconds for row in some) / max(sum(row.on.seconds for row in some), 1e-9)
        table.add_row(
            f"{field.name} ({field.default:g} {field.metadata['unit']})",
            str(len(some)),
            _change([(row.off.arena, row.on.arena) for row in some]),
            _change([(row.off.instructions, row.on.instructions) for row in some]),
            f"x {cpu:.2f}",
            worst.model if worst.off.arena > worst.on.arena else "",
        )
    Console(width=None if sys.stdout.isatty() else 150).print(table)


@in_one_sentence
def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description="What each rule of thumb buys.")
    shared = Path(__file__).resolve().parents[2] / "shared"
    parser.add_argument(
        "--data", type=Path, default=shared, help="folder with models/ and graphs/ (default %(default)s)"
    )
    parser.add_argument("--only", default="", metavar="FIELD", help="rules with this in their name")
    parser.add_argument("--model", default="", metavar="TEXT", help="models with this in their name")
    parser.add_argument("--json", action="store_true", help="print JSON, a row for each rule and model")
    options = parser.parse_args(arguments)
    rows = list(bench(options.data, options.only, options.model))
    if options.json:
        print(json.dumps([row.__dict__ | {"off": row.off.__dict__, "on": row.on.__dict__} for row in rows], indent=1))
    else:
        print_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
