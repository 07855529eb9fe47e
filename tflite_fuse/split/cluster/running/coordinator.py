"""The coordinator: connects to the workers, runs inferences, names the device at fault if one fails.

A failed inference ends all connections, and the workers drop their part. The next one opens new connections, so no
message of one can reach another, and a restarted worker is found again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tflite_fuse.errors import ClusterError
from tflite_fuse.ir.block import Int8Array
from tflite_fuse.split.cluster.link.connection import LinkError, dial_device, in_time
from tflite_fuse.split.cluster.link.messages import Fault, Kind, Message, Wish
from tflite_fuse.split.cluster.running.inference import Incoming, ended, run_machine
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.fragments.machine import Machine

T = TypeVar("T")

_LATER = 0.5
"""Seconds a worker waits beyond the coordinator's time-out, so that the coordinator reports first."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 2.0
"""Seconds before an inference is tried again, doubled each time."""

_SECOND_THOUGHT = 0.05
"""Seconds to wait for other devices' reports about a failure."""


@dataclass(frozen=True)
class Contact:
    """A worker that takes part.

    Attributes:
        name: from ``workers.toml``.
        address: where it listens.
    """

    name: str
    address: str


@dataclass(frozen=True)
class Progress:
    """A step was computed, or an attempt begins.

    Attributes:
        device: the worker, or the coordinator's number.
        done: steps it has computed in this inference.
        seconds: of the last one.
    """

    device: int
    done: int
    seconds: float


