"""Event simulation of devices and links, message by message.

Every device has one processor, sends one message at a time and receives one message at a time; the three are
independent. A message occupies its sender, travels for the latency of the slower end, then occupies its receiver; or it
occupies a shared medium once, for as long as the slower end takes. Every device performs its own actions in order: a
send returns at once, a receive waits. There are no global rounds. The switch between devices is not modelled: no loss,
no congestion, no retransmission.

The actions are a plan's transfers and tasks in order (``simulate``), or the steps of fragments with the messages that
control an inference (``cluster/simulation``).

Several inferences overlap as far as the workers allow: each executes its actions of one inference, then of the next.
The coordinator begins one more than there are workers, and another one whenever one ends.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tflite_fuse.split.cut.plan import Plan, Task, Transfer
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.protocol import HEADER_BYTES, PAYLOAD_BYTES, Kind

TaskSeconds = Callable[[int, Task], float]
"""(phase, task) → seconds on its worker."""

_CONTROL_BYTES = 4
"""Payload of START and of STEP."""

_LANES = ("compute", "send", "receive")


@dataclass(frozen=True)
class Span:
    """An interval of activity.

    Attributes:
        device: its device.
        lane: ``compute``, ``send`` or ``receive``.
        name: of the task or message.
        start, end: seconds.
    """

    device: int
    lane: str
    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Sent:
    """A message.

    Attributes:
        source, target: devices.
        kind, item: as in its header.
        payload_bytes: without the header.
        inference: its number, from 0.
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
    """An action of a device: sends, waits for a message, or computes (``kind`` STEP) for some seconds."""

    kind: Kind
    sends: bool
    peer: int = COORDINATOR
    item: int = 0
    payload_bytes: int = 0
    seconds: float = 0.0
    name: str = ""


def acts_of_message(sends: bool, peer: int, first: int, nbytes: int) -> Iterator[Act]:
    """Yield the messages that carry so many bytes, numbered from ``first``."""
    for index, start in enumerate(range(0, nbytes, PAYLOAD_BYTES)):
        yield Act(Kind.DATA, sends, peer, first + index, min(PAYLOAD_BYTES, nbytes - start))


@dataclass
class Usage:
    """Seconds of a device. Links are occupied in parallel to computing and waiting.

    Attributes:
        computes, waits: seconds.
        sends, receives: seconds its link is occupied.
    """

    computes: float = 0.0
    waits: float = 0.0
    sends: float = 0.0
    receives: float = 0.0


Who = tuple[int, int]
"""(device, 0); for the coordinator, which exists once per inference, (device, inference)."""


Awaited = tuple[Who, int, int]
"""(receiver, sender, inference)."""


