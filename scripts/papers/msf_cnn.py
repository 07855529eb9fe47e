"""msf-CNN: least RAM under a limit of work, least work under a limit of RAM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.papers.data import KB, MODES, Data, Row, as_pairs, search
from scripts.papers.measured import Measured, measure
from scripts.zoo.architectures import build_architecture
from tflite_fuse.model import Model
from tflite_fuse.model.outside import InputMode
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import HeadOptions
from tflite_fuse.search.front import Front, Point

MSF_CHAINS = {
    "MBV2-w0.35": "msf-chain-mbv2-w0.35",
    "MN2-vww5": "msf-chain-vww5",
    "MN2-320K": "msf-chain-320k",
}
"""The names of msf-CNN's Table 1 and the layer chains behind them."""


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
        " the executor's own state too."
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
            fuse = HeadOptions(goal=goal, input_mode=InputMode.EXTERNAL)
            known[name, factor] = measure(f"{name}, F <= {factor}", models[name], fuse, data.inputs)
        run = known[name, factor]
        row["measured_head_bytes"], row["measured_compute_factor"] = run.head_bytes, run.compute_factor
        row["measured_arena_bytes"] = run.arena_bytes
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
