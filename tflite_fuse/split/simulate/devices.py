"""A timeline as Chrome's trace viewer and Perfetto read it.

What devices do with their fragments, event by event: the programs that really run, on predicted cores and links.

Beside ``events``, which knows a plan's transfers and tasks, this follows each device's own fragment: a worker computes,
sends and waits for what comes next in its fragment, one after the other, as the C worker does. What is sent lies in the
network's buffers at once; there one message after another occupies the sender's link, travels for the latency of the
slower end, and occupies the receiver's. Messages are those of ``cluster run`` once all are connected: START to each
worker, DATA, and STEP after everything a worker computed. No loss, no congestion; copies inside a buffer take no time.

Several inferences overlap as far as the workers allow: each goes through its fragment for one inference, then for the
next. The coordinator begins one more than there are workers, and another one whenever one ends.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.fragments.decode import Fragment
from tflite_fuse.split.fragments.structs import StepKind
from tflite_fuse.split.protocol import HEADER_BYTES, PAYLOAD_BYTES, Kind
from tflite_fuse.split.simulate.events import Span, Timeline

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


_CONTROL_BYTES = 4
"""Payload of START and of STEP."""

_MESSAGES = (StepKind.SEND, StepKind.RECEIVE)


@dataclass(frozen=True)
class Sent:
    """A message.

    Attributes:
        source, target: devices.
        kind, item: as in its header.
        payload_bytes: without the header.
        inference: which, from 0.
    """

    source: int
    target: int
    kind: Kind
    item: int
    payload_bytes: int
    inference: int = 0

    @property
    def frame_bytes(self) -> int:
        return self.payload_bytes + HEADER_BYTES


@dataclass(frozen=True)
class Act:
    """One thing a device does: sends, waits for a message, or computes (``kind`` STEP) for some seconds."""

    kind: Kind
    sends: bool
    peer: int = COORDINATOR
    item: int = 0
    payload_bytes: int = 0
    seconds: float = 0.0


@dataclass
class Usage:
    """Where a device's seconds go. Links are busy beside the rest.

    Attributes:
        computes, waits: seconds.
        sends, receives: seconds its link is occupied.
    """

    computes: float = 0.0
    waits: float = 0.0
    sends: float = 0.0
    receives: float = 0.0


@dataclass(frozen=True)
class Course:
    """What happened.

    Attributes:
        ends: of each inference, seconds until the coordinator had all outputs; ``seconds`` is the last.
        usage: by device.
        messages: in the order in which they were handed to the network.
        spans: what was computed and received.
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
        """Seconds from the end of one inference to the next one's, without the first quarter; None if there is one."""
        first = len(self.ends) // 4
        return (self.ends[-1] - self.ends[first]) / (len(self.ends) - 1 - first) if len(self.ends) > 1 else None

    @property
    def values(self) -> tuple[Sent, ...]:
        """Messages with values: those a plan counts, without START and STEP."""
        return tuple(each for each in self.messages if each.kind is Kind.DATA)

    @property
    def moved_bytes(self) -> int:
        """Return the bytes of values over all links: what a plan's ``bytes_moved`` are, for each inference."""
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
    """What a device does in order.

    Args:
        fragment: its own.
        seconds: of each of its blocks, in order.
    """
    steps, number = fragment.steps, 0
    durations = iter(seconds)
    while number < len(steps):
        step = steps[number]
        if step.kind in _MESSAGES:
            yield from _parts(step.kind == StepKind.SEND, step.peer, step.number, step.bytes)
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


def _parts(sends: bool, peer: int, first: int, nbytes: int) -> Iterator[Act]:
    for index, start in enumerate(range(0, nbytes, PAYLOAD_BYTES)):
        yield Act(Kind.DATA, sends, peer, first + index, min(PAYLOAD_BYTES, nbytes - start))


def run_devices(acts: Mapping[int, Sequence[Act]], cluster: Cluster, inferences: int = 1) -> Course:
    """Inferences, as many at a time as there can be. Raises ValueError: the devices wait for each other.

    Args:
        acts: of the coordinator and of every worker that takes part, in ascending order, in one inference.
        cluster: their links.
        inferences: at least 1.
    """
    return _Run(acts, cluster, inferences).course()


Who = tuple[int, int]
"""A device and 0; of the coordinator, which is there once for every inference, that one's number."""


@dataclass
class _Device:
    """Attributes: what it does, how far it is, since when it waits, and messages that came, by sender and inference."""

    acts: list[tuple[int, Act]]
    done: int = 0
    since: float = 0.0
    waiting: bool = False
    came: dict[Who, int] = field(default_factory=lambda: defaultdict(int))


