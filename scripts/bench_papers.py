#!/usr/bin/env python3
"""Published numbers beside ours, on the same networks: bench_papers.py [--paper NAME] [--model NAME] [--inputs N].

The papers' numbers and the descriptions of their networks are read from ``--data`` (default: the folder ``shared``
beside the project); ours are computed. Columns called *measured* are real runs: the network is built with random
weights, rewritten, run in TensorFlow Lite Micro and compared with the original on ``--inputs`` inputs, byte by byte;
the head is the runtime's. All others come from the search alone, as does everything with ``--inputs 0``. The limits of
each figure are printed with it. Exit codes: 0 done, 2 bad input, 1 an output differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.papers.boards import msf_cnn_boards, msf_cnn_least
from scripts.papers.data import KB, Data
from scripts.papers.fused_layer import fused_layer
from scripts.papers.msf_cnn import msf_cnn
from scripts.papers.peers import peers_cycles, peers_ram
from scripts.papers.public_models import ablation, frontier
from scripts.papers.stream_schemes import streamnet_work
from scripts.papers.streamnet import streamnet
from scripts.papers.time import msf_cnn_time
from tflite_fuse.errors import TfliteFuseError, VerificationError

PAPERS: dict[str, Callable[[Data], dict[str, Any]]] = {
    "msf-cnn": msf_cnn,
    "msf-cnn-least": msf_cnn_least,
    "msf-cnn-boards": msf_cnn_boards,
    "msf-cnn-time": msf_cnn_time,
    "streamnet": streamnet,
    "streamnet-work": streamnet_work,
    "fused-layer": fused_layer,
    "frontier": frontier,
    "ablation": ablation,
    "peers-ram": peers_ram,
    "peers-cycles": peers_cycles,
}

REAL_RUNS_ONLY = ("frontier", "ablation")


def as_text(result: Mapping[str, Any]) -> str:
    """Return a table for a terminal."""
    lines = [f"## {result['paper']}", "", f"Accounting: {result['accounting']}", ""]
    for claim in result.get("claims", ()):
        lines.append(f"their claim: {claim['claim']}: {claim['value']}")
    columns = list(dict.fromkeys(name for row in result["rows"] for name in row))
    cells = [[_cell(name, row.get(name)) for name in columns] for row in result["rows"]]
    heads = [name.replace("_bytes", " kB").replace("_macs", " MMAC").replace("_", " ") for name in columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    for row in (heads, ["-" * width for width in widths], *cells):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for name, seconds in result.get("seconds", {}).items():
        lines.append(f"whole front of {name}: {seconds:.2f} s")
    return "\n".join(lines)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name.endswith("_bytes"):
        return f"{value / KB:.2f}"
    if name.endswith("macs"):
        return f"{value / 1e6:.1f}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description="Published numbers beside ours, on the same accounting.")
    parser.add_argument("--paper", choices=PAPERS, help="only this one (default: all)")
    parser.add_argument("--json", action="store_true", help="one JSON object (a list of them without --paper)")
    default = Path(__file__).resolve().parents[2] / "shared"
    parser.add_argument("--data", type=Path, default=default, metavar="DIR", help="folder with arch/ and facts/")
    parser.add_argument("--model", help="only this network")
    parser.add_argument("--constraint", help="of msf-cnn's table only this row, such as P1:inf")
    parser.add_argument("--inputs", type=int, default=4, help="inputs of real runs (default 4; 0: search only)")
    options = parser.parse_args(arguments)
    papers = (
        [options.paper] if options.paper else [name for name in PAPERS if options.inputs or name not in REAL_RUNS_ONLY]
    )
    data = Data(options.data, options.model, max(options.inputs, 0), options.constraint)
    try:
        results = [PAPERS[name](data) for name in papers]
    except VerificationError as error:
        print(f"bench_papers.py: {error}", file=sys.stderr)
        return 1
    except (TfliteFuseError, json.JSONDecodeError, KeyError) as error:
        print(f"bench_papers.py: {error}", file=sys.stderr)
        return 2
    if not any(result["rows"] for result in results):
        print("bench_papers.py: no published table has such a row; leave out --model or --constraint", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(results[0] if options.paper else results, indent=1))
    else:
        print("\n\n".join(as_text(result) for result in results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
