#!/usr/bin/env python3
"""Published numbers beside ours, on the same networks: bench_papers.py [--paper NAME] [--model NAME] [--inputs N].

The papers' numbers and the descriptions of their networks are read from ``--data`` (default: the folder ``shared``
beside the project); ours are found while you wait. Columns called *measured* are real runs: the network is built with
random weights, rewritten, run in TensorFlow Lite Micro and compared with the original on ``--inputs`` inputs, byte by
byte; the head is what that runtime says. All others come from the search alone, as does everything with
``--inputs 0``. What a figure leaves out is printed with it. Exit codes: 0 done, 2 bad input, 1 an output differs.
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

from measured import Measured, measure

from tflite_fuse.errors import TfliteFuseError, UsageError, VerificationError
from tflite_fuse.fusion.block.layer_graph import LayerGraph, graph_from_layers
from tflite_fuse.fusion.search.front import Front, Point
from tflite_fuse.fusion.search.fusion_front import SearchOptions, fusion_front
from tflite_fuse.fusion.search.schemes import Scheme
from tflite_fuse.model import Model, load_model
from tflite_fuse.model.outside import InputMode
from tflite_fuse.passes.fuse import Fuse
from tflite_fuse.passes.goal import Goal
from tflite_fuse.zoo.architectures import build_architecture, load_architecture

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
    """Where the papers' numbers and networks are, which of them to look at, and how many inputs to run them on."""

    folder: Path
    model: str | None = None
    inputs: int = 0
    constraint: str | None = None

    def facts(self, name: str) -> list[dict[str, str]]:
        with self._open(f"facts/{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        wanted = {"model": self.model, "constraint": self.constraint}
        return [row for row in rows if all(value in (None, row.get(key, value)) for key, value in wanted.items())]

    def network(self, name: str) -> LayerGraph:
        return graph_from_layers(json.loads(self._open(f"arch/{name}.json").read_text()))

    def architecture(self, name: str) -> dict[str, Any]:
        return load_architecture(self._open(f"arch/{name}.json"))

    def file(self, name: str) -> Model:
        return load_model(self._open(f"models/{name}.tflite"))

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
    chains = {name: chain for name, chain in MSF_CHAINS.items() if data.model in (None, name)}
    graphs = {name: data.network(chain).without_network_tensors() for name, chain in chains.items()}
    fronts = {name: search(graph) for name, graph in graphs.items()}
    overlapping = {name: search(graph, MODES["resident, overlap"])[0] for name, graph in graphs.items()}
    rows = [_msf_row(entry, fronts[entry["model"]][0]) for entry in data.facts("msf_cnn_table1")]
    if data.inputs:
        _measure_msf(data, rows)
    return {
        "paper": "msf-cnn",
        "accounting": "plain layer chains: the network's input and its final output are not counted, residual"
        " additions, pooling and classifier are left out. Their compute factor ignores that padding adds up in fused"
        " halos and can thus be too low or too high by a few per cent; ours counts every pixel computed. Our RAM holds"
        " the executor's own state too. fronts_with_overlap: blocks may also write over inputs they no longer need."
        " Measured: the same layers with global average pooling behind them, as in the networks they are from, so that"
        " the last feature map is not stored; the input is external, overlap is on, RAM is the head.",
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


def _measure_msf(data: Data, rows: Sequence[Row]) -> None:
    """Adds real runs within the paper's compute factors to its rows."""
    known: dict[tuple[str, float], Measured] = {}
    models = {name: _pooled(data.architecture(MSF_CHAINS[name])) for name in {row["model"] for row in rows}}
    for row in rows:
        name, factor = row["model"], row["theirs_compute_factor"]
        if (name, factor) not in known:
            goal = Goal(max_compute=factor) if factor is not None else Goal(least_ram=True)
            fuse = Fuse(goal, input_mode=InputMode.EXTERNAL, count_tail=False)
            known[name, factor] = measure(f"{name}, F <= {factor}", models[name], fuse, data.inputs)
        run = known[name, factor]
        row["measured_head_bytes"], row["measured_compute_factor"] = run.head_bytes, run.compute_factor
        if row["theirs_ram_bytes"]:
            row["measured_ratio"] = run.head_bytes / row["theirs_ram_bytes"]


def _pooled(architecture: dict[str, Any]) -> Model:
    """A chain with global average pooling behind it."""
    height, width, _ = architecture["layers"][-1]["out"]
    pool = {"op": "avgpool", "kernel": [height, width]}
    return build_architecture({**architecture, "layers": [*architecture["layers"], pool]})


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
        rows.append({**_streamnet_runs(data, row), **row} if data.inputs else row)
    return {
        "paper": "streamnet",
        "accounting": "ours: largest working set with residuals held; resident: the input image counts all the while it"
        " is read; streamed: its rows come through a callback; external: it lies in memory that is not counted;"
        " overlap: a block's output may lie over its input at a safe distance. Theirs: peak memory as printed in their"
        " tables, measured with TinyEngine, which computes depthwise convolutions and additions in place; what it"
        " counts besides activations is not said there. Measured: the head of the arena at zero recompute with overlap;"
        " ratio: over StreamNet-2D's figure; image: over the bytes of the input image.",
        "rows": rows,
        "seconds": seconds,
    }


def _streamnet_runs(data: Data, row: Row) -> Row:
    """Real runs at zero recompute, for the columns in front of what the search says."""
    theirs = row["theirs_stream_2d_ram_bytes"]
    found: Row = {"model": row["model"], "image_bytes": row["image_bytes"], "theirs_stream_2d_ram_bytes": theirs}
    model = build_architecture(data.architecture(row["model"]))
    for mode in InputMode:
        run = measure(row["model"], model, Fuse(Goal(max_compute=1.0), input_mode=mode), data.inputs)
        found[f"measured {mode.value} head_bytes"], found[f"{mode.value} ratio"] = (
            run.head_bytes,
            run.head_bytes / theirs,
        )
        if mode is InputMode.RESIDENT:
            found["resident / image"] = run.head_bytes / row["image_bytes"]
    return found


AIMS = {
    "mlperf_tiny_vww96_int8": (30_500, 13_200, 11_000),
    "tflm_person_detect_int8": (15_500, 12_800, 11_000),
    "mlperf_tiny_resnet8_int8": (13_500, 13_500, 13_500),
    "mlperf_tiny_dscnn_kws_int8": (7_500, 6_900, 6_900),
    "mcunet_vww1_float_io_int8": (23_500, 14_600, 13_600),
    "mcunet_in3_int8": (100_500, 55_800, 55_800),
}
"""What the whole arena may take at most on public models at F <= 1.1: input resident, streamed, external."""


def frontier(data: Data) -> dict[str, Any]:
    """The whole arena of public models, next to what this package sets itself as a limit."""
    if not data.inputs:
        raise UsageError("the frontier is made of real runs; give --inputs 1 or more")
    rows = []
    for name, aims in AIMS.items():
        if data.model not in (None, name):
            continue
        model, row = data.file(name), Row(model=name)
        for mode, aim in zip(InputMode, aims, strict=True):
            fuse = Fuse(Goal(max_compute=FRONTIER_FACTOR), input_mode=mode)
            run = measure(name, model, fuse, data.inputs)
            row[f"{mode.value}: arena_bytes"], row[f"{mode.value}: estimate_bytes"] = (
                run.arena_bytes,
                run.estimate_bytes,
            )
            row[f"{mode.value}: aim_bytes"], row[f"{mode.value}: F"] = aim, run.compute_factor
            row["met"] = row.get("met", True) and run.arena_bytes <= aim
        rows.append(row)
    return {
        "paper": "frontier",
        "accounting": "the whole arena, head as measured in the runtime and tail predicted for a 32-bit target, of"
        f" models as they are published, QUANTIZE and DEQUANTIZE at float32 ends dropped, at F <= {FRONTIER_FACTOR};"
        f" every one gave the original's bytes on {data.inputs} inputs in each mode.",
        "rows": rows,
    }


FRONTIER_FACTOR = 1.1

IDEAS = {
    "all": {},
    "no overlap": {"overlap": False},
    "no strips": {"strips": False},
    "neither": {"overlap": False, "strips": False},
}
"""What an ablation switches off; on the command line --no-overlap and --no-strips."""


def ablation(data: Data) -> dict[str, Any]:
    """What moving the input out, overlap and strips contribute each, on public models."""
    if not data.inputs:
        raise UsageError("the ablation is made of real runs; give --inputs 1 or more")
    rows = []
    for name in AIMS:
        if data.model not in (None, name):
            continue
        model, row = data.file(name), Row(model=name)
        for mode in InputMode:
            for idea, switches in IDEAS.items():
                fuse = Fuse(Goal(max_compute=FRONTIER_FACTOR), input_mode=mode, **switches)
                run = measure(f"{name}, {idea}", model, fuse, data.inputs)
                row[f"{mode.value}, {idea}: arena_bytes"] = run.arena_bytes
        rows.append(row)
    return {
        "paper": "ablation",
        "accounting": f"the whole arena at F <= {FRONTIER_FACTOR}, measured as in the frontier; overlap: a block writes"
        " over input it needs no more; strips: a block runs in strips and computes some columns twice.",
        "rows": rows,
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
    "frontier": frontier,
    "ablation": ablation,
}

REAL_RUNS_ONLY = ("frontier", "ablation")


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
    if options.json:
        print(json.dumps(results[0] if options.paper else results, indent=1))
    else:
        print("\n\n".join(as_text(result) for result in results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