class Coordinator:
    """Runs inferences with workers.

    Attributes:
        timeout: seconds for an inference, and for connecting before it.
        progress: called with the workers' steps.
        failed: called before an inference is tried again, with the error and the seconds until then.
    """

    def __init__(
        self,
        machine: Machine,
        plan: int,
        workers: Mapping[int, Contact],
        dials: Collection[tuple[int, int]] = (),
        timeout: float = 60.0,
        key: bytes | None = None,
    ) -> None:
        """Store the workers that take part, by device, and as ``dials`` connected pairs, the opener first."""
        self._machine, self._plan, self._workers, self._key = machine, plan, workers, key
        self._dials = sorted(dials)
        self.timeout = timeout
        self._number = 0
        self._turn = asyncio.Lock()
        self._peers: dict[int, Incoming] = {}
        self._done: dict[int, int] = {}
        self.progress: Callable[[Progress], None] = lambda each: None
        self.failed: Callable[[str, float], None] = lambda why, seconds: None

    async def infer(self, inputs: Sequence[Int8Array], retries: int = 0) -> list[Int8Array]:
        """Return the outputs' bytes for the inputs' bytes. One inference at a time: another call waits.

        Args:
            inputs: one array per input of the model.
            retries: number of further attempts, each from the start with new connections.

        Raises:
            ClusterError: it failed; the message names the device at fault in the last attempt.
        """
        async with self._turn:
            for attempt in range(retries + 1):
                try:
                    return await self._attempt(inputs)
                except LinkError as broken:
                    self.close()
                    if attempt == retries:
                        raise ClusterError(self._sentence(broken)) from broken
                    pause = min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE)
                    self.failed(self._sentence(broken), pause)
                    await asyncio.sleep(pause)
                except BaseException:
                    self.close()
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End all connections; the workers wait for the next ones."""
        for each in self._peers.values():
            each.close()
        self._peers = {}

    def _sentence(self, broken: LinkError) -> str:
        device = broken.device
        if device is None or device == COORDINATOR:
            return f"the coordinator {broken.sentence}"
        done = self._done.get(device)
        after = "" if done is None or broken.fault not in (Fault.LOST, Fault.LATE) else f" after {done} computed steps"
        name = self._workers[device].name if device in self._workers else f"device {device}"
        return f"worker {name} {broken.sentence}{after}"

    async def _attempt(self, inputs: Sequence[Int8Array]) -> list[Int8Array]:
        if not self._peers:
            await self._connect()
        self._number += 1
        self._done = dict.fromkeys(self._workers, 0)
        self._machine.begin(inputs)
        running = asyncio.ensure_future(self._run(self._number))
        ends = [each.ended for each in self._peers.values()]
        try:
            await asyncio.wait({running, *ends}, timeout=self.timeout, return_when=asyncio.FIRST_COMPLETED)
            if running.done() and running.exception() is None:
                return self._machine.outputs()
            raise await self._cause(running, ends)
        finally:
            await ended(running)

    async def _cause(self, running: asyncio.Future[None], ends: Sequence[asyncio.Future[LinkError]]) -> BaseException:
        """Return the cause of a failure. Peers report a lost device at once; the device's own report may come later."""
        failure = running.exception() if running.done() else None
        if failure is not None and not isinstance(failure, LinkError):
            return failure
        if failure is None and not any(each.done() for each in ends):  # the awaited device
            failure = LinkError(Fault.LATE, self._machine.next().peer)
        await asyncio.wait(ends, timeout=_SECOND_THOUGHT)
        failures = [each.result() for each in ends if each.done()] + ([] if failure is None else [failure])
        return min(failures, key=lambda each: each.fault in (Fault.LOST, Fault.LATE))

    async def _run(self, number: int) -> None:
        milliseconds = min(round((self.timeout + _LATER) * 1000), 0xFFFFFFFF).to_bytes(4, "little")
        for device, peer in self._peers.items():
            await self._to(device, peer.connection.send(Kind.START, inference=number, payload=milliseconds))

        async def computed(step: int, seconds: float) -> None:
            self._tell(COORDINATOR, seconds)

        await run_machine(self._machine, self._peers, number, computed)

    def _tell(self, device: int, seconds: float) -> None:
        self._done[device] = self._done.get(device, 0) + 1
        self.progress(Progress(device, self._done[device], seconds))

    async def _connect(self) -> None:
        """Connect to all workers, then let them connect to each other. Raises LinkError."""
        try:
            peers = await _all(self._open(device) for device in self._workers)
            self._peers = dict(peers)
            joined = sorted({device for pair in self._dials for device in pair})
            await self._ready(dict.fromkeys(joined, 0))  # a worker refuses others before its handshake is complete
            for dialler, other in self._dials:
                address = self._workers[other].address.encode()
                await self._to(dialler, self._peers[dialler].connection.send(Kind.PEERS, item=other, payload=address))
            await self._ready({device: sum(device in pair for pair in self._dials) for device in joined})
        except BaseException:
            self.close()
            raise

    async def _open(self, device: int) -> tuple[int, Incoming]:
        address = self._workers[device].address
        try:
            connection, _ = await dial_device(
                address, self._plan, COORDINATOR, device, self._key, Wish.RUN, self.timeout
            )
        except OSError as error:
            raise LinkError(Fault.LOST, device, f"{address}: {error.strerror or error}") from None
        incoming = Incoming(connection, lambda message: self._aside(device, message))
        self._peers[device] = incoming
        return device, incoming

    def _aside(self, device: int, message: Message) -> bool:
        """Process a worker's STEP; return whether the message was one."""
        if message.kind != Kind.STEP or message.inference != self._number or len(message.payload) != 4:
            return False
        self._tell(device, int.from_bytes(message.payload, "little") / 1e6)
        return True

    async def _ready(self, peers: Mapping[int, int]) -> None:
        """Wait until each worker has that many connections with others. Raises LinkError."""
        for device, count in peers.items():
            await self._to(device, self._peers[device].connection.send(Kind.READY, item=count))
        await _all(self._is_ready(device) for device in peers)

    async def _is_ready(self, device: int) -> None:
        message = await self._to(device, in_time(self._peers[device].next(), self.timeout))
        if message.kind != Kind.READY:
            raise LinkError(Fault.ORDER, device)

    async def _to(self, device: int, sending: Awaitable[T]) -> T:
        try:
            return await sending
        except LinkError as broken:
            raise broken.of(device) from None


async def _all(waiting: Iterable[Awaitable[T]]) -> list[T]:
    """Return all results, or raise the first failure after all others have ended, so none affects the next attempt."""
    tasks = [asyncio.ensure_future(each) for each in waiting]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True)
class Answer(Contact):
    """The state of one worker.

    Attributes:
        inferences: done since its start; None if unknown.
        fault: a clause, None if there is none.
    """

    inferences: int | None
    fault: str | None


async def ask_all(plan: int, workers: Mapping[int, Contact], timeout: float, key: bytes | None = None) -> list[Answer]:
    """Return the states of all workers, in order, requested at the same time."""
    return list(await asyncio.gather(*(_ask(plan, device, each, timeout, key) for device, each in workers.items())))


async def _ask(plan: int, device: int, contact: Contact, timeout: float, key: bytes | None) -> Answer:
    try:
        connected = await dial_device(contact.address, plan, COORDINATOR, device, key, Wish.STATUS, timeout)
    except OSError as error:
        return Answer(contact.name, contact.address, None, f"cannot be reached ({error.strerror or error})")
    except LinkError as broken:
        return Answer(contact.name, contact.address, None, broken.sentence)
    connected[0].close()
    return Answer(contact.name, contact.address, connected[1], None)
