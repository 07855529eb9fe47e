#!/usr/bin/env python3
"""Models in a fast and a slow memory: what they take of each, and the traffic between them.

bench_memories.py [--write] [NAME ...]: lines of the tables of the models whose name holds a NAME; without one all lines
and the front of a network. Networks of the first table also run on an emulated Cortex-M7 with two memories of the
declared sizes, where a plugin counts the bytes that instructions read and write, and outputs are compared with those
of the original in TFLM. Public models and published figures are read from a folder shared/ beside the project; random
weights stand in for other networks'.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.papers.peers import SAME
from scripts.papers.tiled_networks import at_resolution
from scripts.readme import write_part
from scripts.zoo import networks
from scripts.zoo.architectures import build_architecture, load_architecture
from tests.device.memories import run_in_two_memories
from tflite_fuse.export import export_model
from tflite_fuse.memory.regions import memories_of
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.memories import Memories, slow_tensors
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.report.report import MemoryReport
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs

ROOT = Path(__file__).resolve().parents[1]
SHARED, PAGE = ROOT.parent / "shared", ROOT / "docs" / "memories.md"
FAST, FRONT_TO, CYCLES = 64_000, 512_000, 4
"""Bytes of the fast memory, of that up to which there is a front, and cycles that a byte of the slow one costs more."""

HEAD = (
    "| network | TFLM | one memory | fast | slow | read | written | each tensor once "
    "| counted: read, written | counted in the arena | output bytes equal |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
)
FRONT_HEAD = (
    "| fast memory | arena | slow | read | written | cycles of traffic | a kB more saves |\n"
    "|--:|--:|--:|--:|--:|--:|--:|\n"
)
PEER_HEAD = "| model | TiGrIS, fast + slow | one memory | fast + slow | read | written |\n|---|--:|--:|--:|--:|--:|\n"


def _mobilenet() -> bytes:
    described = load_architecture(SHARED / "arch" / "mbv2-w1.0-r112.json")
    return serialize_model(build_architecture(at_resolution(described, 224, 1000)))


NETWORKS: dict[str, Callable[[], bytes]] = {
    "MCUNet in3, 176 x 176": lambda: (SHARED / "models" / "mcunet_in3_int8.tflite").read_bytes(),
    "MobileNetV2 1.0, 224 x 224": _mobilenet,
    "YOLOv5n-like, 192 x 192": lambda: serialize_model(networks.yolo_network(192)),
    "YOLOv5n-like, 320 x 320": lambda: serialize_model(networks.yolo_network(320)),
}


def memories(fast: int) -> Memories:
    """Return a fast memory of a number of bytes and a slow one of 8 MiB."""
    costs = {"read_cycles_per_byte": CYCLES, "write_cycles_per_byte": CYCLES}
    return memories_of({"region": [{"name": "fast", "size": fast}, {"name": "slow", "size": "8MiB", **costs}]})


def in_memories(data: bytes, fast: int) -> tuple[bytes, MemoryReport]:
    """Return a model rewritten for a fast memory of a number of bytes, and its use of both memories."""
    result = tflite_fuse.rewrite(data, memory=memories(fast), verify=False)
    assert result.report.memories is not None
    return result.model, result.report.memories


def row(name: str) -> str:
    """Return one line of the first table."""
    data = NETWORKS[name]()
    alone = tflite_fuse.rewrite(data, verify=False).report
    model, found = in_memories(data, FAST)
    read = load_model(model)
    slow, graph = slow_tensors(read), read.main
    sizes = {each: tensor_nbytes(graph.tensors[each]) for each in ({} if slow is None else slow.offsets)}
    once = sum(size * (1 if each in (*graph.inputs, *graph.outputs) else 2) for each, size in sizes.items())
    ratio = (found.read_bytes + found.written_bytes) / once if once else 1.0
    return (
        f"| {name} | {alone.before.arena_bytes:,} | {alone.after.arena_bytes:,} | {found.fast_bytes:,} "
        f"| {found.slow_bytes:,} | {found.read_bytes:,} | {found.written_bytes:,} | {ratio:.2f} "
        f"| {counted(data, model)} |"
    )


def counted(data: bytes, rewritten: bytes) -> str:
    """Return the last columns of the first table: what one run of a rewritten model on an emulated core shows.

    Raises:
        RuntimeError: the run ends in an error, or writes outside both memories.
    """
    samples = generate_inputs(load_model(data), 5)[-1:]
    expected = b"".join(np.asarray(each).tobytes() for each in tflm.run(data, samples).outputs[0])
    with tempfile.TemporaryDirectory(prefix="tflite-fuse-memories-") as folder:
        export_model(rewritten, Path(folder, "model"), "c")
        run = run_in_two_memories(Path(folder, "model"), samples[0][0].tobytes())
    if not run.intact:
        raise RuntimeError("the run wrote outside the two memories")
    outputs = b"".join(run.outputs)
    equal = sum(a == b for a, b in zip(outputs, expected, strict=True))
    read, written = (f"{nbytes / 1e6:.1f} MB" for nbytes in run.fast)
    return f"{run.slow[0]:,}, {run.slow[1]:,} | {read}, {written} | {equal:,} of {len(expected):,}"


def peer_row(model: str, theirs: int) -> str:
    """Return one line of the second table."""
    data = (SHARED / "models" / f"{SAME[model]}.tflite").read_bytes()
    alone = tflite_fuse.rewrite(data, verify=False, int8_io=True).report.after.arena_bytes
    return f"| {model} | {theirs:,} | {alone:,} | {_halved(data, alone)} |"


def _halved(data: bytes, alone: int) -> str:
    try:
        result = tflite_fuse.rewrite(data, memory=memories(alone // 2), verify=False, int8_io=True)
    except tflite_fuse.TfliteFuseError:
        return "does not fit half | | "
    found = result.report.memories
    assert found is not None
    return f"{found.fast_bytes:,} + {found.slow_bytes:,} | {found.read_bytes:,} | {found.written_bytes:,}"


def front() -> str:
    """Return the table of sizes of the fast memory, of the first network."""
    rows = tflite_fuse.pareto(next(iter(NETWORKS.values()))(), memory=memories(FRONT_TO)).rows
    lines, before = FRONT_HEAD, None
    for found in (row.memories for row in rows if row.memories is not None):
        numbers = (found.fast_room, found.fast_bytes, found.slow_bytes, found.read_bytes, found.written_bytes)
        saves = "-" if before is None else f"{before.saves_per_kb(found):,.0f}"
        lines += f"| {' | '.join(f'{number:,}' for number in (*numbers, found.cycles))} | {saves} |\n"
        before = found
    return lines


def peers() -> dict[str, int]:
    """Return the published sums of fast and slow memory in bytes, by model."""
    with (SHARED / "facts" / "peers_ram.csv").open(newline="") as lines:
        rows = [each for each in csv.DictReader(lines) if each["what_is_counted"] == "fast + slow"]
    return {each["model"]: int(each["ram_bytes"]) for each in rows if each["model"] in SAME}


def main() -> None:
    """Print the tables, or write them into the page with --write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"replace the tables in {PAGE.name}")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.write and arguments.names:
        parser.error("the page holds all models: give no NAME with --write")
    chosen = lambda name: not arguments.names or any(part in name for part in arguments.names)  # noqa: E731
    tables = {"memories": HEAD, "tigris": PEER_HEAD} | ({} if arguments.names else {"front": front()})
    for name in filter(chosen, NETWORKS):
        tables["memories"] += row(name) + "\n"
    for model, theirs in peers().items():
        tables["tigris"] += peer_row(model, theirs) + "\n" if chosen(model) else ""
    for name, table in tables.items():
        print(table)
        if arguments.write:
            write_part(name, table, PAGE)


if __name__ == "__main__":
    main()
