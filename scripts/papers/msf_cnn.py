"""msf-CNN: least RAM under a limit of work, least work under a limit of RAM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.papers.data import KB, MODES, Data, Row, as_pairs, search
from scripts.papers.layers import without_network_tensors
from scripts.papers.measured import measure
from scripts.points import least_compute, least_ram
from scripts.zoo.architectures import build_architecture
from tflite_fuse.errors import LimitError
from tflite_fuse.model import Model
from tflite_fuse.model.outside import InputMode
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.search.front import Front, Point

MSF_CHAINS = {
    "MBV2-w0.35": "msf-chain-mbv2-w0.35",
    "MN2-vww5": "msf-chain-vww5",
    "MN2-320K": "msf-chain-320k",
}
"""The names of msf-CNN's Table 1 and the layer chains behind them."""


def msf_cnn(data: Data) -> dict[str, Any]:
    """Return table 1: least RAM under a compute limit (P1), least compute under a RAM limit (P2), on three chains."""
    chains = {name: chain for name, chain in MSF_CHAINS.items() if data.model in (None, name)}
    graphs = {name: without_network_tensors(data.network(chain)) for name, chain in chains.items()}
    fronts = {name: search(graph) for name, graph in graphs.items()}
    overlapping = {name: search(graph, MODES["resident, overlap"])[0] for name, graph in graphs.items()}
    rows = [_msf_row(entry, fronts[entry["model"]][0]) for entry in data.facts("msf_cnn_table1")]
    if data.inputs:
        _measure_msf(data, rows)
    return {
        "paper": "msf-cnn",
        "accounting": "plain layer chains: the network's input and its final output are not counted, residual"
        " additions, pooling and classifier are left out. Every row is an answer to its constraint: P1 the least RAM at"
        " a compute factor of at most so much, P2 the least compute in at most so many kB, heuristic the least RAM at"
        " no more compute than theirs. Their compute factor ignores that padding adds up in fused halos and can thus be"
        " too low or too high by a few per cent; ours counts every pixel computed. Our RAM holds the executor's own"
        " state too. Run: the same layers with global average pooling behind them, as in the networks they are from, so"
        " that the last feature map is not stored; the input is external, overlap is on, and the limit of P2 holds for"
        " the whole arena",
        "rows": rows,
        "fronts": {name: as_pairs(front) for name, (front, _) in fronts.items()},
        "fronts_with_overlap": {name: as_pairs(front) for name, front in overlapping.items()},
        "seconds": {name: seconds for name, (_, seconds) in fronts.items()},
    }


def _msf_row(entry: Mapping[str, str], front: Front) -> Row:
    """Return a published row, and the answer of the search to the question that its constraint asks."""
    constraint = entry["constraint"]
    row: Row = {"model": entry["model"], "constraint": constraint, **_theirs(entry)}
    best = front.unfused if constraint == "vanilla" else answer(front, constraint, row["theirs_compute_factor"])
    row["ours_ram_bytes"] = None if best is None else best.ram_bytes
    row["ours_compute_factor"] = None if best is None else best.compute_factor
    if best is not None and row["theirs_ram_bytes"]:
        row["ram_ratio"] = best.ram_bytes / row["theirs_ram_bytes"]
    return row


def goal_of(constraint: str, factor: float | None = None) -> Goal:
    """Return the goal that a constraint of the paper states.

    Args:
        constraint: ``P1:1.3``, the least RAM at a compute factor of at most 1.3 (``inf``: any); ``P2:64``, the least
            compute in at most 64 kB; any other word, the least RAM at no more compute than ``factor``.
        factor: what the paper's own answer takes.
    """
    problem, _, limit = constraint.partition(":")
    if problem == "P2":
        return Goal(max_ram=int(limit) * KB)
    if problem == "P1":
        return Goal(least_ram=True) if limit == "inf" else Goal(max_compute=float(limit))
    return Goal(max_compute=factor)


def answer(front: Front, constraint: str, factor: float | None = None) -> Point | None:
    """Return the point of a front that a constraint asks for, None without a solution; arguments as for ``goal_of``."""
    goal = goal_of(constraint, factor)
    try:
        return least_ram(front, goal.max_compute) if goal.max_ram is None else least_compute(front, goal.max_ram)
    except LimitError:
        return None


def _measure_msf(data: Data, rows: Sequence[Row]) -> None:
    """Add real runs, the whole arena counted, to all rows but those of the network as it is."""
    models = {name: _pooled(data.architecture(MSF_CHAINS[name])) for name in {row["model"] for row in rows}}
    for row in (row for row in rows if row["constraint"] != "vanilla"):
        goal = goal_of(row["constraint"], row["theirs_compute_factor"])
        fuse = FuseOptions(goal=goal, input_mode=InputMode.EXTERNAL)
        try:
            run = measure(f"{row['model']}, {row['constraint']}", models[row["model"]], fuse, data.inputs)
        except LimitError:
            run = None
        row["measured_head_bytes"] = None if run is None else run.head_bytes
        row["measured_arena_bytes"] = None if run is None else run.arena_bytes
        row["measured_compute_factor"] = None if run is None else run.compute_factor
        if run is not None and row["theirs_ram_bytes"]:
            row["measured_ratio"] = run.head_bytes / row["theirs_ram_bytes"]


def _pooled(architecture: dict[str, Any]) -> Model:
    """Return a chain with global average pooling behind it."""
    height, width, _ = architecture["layers"][-1]["out"]
    pool = {"op": "avgpool", "kernel": [height, width]}
    return build_architecture({**architecture, "layers": [*architecture["layers"], pool]})


def _theirs(entry: Mapping[str, str]) -> Row:
    if not entry["ram_kb"]:
        return {"theirs_ram_bytes": None, "theirs_compute_factor": None}
    return {
        "theirs_ram_bytes": round(float(entry["ram_kb"]) * KB),
        "theirs_compute_factor": float(entry["compute_factor"]),
    }
