"""Simulates devices that execute their fragments on predicted cores and links, and writes timelines for trace viewers.

Other than ``events``, which simulates a plan's transfers and tasks, this follows each device's own fragment: a worker
computes, sends and waits in the order of its fragment, as the C worker does. A sent message is in the network's buffers
at once; it occupies the sender's link after those before it, travels for the latency of the slower end, and occupies
the receiver's link. Messages are those of ``cluster run`` once all are connected: START to each worker, DATA, and STEP
after every step that a worker computed. No loss, no congestion; copies inside a buffer take no time.

Several inferences overlap as far as the workers allow: each runs its fragment for one inference, then for the next. The
coordinator begins one more than there are workers, and another one whenever one ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.fragments.decode import Fragment
from tflite_fuse.split.fragments.structs import StepKind
from tflite_fuse.split.protocol import Kind
from tflite_fuse.split.simulate.events import Act, Run, Sent, Span, Timeline, Usage, acts_of_message

_LANES = ("compute", "send", "receive")


def chrome_trace(timeline: Timeline | Course, cluster: Cluster) -> dict[str, Any]:
    """Return a Chrome or Perfetto trace in microseconds: one process per device, rows for computing and receiving."""
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


_MESSAGES = (StepKind.SEND, StepKind.RECEIVE)


@dataclass(frozen=True)
class Course:
    """The simulated inferences.

    Attributes:
        ends: seconds until the coordinator had all outputs of each inference; ``seconds`` is the last.
        usage: by device.
        messages: in the order of sending.
        spans: of computing and receiving.
    """

    ends: tuple[float, ...]
    usage: Mapping[int, Usage]
    messages: tuple[Sent, ...]
    spans: tuple[Span, ...]

    @property
    def seconds(self) -> float:
        return self.ends[-1]

    @property
    def period(self) -> float | None:
        """Return the seconds between the ends of inferences, without the first quarter; None if there is only one."""
        first = len(self.ends) // 4
        return (self.ends[-1] - self.ends[first]) / (len(self.ends) - 1 - first) if len(self.ends) > 1 else None

    @property
    def values(self) -> tuple[Sent, ...]:
        """Return the messages with values, which a plan counts, without START and STEP."""
        return tuple(each for each in self.messages if each.kind is Kind.DATA)

    @property
    def moved_bytes(self) -> int:
        """Return the bytes of values over all links: a plan's ``bytes_moved`` times the inferences."""
        return sum(each.payload_bytes for each in self.values)

    @property
    def moved_frame_bytes(self) -> int:
        """Return the same with the messages' headers."""
        return sum(each.frame_bytes for each in self.values)

    @property
    def payload_bytes(self) -> int:
        return sum(each.payload_bytes for each in self.messages)

    @property
    def frame_bytes(self) -> int:
        return sum(each.frame_bytes for each in self.messages)


def acts_of(fragment: Fragment, seconds: Sequence[float]) -> Iterator[Act]:
    """Yield a device's actions in order.

    Args:
        fragment: its fragment.
        seconds: of each of its blocks, in order.
    """
    steps, number = fragment.steps, 0
    durations = iter(seconds)
    while number < len(steps):
        step = steps[number]
        if step.kind in _MESSAGES:
            yield from acts_of_message(step.kind == StepKind.SEND, step.peer, step.number, step.bytes)
            number += 1
            continue
        begin, number = number, _skip_copies(fragment, number)
        took = 0.0
        if number < len(steps) and steps[number].kind not in _MESSAGES:
            took = next(durations) if steps[number].kind == StepKind.BLOCK else 0.0
            number = _skip_copies(fragment, number + 1)
        yield Act(Kind.STEP, False, item=begin, seconds=took)


def _skip_copies(fragment: Fragment, number: int) -> int:
    while number < len(fragment.steps) and fragment.steps[number].kind == StepKind.COPY:
        number += 1
    return number


def run_devices(acts: Mapping[int, Sequence[Act]], cluster: Cluster, inferences: int = 1) -> Course:
    """Return simulated inferences, as many at a time as possible. Raises ValueError at a deadlock.

    Args:
        acts: actions in one inference of the coordinator and of every worker that takes part, in ascending order.
        cluster: their links.
        inferences: at least 1.
    """
    run = Run(acts, cluster, inferences, controls=True, spans=True)
    return Course(tuple(run.ends), run.usage, tuple(run.sent), tuple(run.spans or ()))
