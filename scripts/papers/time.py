"""Published times beside predicted instructions, each over its own base: no clock of ours stands behind a figure.

A ratio of times and a ratio of instructions are different things; both say how much longer a network takes for the RAM
it saves, in the library they were measured or predicted for.
"""

from __future__ import annotations

from typing import Any

from scripts.papers.data import KB, Data, Row, search
from scripts.papers.msf_cnn import MSF_CHAINS
from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.errors import LimitError
from tflite_fuse.model.outside import InputMode
from tflite_fuse.search.front import Front, Point
from tflite_fuse.search.fusion_front import SearchOptions
from tflite_fuse.search.schemes import Scheme

CORE = Target.CORTEX_M7
"""The boards of both papers have a Cortex-M7."""

SCHEMES = {
    "mcunetv2": Scheme.HEAD_PATCHES,
    "sn1d": Scheme.STREAM_1D,
    "sn2d": Scheme.STREAM_2D,
    "auto": Scheme.AUTO,
}
"""Columns of StreamNet's tables, and the scheme of this package that is the same idea."""


def msf_cnn_time(data: Data) -> dict[str, Any]:
    """Table 6 of msf-CNN: latency over the unfused network's; ours in instructions, in no more RAM than theirs."""
    rows: list[Row] = []
    entries = data.facts("msf_cnn_table6_f767zi")
    base = {entry["model"]: float(entry["latency_ms"]) for entry in entries if entry["constraint"] == "vanilla"}
    for name in base:
        graph = data.network(MSF_CHAINS[name]).without_network_tensors()
        front, _ = search(graph, SearchOptions(target=CORE, overlap=True, single_operators=True))
        for entry in entries:
            if entry["model"] == name and entry["constraint"] != "vanilla" and entry["ram_kb"]:
                ram = round(float(entry["ram_kb"]) * KB)
                point = _at_most(front, ram)
                rows.append(
                    {
                        "model": name,
                        "constraint": entry["constraint"],
                        "theirs_ram_bytes": ram,
                        "theirs_time_factor": float(entry["latency_ms"]) / base[name],
                        "ours_ram_bytes": None if point is None else point.ram_bytes,
                        "ours_instruction_factor": None if point is None else point.compute_factor,
                    }
                )
    return {
        "paper": "msf-cnn-time",
        "accounting": "theirs: milliseconds on an STM32F767ZI over those of their own unfused network, plain C. Ours: "
        f"instructions predicted for {CORE.value} over those of the same operators one by one in the same "
        "library, the fewest in no more RAM than theirs, input outside, blocks over spent input.",
        "rows": rows,
    }


def streamnet_work(data: Data) -> dict[str, Any]:
    """Tables 1 to 3 of StreamNet: work and time of four schemes in StreamNet-2D's memory, each over its own base."""
    rows = []
    times = {entry["model"]: entry for entry in data.facts("streamnet_table3_latency_ms")}
    works = {entry["model"]: entry for entry in data.facts("streamnet_table2_mmac")}
    for entry in data.facts("streamnet_table1"):
        name, graph = entry["model"], data.network(entry["model"])
        ram = round(float(entry["sn2d_mem_kb"]) * KB)
        row: Row = {"model": name, "ram_bytes": ram, "unfused_macs": graph.work}
        for column in ("mcunetv2", "mcunetv2_plus", "sn1d", "sn2d"):
            row[f"theirs {column}: macs"] = round(float(works[name][column]) * 1e6)
            row[f"theirs {column}: work factor"] = float(works[name][column]) * 1e6 / graph.work
            row[f"theirs {column}: time over sn2d"] = float(times[name][column]) / float(times[name]["sn2d"])
        for column, scheme in SCHEMES.items():
            row |= _scheme(graph, column, scheme, ram)
        rows.append(row)
    return {
        "paper": "streamnet-work",
        "accounting": "theirs: multiply-accumulates of their Table 2 over those of the layers one by one, and"
        " milliseconds of their Table 3 (STM32F767ZI) over StreamNet-2D's; they print no time without patches. Ours:"
        " the same idea as a restriction of this package's search, in its own executor, with the input outside the"
        " arena: the fewest multiply-accumulates, and the fewest instructions predicted for the same core, in"
        " no more RAM than StreamNet-2D has in their Table 1, over those of the layers one by one in the same"
        " library. Where a scheme reaches that RAM nowhere, its least RAM is taken and marked.",
        "rows": rows,
    }


def _scheme(graph: PricedProgram, column: str, scheme: Scheme, ram: int) -> Row:
    overlap = scheme is Scheme.AUTO
    found: Row = {}
    for unit, target in (("work", None), ("instruction", CORE)):
        options = SearchOptions(
            scheme=scheme, input_mode=InputMode.EXTERNAL, target=target, overlap=overlap, single_operators=overlap
        )
        front, _ = search(graph, options)
        point = _at_most(front, ram)
        best = point or front.least_ram()
        found[f"ours {column}: {unit} factor"] = best.compute_factor
        if unit == "work":
            found[f"ours {column}: ram_bytes"] = best.ram_bytes
            found[f"ours {column}: fits"] = point is not None
    return found


def _at_most(front: Front, ram: int) -> Point | None:
    try:
        return front.least_compute(ram)
    except LimitError:
        return None