class _Run:
    def __init__(self, acts: Mapping[int, Sequence[Act]], cluster: Cluster, inferences: int) -> None:
        workers = [device for device in acts if device != COORDINATOR]
        starts = [Act(Kind.START, True, device, 0, _CONTROL_BYTES) for device in workers]
        started = Act(Kind.START, False, COORDINATOR, 0, _CONTROL_BYTES)
        self.devices: dict[Who, _Device] = {}
        for device in workers:
            every = [(number, act) for number in range(inferences) for act in (started, *acts[device])]
            self.devices[device, 0] = _Device(every)
        for number in range(inferences):
            own = [(number, act) for act in (*starts, *acts[COORDINATOR])]
            self.devices[COORDINATOR, number] = _Device(own)
        self.ends = [0.0] * inferences
        self.ahead = len(workers) + 1
        self.cluster = cluster
        self.usage = {device: Usage() for device in acts}
        self.queue: list[tuple[float, int, Callable[[float], None]]] = []
        self.number = 0
        self.lanes: dict[tuple[str, int], deque[Sent]] = defaultdict(deque)
        self.busy: set[tuple[str, int]] = set()
        self.sent: list[Sent] = []
        self.spans: list[Span] = []

    def course(self) -> Course:
        for who in self.devices:
            if who[1] < self.ahead:
                self._go_on(who, 0.0)
        while self.queue:
            now, _, action = heapq.heappop(self.queue)
            action(now)
        if stuck := sorted({who[0] for who in self.devices if not self._is_done(who)}):
            raise ValueError(f"devices {stuck} wait for ever")
        return Course(tuple(self.ends), self.usage, tuple(self.sent), tuple(self.spans))

    def _is_done(self, who: Who) -> bool:
        return self.devices[who].done == len(self.devices[who].acts)

    def _at(self, when: float, action: Callable[[float], None]) -> None:
        self.number += 1
        heapq.heappush(self.queue, (when, self.number, action))

    def _go_on(self, who: Who, now: float) -> None:
        device = self.devices[who]
        while not self._is_done(who):
            inference, act = device.acts[device.done]
            if act.kind is Kind.STEP:
                self._compute(who, inference, act, now)
                return
            if act.sends:
                self._send(Sent(who[0], act.peer, act.kind, act.item, act.payload_bytes, inference), now)
            elif device.came[act.peer, inference]:
                device.came[act.peer, inference] -= 1
            else:
                device.waiting, device.since = True, now
                return
            device.done += 1
        if who[0] == COORDINATOR:
            self.ends[who[1]] = now
            following = COORDINATOR, who[1] + self.ahead
            if following in self.devices:
                self._go_on(following, now)

    def _compute(self, who: Who, inference: int, act: Act, now: float) -> None:
        def computed(then: float) -> None:
            self.usage[who[0]].computes += act.seconds
            self.spans.append(Span(who[0], "compute", f"step {act.item}", now, then))
            if who[0] != COORDINATOR:
                self._send(Sent(who[0], COORDINATOR, Kind.STEP, act.item, _CONTROL_BYTES, inference), then)
            self.devices[who].done += 1
            self._go_on(who, then)

        self._at(now + act.seconds, computed)

    def _send(self, message: Sent, now: float) -> None:
        self.sent.append(message)
        self._queue(*self.cluster.lane(message.source, message.target), message, now)

    def _queue(self, lane: str, device: int, message: Sent, now: float) -> None:
        self.lanes[lane, device].append(message)
        self._occupy(lane, device, now)

    def _occupy(self, lane: str, device: int, now: float) -> None:
        if (lane, device) in self.busy or not self.lanes[lane, device]:
            return
        message = self.lanes[lane, device].popleft()
        self.busy.add((lane, device))
        source = message.source if lane != "receive" else device
        seconds = self.cluster.occupied(source, message.target, message.frame_bytes)

        def over(then: float) -> None:
            self.busy.discard((lane, device))
            if lane == "receive":
                self.usage[device].receives += seconds
                self._received(message, now, then)
            else:
                self.usage[message.source].sends += seconds
                ends = [self.cluster.device(each).link.latency for each in (message.source, message.target)]
                self._at(then + max(ends), lambda later: self._through(lane, message, later))
            self._occupy(lane, device, then)

        self._at(now + seconds, over)

    def _through(self, lane: str, message: Sent, now: float) -> None:
        """What has travelled occupies the receiver's link, unless it was a medium that both ends share."""
        if lane == "send":
            self._queue("receive", message.target, message, now)
        else:
            self._received(message, now, now)

    def _received(self, message: Sent, began: float, now: float) -> None:
        self.spans.append(Span(message.target, "receive", f"{message.kind.name} {message.item}", began, now))
        self._arrived(message, now)

    def _arrived(self, message: Sent, now: float) -> None:
        if message.kind is Kind.STEP:
            return
        who = message.target, message.inference if message.target == COORDINATOR else 0
        device = self.devices[who]
        device.came[message.source, message.inference] += 1
        if device.waiting:
            inference, act = device.acts[device.done]
            if (act.peer, inference) == (message.source, message.inference):
                device.waiting = False
                if who[0] != COORDINATOR or len(self.ends) == 1:
                    self.usage[who[0]].waits += now - device.since
                self._go_on(who, now)
