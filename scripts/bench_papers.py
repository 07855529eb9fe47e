#!/usr/bin/env python3
"""Published numbers beside ours, on the same networks and the same accounting: bench_papers.py [--paper NAME] [--json].

The papers' numbers and the descriptions of their networks are read from ``--data`` (default: the folder ``shared``
beside the project); ours are computed while you wait. RAM is the largest working set of the network, found by the same
search that ``rewrite`` uses; what a figure leaves out is printed with it. Exit codes: 0 done, 2 bad input.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tflite_fuse.errors import TfliteFuseError, UsageError
from tflite_fuse.fusion.front import Front, Point
from tflite_fuse.fusion.geometry import LayerGraph, graph_from_layers
from tflite_fuse.fusion.schemes import Scheme
from tflite_fuse.fusion.search import SearchOptions, fusion_front
from tflite_fuse.model.outside import InputMode

Row = dict[str, Any]

KB = 1000
"""The papers' kilobyte."""

MSF_CHAINS = {
    "MBV2-w0.35": "msf-chain-mbv2-w0.35",
    "MN2-vww5": "msf-chain-vww5",
    "MN2-320K": "msf-chain-320k",
}
"""The names of msf-CNN's Table 1 and the layer chains behind them."""


@dataclass(frozen=True)
class Data:
    """Where the papers' numbers and networks are."""

    folder: Path

    def facts(self, name: str) -> list[dict[str, str]]:
        with self._open(f"facts/{name}.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def network(self, name: str) -> LayerGraph:
        return graph_from_layers(json.loads(self._open(f"arch/{name}.json").read_text()))

    def _open(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise UsageError(f"{path} is missing; say with --data where the folders arch and facts are")
        return path


MODES = {
    "resident": SearchOptions(),
    "resident, overlap": SearchOptions(overlap=True, single_operators=True),
    "streamed": SearchOptions(input_mode=InputMode.STREAMED),
    "streamed, overlap": SearchOptions(input_mode=InputMode.STREAMED, overlap=True, single_operators=True),
    "external, overlap": SearchOptions(input_mode=InputMode.EXTERNAL, overlap=True, single_operators=True),
}
"""Where the input image is, and whether blocks write over inputs they no longer need: what each idea contributes."""


def search(graph: LayerGraph, options: SearchOptions = MODES["resident"]) -> tuple[Front, float]:
    """The front and the seconds it took."""
    start = time.perf_counter()
    front = fusion_front(graph, options)
    return front, time.perf_counter() - start


def as_pairs(front: Front) -> list[Row]:
    """The points of a front for JSON."""
    return [{"ram_bytes": point.ram_bytes, "compute_factor": point.compute_factor} for point in front.points]


def msf_cnn(data: Data) -> dict[str, Any]:
    """Table 1: least RAM under a compute limit (P1) and least compute under a RAM limit (P2), on three chains."""
    graphs = {name: data.network(chain).without_network_tensors() for name, chain in MSF_CHAINS.items()}
    fronts = {name: search(graph) for name, graph in graphs.items()}
    overlapping = {name: search(graph, MODES["resident, overlap"])[0] for name, graph in graphs.items()}
    rows = [_msf_row(entry, fronts[entry["model"]][0]) for entry in data.facts("msf_cnn_table1")]
    return {
        "paper": "msf-cnn",
        "accounting": "plain layer chains: the network's input and its final output are not counted, residual"
        " additions, pooling and classifier are left out. Their compute factor ignores that padding adds up in fused"
        " halos and can thus be too low or too high by a few per cent; ours counts every pixel computed. Our RAM holds"
        " the executor's own state too. fronts_with_overlap: blocks may also write over inputs they no longer need.",
        "rows": rows,
        "fronts": {name: as_pairs(front) for name, (front, _) in fronts.items()},
        "fronts_with_overlap": {name: as_pairs(front) for name, front in overlapping.items()},
        "seconds": {name: seconds for name, (_, seconds) in fronts.items()},
    }


def _msf_row(entry: Mapping[str, str], front: Front) -> Row:
    row: Row = {"model": entry["model"], "constraint": entry["constraint"], "theirs_ram_bytes": None}
    if entry["constraint"] == "vanilla":
        return {**row, **_theirs(entry), "ours_ram_bytes": front.unfused.ram_bytes, "ours_compute_factor": 1.0}
    if not entry["ram_kb"]:
        best = front.least_ram()
        return {**row, "theirs_compute_factor": None, **_ours(best), "note": "they have no solution; ours is our least"}
    theirs = _theirs(entry)
    best = front.least_ram(theirs["theirs_compute_factor"])
    return {**row, **theirs, **_ours(best), "ram_ratio": best.ram_bytes / theirs["theirs_ram_bytes"]}


def _theirs(entry: Mapping[str, str]) -> Row:
    ram, factor = float(entry["ram_kb"]), float(entry["compute_factor"])
    return {"theirs_ram_bytes": round(ram * KB), "theirs_compute_factor": factor}


def _ours(point: Point) -> Row:
    return {"ours_ram_bytes": point.ram_bytes, "ours_compute_factor": point.compute_factor}


def streamnet(data: Data) -> dict[str, Any]:
    """Tables 1 and 2: peak memory and work of StreamNet-2D and MCUNetV2 on ten networks."""
    rows, seconds = [], {}
    for entry in data.facts("streamnet_table1"):
        graph = data.network(entry["model"])
        row: Row = {
            "model": entry["model"],
            "image_bytes": sum(graph.sizes[tensor] for tensor in graph.inputs),
            "macs": graph.macs,
            "theirs_stream_2d_ram_bytes": round(float(entry["sn2d_mem_kb"]) * KB),
            "theirs_stream_2d_macs": round(float(entry["sn2d_mmac"]) * 1e6),
            "theirs_mcunetv2_ram_bytes": round(float(entry["mcunetv2_mem_kb"]) * KB),
            "theirs_mcunetv2_macs": round(float(entry["mcunetv2_mmac"]) * 1e6),
        }
        for mode, options in MODES.items():
            front, took = search(graph, options)
            row["unfused_ram_bytes"] = front.unfused.ram_bytes
            row[f"{mode}, F=1: ram_bytes"] = front.zero_recompute().ram_bytes
            row[f"{mode}, F<=1.1: ram_bytes"] = front.least_ram(1.1).ram_bytes
            seconds[f"{entry['model']}, {mode}"] = took
        rows.append(row)
    return {
        "paper": "streamnet",
        "accounting": "ours: largest working set with residuals held; resident: the input image counts all the while it"
        " is read; streamed: its rows come through a callback; external: it lies in memory that is not counted;"
        " overlap: a block's output may lie over its input at a safe distance. Theirs: peak memory as printed in their"
        " tables, measured with TinyEngine, which computes depthwise convolutions and additions in place; what it"
        " counts besides activations is not said there.",
        "rows": rows,
        "seconds": seconds,
    }


def fused_layer(data: Data) -> dict[str, Any]:
    """Fused-layer inverted residuals: their scheme as a restriction of our search, and the search without it."""
    rows = []
    for entry in data.facts("streamnet_table1"):
        graph = data.network(entry["model"])
        restricted, _ = search(graph, SearchOptions(scheme=Scheme.INVERTED_RESIDUAL))
        free, _ = search(graph)
        best = restricted.least_ram()
        same = free.least_ram(best.compute_factor)
        rows.append(
            {
                "model": entry["model"],
                "unfused_ram_bytes": restricted.unfused.ram_bytes,
                "scheme_ram_bytes": best.ram_bytes,
                "scheme_reduction": 1 - best.ram_bytes / restricted.unfused.ram_bytes,
                "scheme_compute_factor": best.compute_factor,
                "blocks_fused": len(best.blocks),
                "auto_ram_bytes": same.ram_bytes,
                "auto_reduction": 1 - same.ram_bytes / free.unfused.ram_bytes,
                "auto_compute_factor": same.compute_factor,
            }
        )
    return {
        "paper": "fused-layer",
        "claims": data.facts("fused_layer_claims"),
        "accounting": "their networks are not public: their claims are printed, and their scheme (whole inverted"
        " residual blocks in tiles of 8 x 8 pixels, the smallest set that reaches the best RAM) is run on other"
        " networks, next to the unrestricted search at no more work. Input image and residuals are counted.",
        "rows": rows,
    }


PAPERS: dict[str, Callable[[Data], dict[str, Any]]] = {
    "msf-cnn": msf_cnn,
    "streamnet": streamnet,
    "fused-layer": fused_layer,
}


def as_text(result: Mapping[str, Any]) -> str:
    """A table for people."""
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
    """Run the benchmark. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Published numbers beside ours, on the same accounting.")
    parser.add_argument("--paper", choices=PAPERS, help="only this one (default: all)")
    parser.add_argument("--json", action="store_true", help="one JSON object (a list of them without --paper)")
    default = Path(__file__).resolve().parents[2] / "shared"
    parser.add_argument("--data", type=Path, default=default, metavar="DIR", help="folder with arch/ and facts/")
    options = parser.parse_args(arguments)
    try:
        results = [PAPERS[name](Data(options.data)) for name in ([options.paper] if options.paper else PAPERS)]
    except (TfliteFuseError, json.JSONDecodeError, KeyError) as error:
        print(f"bench_papers.py: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(results[0] if options.paper else results, indent=1))
    else:
        print("\n\n".join(as_text(result) for result in results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
