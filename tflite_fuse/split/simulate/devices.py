"""What devices do with their fragments, event by event: the programs that really run, on predicted cores and links.

Beside ``events``, which lets everything begin as soon as it can, this follows each device's own order: a worker
computes, sends and waits for what comes next in its fragment, one after the other, as the C worker does. What is sent
lies in the network's buffers at once; there one message after another occupies the sender's link, travels for the
latency of the slower end, and occupies the receiver's. Messages are those of ``cluster run`` once all are connected:
START to each worker, DATA, and STEP after everything a worker computed. No loss, no congestion; copies inside a buffer
take no time.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tflite_fuse.split.cluster.devices import COORDINATOR, PAYLOAD_BYTES, Cluster
from tflite_fuse.split.cluster.link.messages import HEADER_BYTES, Kind
from tflite_fuse.split.fragments.decode import Fragment
from tflite_fuse.split.fragments.structs import StepKind
from tflite_fuse.split.simulate.events import Span

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
    """

    source: int
    target: int
    kind: Kind
    item: int
    payload_bytes: int

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
        seconds: until the coordinator had all outputs.
        usage: by device.
        messages: in the order in which they were handed to the network.
        spans: what was computed and received.
    """

    seconds: float
    usage: Mapping[int, Usage]
    messages: tuple[Sent, ...]
    spans: tuple[Span, ...]

    @property
    def payload_bytes(self) -> int:
        return sum(each.payload_bytes for each in self.messages)

    @property
    def frame_bytes(self) -> int:
        return sum(each.frame_bytes for each in self.messages)

    def of_link(self, source: int, target: int) -> list[Sent]:
        """Messages from one device to another, in order."""
        return [each for each in self.messages if (each.source, each.target) == (source, target)]


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


def run_devices(acts: Mapping[int, Sequence[Act]], cluster: Cluster) -> Course:
    """One inference. Raises ValueError: the devices wait for each other.

    Args:
        acts: of the coordinator and of every worker that takes part, in ascending order.
        cluster: their links.
    """
    return _Run(acts, cluster).course()


@dataclass
class _Device:
    """Attributes: what it does, how far it is, since when it waits, and messages that have come, by sender."""

    acts: list[Act]
    done: int = 0
    since: float = 0.0
    waiting: bool = False
    came: dict[int, int] = field(default_factory=lambda: defaultdict(int))


class _Run:
    def __init__(self, acts: Mapping[int, Sequence[Act]], cluster: Cluster) -> None:
        workers = [device for device in acts if device != COORDINATOR]
        starts = [Act(Kind.START, True, device, 0, _CONTROL_BYTES) for device in workers]
        started = Act(Kind.START, False, COORDINATOR, 0, _CONTROL_BYTES)
        self.devices = {device: _Device([started, *acts[device]]) for device in workers}
        self.devices[COORDINATOR] = _Device([*starts, *acts[COORDINATOR]])
        self.cluster = cluster
        self.usage = {device: Usage() for device in acts}
        self.queue: list[tuple[float, int, Callable[[float], None]]] = []
        self.number = 0
        self.lanes: dict[tuple[str, int], deque[Sent]] = defaultdict(deque)
        self.busy: set[tuple[str, int]] = set()
        self.sent: list[Sent] = []
        self.spans: list[Span] = []

    def course(self) -> Course:
        for device in self.devices:
            self._go_on(device, 0.0)
        end = 0.0
        while self.queue:
            now, _, action = heapq.heappop(self.queue)
            action(now)
            if self._is_done(COORDINATOR) and not end:
                end = now
        if stuck := [device for device in self.devices if not self._is_done(device)]:
            raise ValueError(f"devices {stuck} wait for ever")
        return Course(end, self.usage, tuple(self.sent), tuple(self.spans))

    def _is_done(self, device: int) -> bool:
        return self.devices[device].done == len(self.devices[device].acts)

    def _at(self, when: float, action: Callable[[float], None]) -> None:
        self.number += 1
        heapq.heappush(self.queue, (when, self.number, action))

    def _go_on(self, number: int, now: float) -> None:
        device = self.devices[number]
        while not self._is_done(number):
            act = device.acts[device.done]
            if act.kind is Kind.STEP:
                self._compute(number, act, now)
                return
            if act.sends:
                self._send(Sent(number, act.peer, act.kind, act.item, act.payload_bytes), now)
            elif device.came[act.peer]:
                device.came[act.peer] -= 1
            else:
                device.waiting, device.since = True, now
                return
            device.done += 1

    def _compute(self, number: int, act: Act, now: float) -> None:
        def computed(then: float) -> None:
            self.usage[number].computes += act.seconds
            self.spans.append(Span(number, "compute", f"step {act.item}", now, then))
            if number != COORDINATOR:
                self._send(Sent(number, COORDINATOR, Kind.STEP, act.item, _CONTROL_BYTES), then)
            self.devices[number].done += 1
            self._go_on(number, then)

        self._at(now + act.seconds, computed)

    def _send(self, message: Sent, now: float) -> None:
        self.sent.append(message)
        self._queue("send", message.source, message, now)

    def _queue(self, lane: str, device: int, message: Sent, now: float) -> None:
        self.lanes[lane, device].append(message)
        self._occupy(lane, device, now)

    def _occupy(self, lane: str, device: int, now: float) -> None:
        if (lane, device) in self.busy or not self.lanes[lane, device]:
            return
        message = self.lanes[lane, device].popleft()
        self.busy.add((lane, device))
        seconds = self.cluster.device(device).link.seconds(message.frame_bytes)

        def over(then: float) -> None:
            self.busy.discard((lane, device))
            if lane == "send":
                self.usage[device].sends += seconds
                ends = self.cluster.device(device).link.latency, self.cluster.device(message.target).link.latency
                self._at(then + max(ends), lambda later: self._queue("receive", message.target, message, later))
            else:
                self.usage[device].receives += seconds
                self.spans.append(Span(device, "receive", f"{message.kind.name} {message.item}", now, then))
                self._arrived(message, then)
            self._occupy(lane, device, then)

        self._at(now + seconds, over)

    def _arrived(self, message: Sent, now: float) -> None:
        if message.kind is Kind.STEP:
            return
        device = self.devices[message.target]
        device.came[message.source] += 1
        if device.waiting and device.acts[device.done].peer == message.source:
            device.waiting = False
            self.usage[message.target].waits += now - device.since
            self._go_on(message.target, now)
