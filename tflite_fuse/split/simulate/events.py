"""A plan on simulated devices and links, message by message.

Every device has one processor, sends one message after another and receives one message after another; the three do
not disturb each other. A message occupies its sender, travels for the latency of the slower end, then occupies its
receiver; or occupies a medium that both share, once, for as long as the slower end takes. Every device goes through its
own transfers and tasks in the plan's order: what it sends leaves at once, what it receives it waits for. Nobody waits
for a round to end. What the switch between them does is not part of this: no loss, no congestion, no retransmission.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tflite_fuse.split.cut.plan import Plan, Task, Transfer
from tflite_fuse.split.devices import COORDINATOR, Cluster
from tflite_fuse.split.protocol import HEADER_BYTES, PAYLOAD_BYTES

TaskSeconds = Callable[[int, Task], float]
"""How long a task of a phase takes on its worker."""


@dataclass(frozen=True)
class Span:
    """Something that took a while.

    Attributes:
        device: whose.
        lane: ``compute``, ``send`` or ``receive``.
        name: what.
        start, end: seconds.
    """

    device: int
    lane: str
    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """What happened.

    Attributes:
        seconds: until the coordinator had all outputs and every worker was done.
        busy: seconds each worker computed.
        payload_bytes, frame_bytes: sent over all links, without and with the messages' headers.
        messages: how many.
        spans: tasks and transfers, where they were asked for.
        lanes: seconds each device's link is occupied, by ("send" or "receive", device), and each ("medium", number).
        taken: seconds from the first thing each worker computes to the end of the last.
    """

    seconds: float
    busy: tuple[float, ...]
    payload_bytes: int
    frame_bytes: int
    messages: int
    spans: tuple[Span, ...] = ()
    lanes: Mapping[tuple[str, int], float] = field(default_factory=dict)
    taken: Mapping[int, float] = field(default_factory=dict)

    @property
    def period(self) -> float:
        """Seconds from one inference to the next where many overlap, each worker being at one at a time: of the worker
        or link that one inference takes longest."""
        return max((0.0, *self.taken.values(), *self.lanes.values()))


def simulate(plan: Plan, cluster: Cluster, task_seconds: TaskSeconds, spans: bool = False) -> Timeline:
    """Run a plan once."""
    return _Simulation(plan, cluster, task_seconds, spans).run()


@dataclass
class _Job:
    """A transfer or a task that waits for others.

    Attributes:
        what: the transfer, the task with its phase, or None of one that only waits, for many.
        waits: how many jobs it still waits for.
        next: the jobs that wait for it.
        left: messages of a transfer that have not arrived.
    """

    what: Transfer | tuple[int, Task] | None
    waits: int
    next: list[int]
    left: int = 0
    start: float = 0.0


class _Simulation:
    def __init__(self, plan: Plan, cluster: Cluster, task_seconds: TaskSeconds, spans: bool) -> None:
        self.plan, self.cluster, self.task_seconds = plan, cluster, task_seconds
        self.jobs = _jobs(plan)
        self.queue: list[tuple[float, int, Callable[[float], None]]] = []
        self.number = 0
        self.sending: dict[tuple[str, int], deque[tuple[int, int]]] = defaultdict(deque)
        self.receiving: dict[int, deque[tuple[int, int]]] = defaultdict(deque)
        self.computing: dict[int, deque[int]] = defaultdict(deque)
        self.active: set[tuple[str, int]] = set()
        self.busy = [0.0] * plan.workers
        self.spans: list[Span] | None = [] if spans else None
        self.payload = self.messages = 0
        self.lanes: dict[tuple[str, int], float] = defaultdict(float)
        self.began: dict[int, float] = {}
        self.taken: dict[int, float] = {}

    def run(self) -> Timeline:
        now = 0.0
        for index, job in enumerate(self.jobs):
            if not job.waits:
                self._ready(index, 0.0)
        while self.queue:
            now, _, action = heapq.heappop(self.queue)
            action(now)
        frames = self.payload + HEADER_BYTES * self.messages
        busy, spans = tuple(self.busy), tuple(self.spans or ())
        return Timeline(now, busy, self.payload, frames, self.messages, spans, self.lanes, self.taken)

    def _at(self, when: float, action: Callable[[float], None]) -> None:
        self.number += 1
        heapq.heappush(self.queue, (when, self.number, action))

    def _ready(self, index: int, now: float) -> None:
        job = self.jobs[index]
        if isinstance(job.what, Transfer):
            sizes = list(_messages(job.what.nbytes))
            job.left, job.start = len(sizes), now
            lane = self.cluster.lane(job.what.source, job.what.target)
            self.sending[lane].extend((index, size) for size in sizes)
            self._send(lane, now)
        elif job.what is None:
            self._done(index, now)
        else:
            self.computing[job.what[1].worker].append(index)
            self._compute(job.what[1].worker, now)

    def _done(self, index: int, now: float) -> None:
        for following in self.jobs[index].next:
            self.jobs[following].waits -= 1
            if not self.jobs[following].waits:
                self._ready(following, now)

    def _send(self, lane: tuple[str, int], now: float) -> None:
        if lane in self.active or not self.sending[lane]:
            return
        index, size = self.sending[lane].popleft()
        self.active.add(lane)
        transfer = self._transfer(index)
        links = [self.cluster.device(each).link for each in (transfer.source, transfer.target)]
        self.payload, self.messages = self.payload + size, self.messages + 1
        seconds = self.cluster.occupied(transfer.source, transfer.target, size + HEADER_BYTES)
        arrive = self._arrive if lane[0] == "send" else self._came

        def sent(then: float) -> None:
            self.active.discard(lane)
            self._at(then + max(each.latency for each in links), lambda later: arrive(index, size, later))
            self._send(lane, then)

        self.lanes[lane] += seconds
        self._at(now + seconds, sent)

    def _arrive(self, index: int, size: int, now: float) -> None:
        device = self._transfer(index).target
        self.receiving[device].append((index, size))
        self._receive(device, now)

    def _receive(self, device: int, now: float) -> None:
        if ("receive", device) in self.active or not self.receiving[device]:
            return
        index, size = self.receiving[device].popleft()
        self.active.add(("receive", device))

        def received(then: float) -> None:
            self.active.discard(("receive", device))
            self._came(index, size, then)
            self._receive(device, then)

        seconds = self.cluster.device(device).link.seconds(size + HEADER_BYTES)
        self.lanes["receive", device] += seconds
        self._at(now + seconds, received)

    def _came(self, index: int, _: int, now: float) -> None:
        job, transfer = self.jobs[index], self._transfer(index)
        job.left -= 1
        if not job.left:
            self._note(transfer.target, "receive", f"value {transfer.value}", job.start, now)
            self._done(index, now)

    def _compute(self, worker: int, now: float) -> None:
        if ("compute", worker) in self.active or not self.computing[worker]:
            return
        index = self.computing[worker].popleft()
        self.active.add(("compute", worker))
        what = self.jobs[index].what
        assert isinstance(what, tuple)
        phase, task = what
        seconds = self.task_seconds(phase, task)
        if worker != COORDINATOR:
            self.busy[worker] += seconds
            self.taken[worker] = now + seconds - self.began.setdefault(worker, now)

        def computed(then: float) -> None:
            self.active.discard(("compute", worker))
            self._note(worker, "compute", self.plan.phases[phase].name, now, then)
            self._done(index, then)
            self._compute(worker, then)

        self._at(now + seconds, computed)

    def _transfer(self, index: int) -> Transfer:
        what = self.jobs[index].what
        assert isinstance(what, Transfer)
        return what

    def _note(self, device: int, lane: str, name: str, start: float, end: float) -> None:
        if self.spans is not None:
            self.spans.append(Span(device, lane, name, start, end))


def _messages(nbytes: int) -> Iterator[int]:
    """Payloads of the messages a transfer takes."""
    full, rest = divmod(nbytes, PAYLOAD_BYTES)
    yield from [PAYLOAD_BYTES] * full
    if rest:
        yield rest


def _jobs(plan: Plan) -> list[_Job]:
    """All transfers and tasks, and who waits for whom: every device goes through its own in the plan's order, and what
    it sends lies in the network at once."""
    jobs: list[_Job] = []
    before: dict[int, list[int]] = defaultdict(list)  # by device: what it waits for before it goes on

    def add(what: Transfer | tuple[int, Task] | None, device: int) -> int:
        jobs.append(_Job(what, len(before[device]), []))
        for other in before[device]:
            jobs[other].next.append(len(jobs) - 1)
        return len(jobs) - 1

    def move(transfers: tuple[Transfer, ...]) -> None:
        for each in transfers:
            if len(before[each.source]) > 1:
                before[each.source] = [add(None, each.source)]
            before[each.target].append(add(each, each.source))

    for number, phase in enumerate(plan.phases):
        move(phase.transfers)
        for task in phase.tasks:
            before[task.worker] = [add((number, task), task.worker)]
        move(phase.returned)
    return jobs
