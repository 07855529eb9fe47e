#!/usr/bin/env python3
"""Peak saved by the best order of operators, and time of its search: bench_order.py [--ablation] [--json].

Rows: the graphs (``*.json``) and models (``*.tflite``) of ``--data`` (default: the folder ``shared`` beside the
project) and generated ones: long chains, parallel branches, and random tangles unlike any network. ``--ablation``
repeats each row that needs a search without every pruning rule in turn, and without all of them ("none left"), which
may reach the time limit. Exit codes: 0 done, 1 a row with all rules is not proven optimal, 2 bad input.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

from scripts.graphs import read_graph, tangle
from scripts.mains import in_one_sentence
from tflite_fuse.ir.liveness import peak
from tflite_fuse.ir.program import Program, Step, program_of
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.order.least_peak import minimal_peak_order
from tflite_fuse.memory.order.two_ended_search import OrderRules
from tflite_fuse.model import load_model


@dataclass(frozen=True)
class Row:
    """One search. Sizes in bytes."""

    graph: str
    operators: int
    without: str
    default_peak: int
    peak: int
    lower_bound: int
    optimal: bool
    states: int
    seconds: float


def branches(count: int, length: int, seed: int) -> Program:
    """Return a graph of chains of random sizes from one input, joined by a last operator."""
    generator = random.Random(seed)
    sizes = [generator.randrange(1, 1000) for _ in range(count * length + 2)]
    ops: list[Step] = []
    for branch in range(count):
        first = 1 + branch * length
        sources = [0, *range(first, first + length - 1)]
        ops += [Step(f"op_{first + i}", (source,), (first + i,)) for i, source in enumerate(sources)]
    ends = tuple(range(length, count * length + 1, length))
    ops.append(Step("join", ends, (count * length + 1,)))
    return Program(tuple(sizes), tuple(ops), (0,), (count * length + 1,))


def equal_branches(count: int) -> Program:
    """Return a graph of chains of two operators with equal sizes, in which two chains can be exchanged."""
    ops = []
    for branch in range(count):
        ops += [Step(f"wide_{branch}", (0,), (1 + 2 * branch,))]
        ops += [Step(f"narrow_{branch}", (1 + 2 * branch,), (2 + 2 * branch,))]
    last = 2 * count + 1
    ops.append(Step("join", tuple(range(2, last, 2)), (last,)))
    return Program((1000, *[30, 10] * count, 5), tuple(ops), (0,), (last,))


def graphs(data: Path) -> Iterator[tuple[str, Program]]:
    """Yield all graphs by name."""
    for path in sorted((data / "graphs").glob("*.json")):
        yield path.stem, read_graph(path)
    for path in sorted((data / "models").glob("*.tflite")):
        yield path.stem, program_of(load_model(path))
    yield "chain of 2000", branches(1, 1999, 0)
    yield "2 branches of 1000", branches(2, 1000, 1)
    for seed in range(3):
        yield f"5 branches of 30, seed {seed}", branches(5, 30, seed)
    yield "10 branches of 40", branches(10, 40, 3)
    yield "40 equal branches", equal_branches(40)
    for count, window in ((60, 12), (60, 25), (100, 12), (100, 25)):
        yield f"tangle of {count}, window {window}", tangle(count, 3, window, 1)


RULES = tuple(field.name for field in fields(OrderRules))
NO_RULES = "none left"


def measure(name: str, graph: Program, time_limit: float, without: str = "") -> Row:
    """Search the order of one graph with one rule, or all rules, switched off."""
    off = RULES if without == NO_RULES else (without,) if without else ()
    rules = OrderRules(**dict.fromkeys(off, False))
    ordered = minimal_peak_order(graph, Budget(seconds=time_limit), rules=rules)
    return Row(
        name,
        len(graph.steps),
        without,
        peak(graph),
        ordered.peak,
        ordered.lower_bound,
        ordered.optimal,
        ordered.states,
        round(ordered.seconds, 4),
    )


def run(data: Path, only: str, time_limit: float, ablation: bool) -> Iterator[Row]:
    """Yield each row when it is measured."""
    for name, graph in graphs(data):
        if only not in name:
            continue
        row = measure(name, graph, time_limit)
        yield row
        if ablation and (row.states or row.peak < row.default_peak):
            yield from (measure(name, graph, time_limit, without) for without in (*RULES, NO_RULES))


def print_table(rows: Sequence[Row]) -> None:
    """Print the rows as a table."""
    table = Table("graph", "operators", "without", "default B", "reached B", "proven", "seconds", "states")
    for row in rows:
        proven = "optimal" if row.optimal else f">= {row.lower_bound:,}"
        figures = (f"{row.default_peak:,}", f"{row.peak:,}", proven, f"{row.seconds:.3f}", f"{row.states:,}")
        table.add_row(*(("", "") if row.without else (row.graph, str(row.operators))), row.without, *figures)
    for column in table.columns[1:]:
        column.justify = "left" if column.header in ("without", "proven") else "right"
    Console(width=None if sys.stdout.isatty() else 120).print(table)


@in_one_sentence
def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description="Benchmark of the operator order search.")
    shared = Path(__file__).resolve().parents[2] / "shared"
    parser.add_argument(
        "--data", type=Path, default=shared, help="folder with graphs/ and models/ (default %(default)s)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only graphs with this in their name")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="per search (default 60)")
    parser.add_argument("--ablation", action="store_true", help="also with every pruning rule switched off in turn")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    rows = list(run(options.data, options.only, options.time_limit, options.ablation))
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        print_table(rows)
    return 0 if all(row.optimal for row in rows if not row.without) else 1


if __name__ == "__main__":
    sys.exit(main())
