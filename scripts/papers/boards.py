"""msf-CNN's Tables 2, 3 and 4: its boards, its least RAM, and the time of that on each board.

Published times are those of Table 6, whose board is one of Table 4's and whose row of least RAM is that table's entry.
"""

from __future__ import annotations

from typing import Any

from scripts.papers.data import KB, Data, Row, search
from scripts.papers.layers import without_network_tensors
from scripts.papers.msf_cnn import MSF_CHAINS
from scripts.points import least_compute, least_ram
from tflite_fuse.boards.table import Board, known_boards
from tflite_fuse.boards.time import counted_pairs, expected_time
from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.search.front import Front, Point
from tflite_fuse.search.fusion_front import SearchOptions

HIFIVE1 = Board(
    name="hifive1-revb",
    title="HiFive1 Rev B",
    vendor="SiFive",
    mcu="fe310",
    core="",
    mhz=320,
    ram_bytes=16_384,
    flash_bytes=16_777_216,
    source="platformio/platform-sifive:boards/hifive1-revb.json",
)
"""The paper's smallest board, too small for what this package is for, and so not in its table of boards."""

BOARDS = {
    "nucleo_f767zi": Target.CORTEX_M7,
    "disco_f746ng": Target.CORTEX_M7,
    "nucleo_f412zg": Target.CORTEX_M4,
    "esp32-s3-devkitc-1": Target.XTENSA,
    "esp32-c3-devkitm-1": Target.ESP32C3,
    HIFIVE1.name: Target.ESP32C3,
}
"""All six boards of the paper, and the cost model nearest to their core."""

TABLE_6_BOARD = "nucleo_f767zi"


def msf_cnn_least(data: Data) -> dict[str, Any]:
    """Return table 3: the least RAM of four systems and ours, each in the accounting of its column."""
    entries = {entry["system"]: entry for entry in data.facts("msf_cnn_table3_min_ram")}
    rows = []
    for name, chain in MSF_CHAINS.items():
        if data.model in (None, name):
            front, _ = search(without_network_tensors(data.network(chain)))
            best = least_ram(front)
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
    """Return tables 2 and 4: the cost of the least RAM on each board."""
    boards_by_name = {board.name: board for board in (*known_boards(), HIFIVE1)}
    (theirs,) = (row for row in data.facts("msf_cnn_table3_min_ram") if row["system"] == "msf-CNN")
    rows: list[Row] = []
    for name, chain in MSF_CHAINS.items():
        if data.model not in (None, name):
            continue
        graph, ram = without_network_tensors(data.network(chain)), round(float(theirs[f"{name}_kb"]) * KB)
        fronts = {target: _front(graph, target) for target in dict.fromkeys(BOARDS.values())}
        for board, target in BOARDS.items():
            least, unfused = _published_ms(data, name) if board == TABLE_6_BOARD else (None, None)
            rows.append(
                {
                    "model": name,
                    "theirs_ram_bytes": ram,
                    "theirs_ms": least,
                    "theirs_time_factor": least / unfused if least and unfused else None,
                    **_on_board(boards_by_name[board], target, fronts[target], ram),
                }
            )
    return {
        "paper": "msf-cnn-boards",
        "accounting": "theirs: least RAM (Table 3), and on the board of Table 6 its milliseconds there, and these over"
        " those of the unfused network. Ours: the least RAM of the search, whether three quarters of the board's RAM"
        " hold it, and instructions predicted for the core, at that RAM and in no more RAM than theirs, over those of"
        " the same operators one by one in the same library; plain layer chains, input outside, blocks over spent"
        " input. Milliseconds are estimates: predicted instructions times cycles per instruction, 1 to 2 where nothing"
        " is published of a core. esp32c3 stands for rv32imc, xtensa for what a C compiler makes of the library,"
        " without vector instructions; the HiFive1 executes from serial flash, whose waiting is in no figure",
        "rows": rows,
    }


def _front(graph: PricedProgram, target: Target) -> Front:
    return search(graph, SearchOptions(target=target, overlap=True, single_operators=True))[0]


def _on_board(board: Board, target: Target, front: Front, ram: int) -> Row:
    best = least_ram(front)
    time = expected_time(target, board.mhz, best.work, counted_pairs())
    return {
        "board": board.name,
        "core": target.value,
        "mhz": board.mhz,
        "board_ram_bytes": board.ram_bytes,
        "ours_ram_bytes": best.ram_bytes,
        "ours_fits": best.ram_bytes <= board.ram_bytes - board.ram_bytes // 4,
        "ours_instructions": best.work,
        "ours_least_ms": time.least_ms,
        "ours_most_ms": time.most_ms,
        "ours_instruction_factor": best.compute_factor,
        "ours_factor_at_theirs": least_compute(front, ram).compute_factor,
    }


def _published_ms(data: Data, name: str) -> tuple[float | None, float | None]:
    """Return milliseconds at the least RAM and of the unfused network, on the board of Table 6."""
    rows = [row for row in data.facts("msf_cnn_table6_f767zi") if row["model"] == name]
    times = {row["constraint"]: float(row["latency_ms"]) for row in rows}
    return times.get("P1:inf"), times.get("vanilla")


def _ours(point: Point) -> Row:
    return {"ours_ram_bytes": point.ram_bytes, "ours_compute_factor": point.compute_factor}
