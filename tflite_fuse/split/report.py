"""A split as JSON and as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from tflite_fuse.report.notebook import printable
from tflite_fuse.split.splitting import Split

SCHEMA = "tflite-fuse/split/1"


def split_json(split: Split) -> dict[str, Any]:
    """Return the object that ``--json`` prints; ``schemas/split.schema.json`` describes it."""
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
        "layers": [_layer_json(split, number) for number in range(len(split.plan.phases))],
        "bytes_moved": split.timeline.payload_bytes,
        "frame_bytes": split.timeline.frame_bytes,
        "messages": len(split.timeline.messages),
        "time_s": split.timeline.seconds,
        "time_one_s": split.one_seconds,
        "period_s": split.timeline.period,
        "verified": verified
        and {**asdict(verified), "witnesses": list(verified.witnesses), "bit_exact": verified.bit_exact},
        "notes": list(split.notes),
    }


def _layer_json(split: Split, number: int) -> dict[str, Any]:
    """Return the bytes that one phase of the plan moves, and memory and work of each worker in it."""
    phase = split.plan.phases[number]
    travels = (*phase.transfers, *phase.returned)
    return {
        "name": phase.name,
        "bytes_moved": phase.moved,
        "workers": [
            {
                "name": device.name,
                "live_bytes": needs.live_by_phase[number],
                "work": round(needs.by_phase.get(number, 0)),
                "received_bytes": sum(each.nbytes for each in travels if each.target == worker),
                "sent_bytes": sum(each.nbytes for each in travels if each.source == worker),
            }
            for worker, (device, needs) in enumerate(zip(split.cluster.workers, split.needs, strict=True))
        ],
    }


def split_table(split: Split) -> Table:
    """Return a table with a row per worker."""
    table = Table("worker", "RAM", "most for", "flash", "instructions", "computes")
    for device, needs, busy in zip(split.cluster.workers, split.needs, split.timeline.busy, strict=True):
        ram, flash = f"{needs.ram_bytes:,} B", f"{needs.flash_bytes:,} B"
        name, largest = printable(device.name), printable(needs.largest)
        table.add_row(name, ram, largest, flash, f"{needs.instructions:,.0f}", f"{busy * 1000:.1f} ms")
    return table


def split_verdict(split: Split) -> str:
    """Return one sentence."""
    period = split.timeline.period
    ratio = split.timeline.seconds / split.one_seconds if split.one_seconds else 1.0
    verified = split.verified
    proved = "not run" if verified is None else f"same bytes as {verified.runtime} on {verified.inputs} inputs"
    if not any(needs.instructions for needs in split.needs):
        return f"no worker computes: every operator runs at the coordinator; {proved}"
    return (
        f"{split.timeline.payload_bytes:,} bytes moved in {len(split.timeline.messages):,} messages, "
        f"{split.timeline.seconds * 1000:.1f} ms predicted, {ratio:.2f} of one worker alone, "
        f"{period * 1000:.1f} ms an inference where several overlap; {proved}"
    )
