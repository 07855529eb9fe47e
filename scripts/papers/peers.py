"""Published figures of other engines for the same networks: RAM, and cycles beside instructions."""

from __future__ import annotations

from functools import cache
from typing import Any

import tflite_fuse
from scripts.papers.data import Data, Row
from scripts.papers.tiled_networks import at_resolution
from scripts.zoo.architectures import build_architecture
from tflite_fuse.errors import LimitError, UsageError
from tflite_fuse.model import serialize_model
from tflite_fuse.report.report import Report

SAME = {
    "mlperf_tiny_vww96": "mlperf_tiny_vww96_int8",
    "mlperf_tiny_resnet8": "mlperf_tiny_resnet8_int8",
    "mlperf_tiny_dscnn_kws": "mlperf_tiny_dscnn_kws_int8",
    "mlperf_tiny_autoencoder": "mlperf_tiny_autoencoder_int8",
    "tflm_person_detect": "tflm_person_detect_int8",
    "mcunet_in3": "mcunet_in3_int8",
    "mcunet_vww1": "mcunet_vww1_float_io_int8",
    "mcunet_detection_fpn": "mcunet_detection_fpn_int8",
    "MobileNetV1 0.25 96x96x3 (backbone of vww96)": "mlperf_tiny_vww96_int8",
    "MobileNetV1 0.25 96x96x1": "tflm_person_detect_int8",
}
"""Names of the published tables, and the file that is that network."""

BUILT = {"MobileNetV2 0.35 128x128x3": 128, "MobileNetV2 0.35 224x224x3": 224}
"""Networks that are built from layers, with random weights, for pictures of so many rows."""

WHY_NOT = {
    "MobileNetV2 0.30 80x80 1000 classes": "its layers are not published",
    "MobileNetV2-0.25": "trained for CIFAR-10 by its authors, not at hand",
    "sliding windows": "a range over several networks, none of them at hand",
}

CORES = {"cortex-m4": "cortex-m4", "cortex-m7": "cortex-m7", "cortex-m7 (STM32H753)": "cortex-m7"}
"""Cores of the published table that instructions are predicted for."""


def peers_ram(data: Data) -> dict[str, Any]:
    """Return published RAM beside whole arenas after the default rewrite, and with the input streamed."""
    rows = []
    for entry in data.facts("peers_ram"):
        theirs = int(entry["ram_bytes"]) if entry["ram_bytes"].isdigit() else None
        row: Row = {"model": entry["model"], "system": entry["system"], "theirs_bytes": theirs}
        row |= {"what_is_counted": entry["what_is_counted"], "source": entry["source"]}
        model = _model(data, entry["model"])
        if model is None:
            row["note"] = WHY_NOT.get(entry["model"], "")
        else:
            before, after, streamed = _arenas(model)
            row |= {"tflm_arena_bytes": before, "ours_arena_bytes": after, "ours_streamed_arena_bytes": streamed}
        rows.append(row)
    return {
        "paper": "peers-ram",
        "accounting": "theirs as published, what they count stands beside it. Ours: the arena to allocate for TFLM's"
        " reference kernels on 32-bit Arm, after the default rewrite (no recompute unless it saves time), int8 at both"
        " ends; and with the input handed out row by row. Stack and application are in no figure, except where"
        " it says whole.",
        "rows": rows,
    }


def peers_cycles(data: Data) -> dict[str, Any]:
    """Return published cycles beside predicted instructions after the default rewrite."""
    rows = []
    for entry in data.facts("peers_cycles"):
        model, core = _model(data, entry["model"]), CORES.get(entry["core"])
        row: Row = {"model": entry["model"], "core": entry["core"], "system": entry["system"]}
        row |= {"theirs_cycles": round(float(entry["million_cycles"]) * 1e6), "source": entry["source"]}
        if core is None or model is None:
            row["note"] = "instructions of this core are not predicted"
        else:
            prediction = _rewritten(model, core).prediction
            assert prediction is not None
            row["ours_instructions"] = prediction.instructions
        rows.append(row)
    return {
        "paper": "peers-cycles",
        "accounting": "theirs: cycles measured on boards. Ours: instructions predicted, of blocks and of what stays"
        " outside them as if the device library ran it. A Cortex-M7 can issue two instructions in a cycle and a "
        "Cortex-M4 cannot; memories add waiting. So these columns are no comparison of speed before somebody "
        "runs ours on a board.",
        "rows": rows,
    }


def _model(data: Data, name: str) -> bytes | None:
    if name in SAME:
        return serialize_model(data.file(SAME[name]))
    if name in BUILT:
        network = data.architecture("mbv2-w0.35")
        return serialize_model(build_architecture(_resized(network, BUILT[name])))
    return None


def _resized(network: dict[str, Any], side: int) -> dict[str, Any]:
    """Return another resolution, with the classes it has."""
    (classes,) = {layer["cout"] for layer in network["layers"] if layer["op"] == "fc"}
    return at_resolution(network, side, classes)


@cache
def _rewritten(model: bytes, target: str = "generic", mode: str = "resident") -> Report:
    return tflite_fuse.rewrite(model, verify=False, int8_io=True, target=target, input_mode=mode).report


def _arenas(model: bytes) -> tuple[int, int, int | None]:
    report = _rewritten(model)
    try:
        streamed = _rewritten(model, mode="streamed").after.arena_bytes
    except (LimitError, UsageError):
        streamed = None
    return report.before.arena_bytes, report.after.arena_bytes, streamed
