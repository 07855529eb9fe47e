"""StreamNet: peak memory and work on ten networks."""

from __future__ import annotations

from typing import Any

from scripts.papers.data import KB, MODES, Data, Row, search
from scripts.papers.measured import INPUTS, measure
from scripts.points import least_ram
from scripts.zoo.architectures import build_architecture
from tflite_fuse.model.outside import InputMode
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import FuseOptions


def streamnet(data: Data) -> dict[str, Any]:
    """Return tables 1 and 2: peak memory and work of StreamNet-2D and MCUNetV2 on ten networks."""
    rows, seconds = [], {}
    for entry in data.facts("streamnet_table1"):
        graph = data.network(entry["model"])
        row: Row = {
            "model": entry["model"],
            "image_bytes": sum(graph.sizes[tensor] for tensor in graph.inputs),
            "macs": graph.work,
            "theirs_stream_2d_ram_bytes": round(float(entry["sn2d_mem_kb"]) * KB),
            "theirs_stream_2d_macs": round(float(entry["sn2d_mmac"]) * 1e6),
            "theirs_mcunetv2_ram_bytes": round(float(entry["mcunetv2_mem_kb"]) * KB),
            "theirs_mcunetv2_macs": round(float(entry["mcunetv2_mmac"]) * 1e6),
            "theirs_mcunetv2_time_over_2d": float(entry["mcunetv2_ms"]) / float(entry["sn2d_ms"]),
        }
        for mode, options in MODES.items():
            front, took = search(graph, options)
            row["unfused_ram_bytes"] = front.unfused.ram_bytes
            row[f"{mode}, F=1: ram_bytes"] = least_ram(front, 1.0).ram_bytes
            row[f"{mode}, F<=1.1: ram_bytes"] = least_ram(front, 1.1).ram_bytes
            seconds[f"{entry['model']}, {mode}"] = took
        rows.append({**_streamnet_runs(data, row), **row} if data.inputs else row)
    return {
        "paper": "streamnet",
        "accounting": "ours: largest working set with residuals held; resident: the input image counts all the while it"
        " is read; streamed: its rows come through a callback; external: it lies in memory that is not counted;"
        " overlap: a block's output may lie over its input at a safe distance. Theirs: peak memory as printed in their"
        " tables, measured with TinyEngine, which computes depthwise convolutions and additions in place; what it"
        " counts besides activations is not said there. Measured: the head of the arena at zero recompute with"
        " overlap.",
        "rows": rows,
        "seconds": seconds,
    }


def _streamnet_runs(data: Data, row: Row) -> Row:
    """Return real runs at zero recompute, for the columns in front of what the search says."""
    theirs = row["theirs_stream_2d_ram_bytes"]
    result: Row = {"model": row["model"], "image_bytes": row["image_bytes"], "theirs_stream_2d_ram_bytes": theirs}
    model = build_architecture(data.architecture(row["model"]))
    for mode in INPUTS:
        run = measure(row["model"], model, FuseOptions(goal=Goal(max_compute=1.0), input_mode=mode), data.inputs)
        result[f"measured {mode.value} head_bytes"], result[f"{mode.value} ratio"] = (
            run.head_bytes,
            run.head_bytes / theirs,
        )
        result[f"measured {mode.value} arena_bytes"] = run.arena_bytes
        if mode is InputMode.RESIDENT:
            result["resident / image"] = run.head_bytes / row["image_bytes"]
    return result
