"""Published times beside predicted instructions, each relative to its own base; none of the times is measured here.

A ratio of times and a ratio of instructions are different quantities; both give the slowdown of a network for the RAM
it saves, in the library they were measured or predicted for.
"""

from __future__ import annotations

from typing import Any

from scripts.papers.data import KB, Data, Row, search
from scripts.papers.layers import without_network_tensors
from scripts.papers.msf_cnn import MSF_CHAINS
from scripts.points import least_compute
from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import LimitError
from tflite_fuse.search.front import Front, Point
from tflite_fuse.search.fusion_front import SearchOptions

CORE = Target.CORTEX_M7
"""That of the paper's board."""


def msf_cnn_time(data: Data) -> dict[str, Any]:
    """Return table 6 of msf-CNN: latency over the unfused network's; ours in instructions, in at most their RAM."""
    rows: list[Row] = []
    entries = data.facts("msf_cnn_table6_f767zi")
    base = {entry["model"]: float(entry["latency_ms"]) for entry in entries if entry["constraint"] == "vanilla"}
    for name in base:
        graph = without_network_tensors(data.network(MSF_CHAINS[name]))
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


def _at_most(front: Front, ram: int) -> Point | None:
    try:
        return least_compute(front, ram)
    except LimitError:
        return None