class Course:
    """Inferences of devices with given actions, simulated, as many at a time as possible.

    Attributes:
        seconds: until all devices have performed their actions.
        ends: of each inference, seconds until the coordinator has performed its actions.
        usage: by device.
        messages: in the order of sending.
        lanes: seconds each device's link is occupied, by ("send" or "receive", device), and each ("medium", number).
        taken: seconds from each device's first computation to the end of its last.
        spans: of computing and receiving, if requested.
    """

    def __init__(
        self,
        acts: Mapping[int, Sequence[Act]],
        cluster: Cluster,
        inferences: int = 1,
        *,
        controls: bool = False,
        spans: bool = False,
    ) -> None:
        """Simulate all inferences. Raises ValueError at a deadlock.

        Args:
            acts: actions in one inference of the coordinator and of every worker that takes part, in ascending order.
            cluster: their links.
            inferences: at least 1.
            controls: whether START and STEP are sent, too.
            spans: whether to record them.
        """
        workers = [device for device in acts if device != COORDINATOR]
        starts = [Act(Kind.START, True, device, 0, _CONTROL_BYTES) for device in workers if controls]
        started = [Act(Kind.START, False, COORDINATOR, 0, _CONTROL_BYTES)] if controls else []
        self.ends = [0.0] * inferences
        self.ahead = len(workers) + 1
        self.cluster = cluster
        self.usage = {device: Usage() for device in acts}
        self.now = self.seconds = 0.0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.number = 0
        self.queues: dict[tuple[str, int], deque[Sent]] = defaultdict(deque)
        self.lanes: dict[tuple[str, int], float] = defaultdict(float)
        self.occupied: set[tuple[str, int]] = set()
        self.came: dict[Awaited, int] = defaultdict(int)
        self.awaited: dict[Who, Awaited] = {}
        self.messages: list[Sent] = []
        self.spans: list[Span] = []
        self.controls, self.records = controls, spans
        self.began: dict[int, float] = {}
        self.taken: dict[int, float] = {}
        self.running: dict[Who, Iterator[None]] = {}
        for device in workers:
            every = [(number, act) for number in range(inferences) for act in (*started, *acts[device])]
            self.running[device, 0] = self._perform((device, 0), every)
        for number in range(inferences):
            own = [(number, act) for act in (*starts, *acts[COORDINATOR])]
            self.running[COORDINATOR, number] = self._perform((COORDINATOR, number), own)
        self._go()

    @property
    def busy(self) -> tuple[float, ...]:
        """Return the seconds that each worker with actions computes."""
        return tuple(self.usage[device].computes for device in sorted(self.usage) if device != COORDINATOR)

    @property
    def period(self) -> float:
        """Return the least seconds between inferences if many overlap: those of the busiest worker or link.

        Each worker works on one inference at a time.
        """
        workers = (seconds for device, seconds in self.taken.items() if device != COORDINATOR)
        return max((0.0, *workers, *self.lanes.values()))

    @property
    def spacing(self) -> float | None:
        """Return the seconds between the ends of inferences, without the first quarter; None if there is only one."""
        first = len(self.ends) // 4
        return (self.ends[-1] - self.ends[first]) / (len(self.ends) - 1 - first) if len(self.ends) > 1 else None

    @property
    def values(self) -> list[Sent]:
        """Return the messages with values, which a plan counts, without START and STEP."""
        return [each for each in self.messages if each.kind is Kind.DATA]

    @property
    def payload_bytes(self) -> int:
        """Return the bytes of values over all links: a plan's ``bytes_moved`` times the inferences."""
        return sum(each.payload_bytes for each in self.values)

    @property
    def frame_bytes(self) -> int:
        """Return the same with the messages' headers."""
        return sum(each.frame_bytes for each in self.values)

    def _go(self) -> None:
        for who in [who for who in self.running if who[1] < self.ahead]:
            self._go_on(who)
        while self.queue:
            self.now, _, action = heapq.heappop(self.queue)
            action()
        if stuck := sorted({device for device, _ in self.running}):
            raise ValueError(f"devices {stuck} wait for ever")

    def _at(self, when: float, action: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.queue, (when, self.number, action))

    def _go_on(self, who: Who) -> None:
        next(self.running[who], None)

    def _perform(self, who: Who, acts: Sequence[tuple[int, Act]]) -> Iterator[None]:
        """Perform a device's actions; yield while it computes, and while it waits for a message."""
        device, number = who
        for inference, act in acts:
            begin = self.now
            if act.kind is Kind.STEP:
                self.began.setdefault(device, begin)
                self._at(begin + act.seconds, lambda: self._go_on(who))
                yield
                self.usage[device].computes += act.seconds
                self.taken[device] = self.now - self.began[device]
                self._note(device, "compute", act.name or f"step {act.item}", begin)
                if self.controls and device != COORDINATOR:
                    self._send(Sent(device, COORDINATOR, Kind.STEP, act.item, _CONTROL_BYTES, inference))
            elif act.sends:
                self._send(Sent(device, act.peer, act.kind, act.item, act.payload_bytes, inference))
            else:
                message = who, act.peer, inference
                if not self.came[message]:
                    self.awaited[who] = message
                    yield
                    if device != COORDINATOR or len(self.ends) == 1:
                        self.usage[device].waits += self.now - begin
                self.came[message] -= 1
        del self.running[who]
        self.seconds = max(self.seconds, self.now)
        if device == COORDINATOR:
            self.ends[number] = self.now
            if (device, number + self.ahead) in self.running:
                self._go_on((device, number + self.ahead))

    def _send(self, message: Sent) -> None:
        self.messages.append(message)
        self._queue(*self.cluster.lane(message.source, message.target), message)

    def _queue(self, lane: str, device: int, message: Sent) -> None:
        self.queues[lane, device].append(message)
        self._occupy(lane, device)

    def _occupy(self, lane: str, device: int) -> None:
        """Put the next message of a link on it, unless the link is busy."""
        if (lane, device) in self.occupied or not self.queues[lane, device]:
            return
        message, begin = self.queues[lane, device].popleft(), self.now
        self.occupied.add((lane, device))
        source = message.source if lane != "receive" else device
        seconds = self.cluster.occupied(source, message.target, message.frame_bytes)
        self.lanes[lane, device] += seconds

        def over() -> None:
            self.occupied.discard((lane, device))
            if lane == "receive":
                self.usage[device].receives += seconds
                self._received(message, begin)
            else:
                self.usage[message.source].sends += seconds
                ends = [self.cluster.device(each).link.latency for each in (message.source, message.target)]
                self._at(self.now + max(ends), lambda: self._through(lane, message))
            self._occupy(lane, device)

        self._at(begin + seconds, over)

    def _through(self, lane: str, message: Sent) -> None:
        """Let a message that has travelled occupy the receiver's link, unless it used a shared medium."""
        if lane == "send":
            self._queue("receive", message.target, message)
        else:
            self._received(message, self.now)

    def _received(self, message: Sent, begin: float) -> None:
        self._note(message.target, "receive", f"{message.kind.name} {message.item}", begin)
        if message.kind is Kind.STEP:
            return
        who = message.target, message.inference if message.target == COORDINATOR else 0
        received = who, message.source, message.inference
        self.came[received] += 1
        if self.awaited.get(who) == received:
            del self.awaited[who]
            self._go_on(who)

    def _note(self, device: int, lane: str, name: str, begin: float) -> None:
        if self.records:
            self.spans.append(Span(device, lane, name, begin, self.now))


def simulate(plan: Plan, cluster: Cluster, task_seconds: TaskSeconds, spans: bool = False) -> Course:
    """Simulate a plan once. Raises ValueError at a deadlock."""
    acts: dict[int, list[Act]] = {device: [] for device in (*range(plan.workers), COORDINATOR)}

    def transfer(each: Transfer) -> None:
        acts[each.source] += acts_of_message(True, each.target, each.value, each.nbytes)
        acts[each.target] += acts_of_message(False, each.source, each.value, each.nbytes)

    for number, phase in enumerate(plan.phases):
        for each in phase.transfers:
            transfer(each)
        for task in phase.tasks:
            taken = task_seconds(number, task)
            acts[task.worker].append(Act(Kind.STEP, False, item=number, seconds=taken, name=phase.name))
        for each in phase.returned:
            transfer(each)
    return Course(acts, cluster, spans=spans)


def chrome_trace(course: Course, cluster: Cluster) -> dict[str, Any]:
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
        for span in course.spans
    ]
    return {"displayTimeUnit": "ms", "traceEvents": [*names, *events]}
