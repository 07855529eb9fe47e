"""A timeline as Chrome's trace viewer and Perfetto read it."""

from __future__ import annotations

from typing import Any

from tflite_fuse.split.cluster.devices import COORDINATOR, Cluster
from tflite_fuse.split.simulate.devices import Course
from tflite_fuse.split.simulate.events import Timeline

_LANES = ("compute", "send", "receive")


def chrome_trace(timeline: Timeline | Course, cluster: Cluster) -> dict[str, Any]:
    """One process per device, with a row for what it computes and one for what it receives; times in microseconds."""
    names = [
        {"ph": "M", "name": "process_name", "pid": device + 1, "tid": 0, "args": {"name": cluster.device(device).name}}
        for device in (COORDINATOR, *range(len(cluster.workers)))
    ]
    events = [
        {
            "ph": "X",
            "name": span.name,
            "cat": span.lane,
            "pid": span.device + 1,
            "tid": _LANES.index(span.lane),
            "ts": round(span.start * 1e6, 3),
            "dur": round((span.end - span.start) * 1e6, 3),
        }
        for span in timeline.spans
    ]
    return {"displayTimeUnit": "ms", "traceEvents": [*names, *events]}
