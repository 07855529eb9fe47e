"""msf-CNN's Tables 2, 3 and 4: the boards it was run on, its least RAM, and the time that takes on each board.

Published times of Table 4 are read where somebody has them (``facts/msf_cnn_table4_latency_ms.csv``: board, model,
latency_ms); of the board Table 6 is about, they are that table's least RAM.
"""

from __future__ import annotations

from typing import Any

from scripts.papers.data import KB, Data, Row, search
from scripts.papers.msf_cnn import MSF_CHAINS
from tflite_fuse.boards.table import Board, known_boards
from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.search.front import Front, Point
from tflite_fuse.search.fusion_front import SearchOptions

BOARDS = {
    "nucleo_f767zi": Target.CORTEX_M7,
    "disco_f746ng": Target.CORTEX_M7,
    "nucleo_f412zg": Target.CORTEX_M4,
    "esp32-s3-devkitc-1": Target.XTENSA,
    "esp32-c3-devkitm-1": Target.ESP32C3,
}
"""Boards of the paper that this package has a row of, and the cost model nearest to their core. The paper's sixth, a
SiFive board of 16 kB, is not among them."""

TABLE_6_BOARD = "nucleo_f767zi"


def msf_cnn_least(data: Data) -> dict[str, Any]:
    """Table 3: the least RAM of four systems and ours, each in the accounting of its column."""
    entries = {entry["system"]: entry for entry in data.facts("msf_cnn_table3_min_ram")}
    rows = []
    for name, chain in MSF_CHAINS.items():
        if data.model in (None, name):
            front, _ = search(data.network(chain).without_network_tensors())
            best = front.least_ram()
            theirs = {f"theirs {key}: ram_bytes": round(float(e[f"{name}_kb"]) * KB) for key, e in entries.items()}
            rows.append({"model": name, **theirs, **_ours(best)})
    return {
        "paper": "msf-cnn-least",
        "accounting": "MCUNetV2's and StreamNet's figures are those of StreamNet's Table 1 for mbv2-w0.35, mcunet-vww1 "
        "and mcunet-in3, measured with TinyEngine; msf-CNN's were measured, too, and are above those of its own "
        "analysis (Table 1, P1:inf). Ours: the least the search finds for the same chain of layers at any compute "
        "factor, input and last output not counted",
        "rows": rows,
    }


def msf_cnn_boards(data: Data) -> dict[str, Any]:
    """Tables 2 and 4: what the least RAM costs on each board."""
    found = {board.name: board for board in known_boards()}
    published = {(row["board"], row["model"]): row for row in data.facts_if_any("msf_cnn_table4_latency_ms")}
    (theirs,) = (row for row in data.facts("msf_cnn_table3_min_ram") if row["system"] == "msf-CNN")
    rows: list[Row] = []
    for name, chain in MSF_CHAINS.items():
        if data.model not in (None, name):
            continue
        graph, ram = data.network(chain).without_network_tensors(), round(float(theirs[f"{name}_kb"]) * KB)
        fronts = {target: _front(graph, target) for target in dict.fromkeys(BOARDS.values())}
        for board, target in BOARDS.items():
            milliseconds = published.get((board, name), {}).get("latency_ms")
            rows.append(
                {
                    "model": name,
                    "theirs_ram_bytes": ram,
                    "theirs_ms": None if milliseconds is None else float(milliseconds),
                    "theirs_time_factor": _time_factor(data, name) if board == TABLE_6_BOARD else None,
                    **_on_board(found[board], target, fronts[target], ram),
                }
            )
    return {
        "paper": "msf-cnn-boards",
        "accounting": "theirs: least RAM (Table 3), and at it the milliseconds over those of the unfused network where "
        "they are known: on the board of Table 6. Ours: the least RAM of the search, whether three quarters of the "
        "board's RAM hold it, and instructions predicted for the core over those of the same operators one by one in "
        "the same library, at that RAM and in no more RAM than theirs; plain layer chains, input outside, blocks over "
        "spent input. esp32c3 stands for rv32imc, xtensa for what a C compiler makes of the library, without vector "
        "instructions",
        "rows": rows,
    }


def _front(graph: PricedProgram, target: Target) -> Front:
    return search(graph, SearchOptions(target=target, overlap=True, single_operators=True))[0]


def _on_board(board: Board, target: Target, front: Front, ram: int) -> Row:
    best = front.least_ram()
    return {
        "board": board.name,
        "core": target.value,
        "mhz": board.mhz,
        "board_ram_bytes": board.ram_bytes,
        "ours_ram_bytes": best.ram_bytes,
        "ours_fits": best.ram_bytes <= board.ram_bytes - board.ram_bytes // 4,
        "ours_instructions": best.work,
        "ours_instruction_factor": best.compute_factor,
        "ours_factor_at_theirs": front.least_compute(ram).compute_factor,
    }


def _time_factor(data: Data, name: str) -> float | None:
    times = {
        row["constraint"]: float(row["latency_ms"])
        for row in data.facts("msf_cnn_table6_f767zi")
        if row["model"] == name and row["latency_ms"]
    }
    return times["P1:inf"] / times["vanilla"] if {"P1:inf", "vanilla"} <= set(times) else None


def _ours(point: Point) -> Row:
    return {"ours_ram_bytes": point.ram_bytes, "ours_compute_factor": point.compute_factor}
