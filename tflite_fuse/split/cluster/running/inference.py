"""One inference as one device makes it: its machine, and the connections to all others it talks to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from tflite_fuse.split.cluster.link.connection import Connection, LinkError
from tflite_fuse.split.cluster.link.messages import Fault, Kind, Message
from tflite_fuse.split.fragments.machine import EventKind

_AHEAD = 64
"""Messages that are read before the machine asks for them; what comes then waits in the stream."""


class Device(Protocol):
    """A machine as ``tflite_fuse_worker.h`` describes it, in C (``HostWorker``) or in Python (``Machine``)."""

    def next(self) -> Any:
        """``kind``, ``peer``, ``sequence``, ``nbytes`` and ``step`` of what comes next."""

    def payload(self) -> bytes:
        """Of the message to send."""

    def sent(self) -> None:
        """It is on its way."""

    def received(self, payload: bytes) -> None:
        """The message is here."""

    def compute(self) -> None:
        """What comes next."""


class Incoming:
    """Reads a connection in the background, so that its end is noticed whatever the device does.

    Attributes:
        ended: done, with LinkError, as soon as the connection ended.
    """

    def __init__(self, connection: Connection, aside: Callable[[Message], bool] = lambda message: False) -> None:
        """``aside`` takes messages that are not to be waited for; True if it took one."""
        self.connection, self._aside = connection, aside
        self._queue: asyncio.Queue[Message | LinkError] = asyncio.Queue(_AHEAD)
        self.ended = asyncio.ensure_future(self._pump())

    async def next(self) -> Message:
        """Raises LinkError."""
        if self.ended.done() and self._queue.empty():
            raise self.ended.result()
        found = await self._queue.get()
        if isinstance(found, LinkError):
            raise found
        return found

    async def _pump(self) -> LinkError:
        try:
            while True:
                message = await self.connection.receive()
                if not self._aside(message):
                    await self._queue.put(message)
        except LinkError as broken:
            ended = broken.of(self.connection.peer)
            if not self._queue.full():
                self._queue.put_nowait(ended)
            return ended

    def close(self) -> None:
        self.ended.cancel()
        self.connection.close()


async def run_machine(
    machine: Device,
    peers: Mapping[int, Incoming],
    inference: int,
    computed: Callable[[int, float], Awaitable[None]],
) -> None:
    """From the machine's next event to its last.

    Args:
        machine: begun.
        peers: by device, all that the machine names.
        inference: its number.
        computed: awaited after everything the machine computed, with the step and the seconds it took.

    Raises:
        LinkError: whose ``device`` is the one to name.
    """
    while EventKind((event := machine.next()).kind) is not EventKind.FINISHED:
        kind = EventKind(event.kind)
        if kind is EventKind.COMPUTE:
            began = time.perf_counter()
            try:
                await _in_thread(machine.compute)
            except Exception as error:  # a worker outlives what it cannot compute
                raise LinkError(Fault.COMPUTE, words=f"{type(error).__name__}: {error}") from error
            await computed(event.step, time.perf_counter() - began)
            continue
        try:
            if kind is EventKind.SEND:
                payload = machine.payload()
                connection = peers[event.peer].connection
                await connection.send(Kind.DATA, inference=inference, item=event.sequence, payload=payload)
                machine.sent()
            else:
                message = await peers[event.peer].next()
                found = message.kind, message.inference, message.item, len(message.payload)
                if found != (Kind.DATA, inference, event.sequence, event.nbytes):
                    raise LinkError(Fault.ORDER)
                machine.received(message.payload)
        except LinkError as broken:
            raise broken.of(event.peer) from None


async def _in_thread(function: Callable[[], None]) -> None:
    """A cancelled task waits for the end: a machine that still computes must not be begun anew."""
    future = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait({future})
        raise


async def ended(running: asyncio.Future[None]) -> None:
    """Cancel it, and wait until it is over."""
    running.cancel()
    await asyncio.wait({running})
