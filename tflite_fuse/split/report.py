"""A split as JSON and as a table."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from tflite_fuse.report.printable import printable
from tflite_fuse.split.cluster.devices import COORDINATOR
from tflite_fuse.split.cut.plan import Plan, Task, Transfer
from tflite_fuse.split.cut.regions import Box, Region
from tflite_fuse.split.splitting import Split

SCHEMA = "tflite-fuse/split/1"
PLAN_SCHEMA = "tflite-fuse/plan/1"


def split_json(split: Split) -> dict[str, Any]:
    """What ``--json`` prints; ``schemas/split.schema.json`` describes it."""
    verified = split.verified
    return {
        "schema": SCHEMA,
        "workers": [
            {
                "name": device.name,
                "ram_bytes": needs.ram_bytes,
                "flash_bytes": needs.flash_bytes,
                "work": round(needs.instructions),
                "busy_s": busy,
            }
            for device, needs, busy in zip(split.cluster.workers, split.needs, split.timeline.busy, strict=True)
        ],
        "bytes_moved": split.timeline.payload_bytes,
        "frame_bytes": split.timeline.frame_bytes,
        "messages": split.timeline.messages,
        "time_s": split.timeline.seconds,
        "time_one_s": split.one_seconds,
        "verified": None
        if verified is None
        else {
            "runtime": verified.runtime,
            "version": verified.version,
            "inputs": verified.inputs,
            "witnesses": list(verified.witnesses),
            "bit_exact": verified.bit_exact,
            "first_difference": verified.first_difference,
        },
        "notes": list(split.notes),
    }


def plan_json(split: Split) -> dict[str, Any]:
    """The plan itself; ``schemas/plan.schema.json`` describes it."""
    network, plan = split.network, split.plan
    return {
        "schema": PLAN_SCHEMA,
        "strategy": plan.strategy,
        "workers": [worker.name for worker in split.cluster.workers],
        "values": [
            {"name": tensor.name, "shape": [tensor.height, tensor.width, tensor.channels]} for tensor in network.values
        ],
        "nodes": [
            {"name": node.name, "inputs": list(node.inputs), "outputs": list(node.outputs)} for node in network.nodes
        ],
        "inputs": list(network.inputs),
        "outputs": list(network.outputs),
        "phases": _phases(plan),
    }


def _phases(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "name": phase.name,
            "transfers": [_transfer(each) for each in phase.transfers],
            "tasks": [_task(each) for each in phase.tasks],
            "returned": [_transfer(each) for each in phase.returned],
        }
        for phase in plan.phases
    ]


def _transfer(transfer: Transfer) -> dict[str, Any]:
    source, target = (None if device == COORDINATOR else device for device in (transfer.source, transfer.target))
    return {"value": transfer.value, "from": source, "to": target, "region": _region(transfer.region)}


def _task(task: Task) -> dict[str, Any]:
    return {
        "worker": None if task.worker == COORDINATOR else task.worker,
        "steps": [{"node": step.node, "region": _region(step.region)} for step in task.steps],
        "owned": [{"value": value, "region": _region(region)} for value, region in task.owned],
        "copies": [{"value": value, "region": _region(region)} for value, region in task.copies],
    }


def _region(region: Region) -> list[list[list[int]]]:
    return [_box(box) for box in region]


def _box(box: Box) -> list[list[int]]:
    return [list(box.rows), list(box.columns), list(box.channels)]


def split_table(split: Split) -> Table:
    """A row per worker."""
    table = Table("worker", "RAM", "most for", "flash", "instructions", "computes")
    for device, needs, busy in zip(split.cluster.workers, split.needs, split.timeline.busy, strict=True):
        ram, flash = f"{needs.ram_bytes:,} B", f"{needs.flash_bytes:,} B"
        name, largest = printable(device.name), printable(needs.largest)
        table.add_row(name, ram, largest, flash, f"{needs.instructions:,.0f}", f"{busy * 1000:.1f} ms")
    return table


def split_verdict(split: Split) -> str:
    """One sentence."""
    ratio = split.timeline.seconds / split.one_seconds if split.one_seconds else 1.0
    verified = split.verified
    proved = "not run" if verified is None else f"same bytes as {verified.runtime} on {verified.inputs} inputs"
    return (
        f"{split.timeline.payload_bytes:,} bytes moved in {split.timeline.messages:,} messages, "
        f"{split.timeline.seconds * 1000:.1f} ms predicted, {ratio:.2f} of one worker alone; {proved}"
    )
