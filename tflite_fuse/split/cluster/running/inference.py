"""One inference on one device: its machine, and the connections to its peers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from tflite_fuse.runtime.library.worker import EventKind, HostWorker
from tflite_fuse.split.cluster.link.connection import Connection, LinkError
from tflite_fuse.split.cluster.link.messages import Fault, Kind, Message
from tflite_fuse.split.fragments.machine import Machine

_AHEAD = 64
"""Most messages that are read ahead of the machine; further ones stay in the stream."""


Device = HostWorker | Machine
"""A device's part of a plan, in C or in Python."""


class Incoming:
    """Reads a connection in the background, so its end is noticed while the device computes.

    Attributes:
        ended: completes with LinkError as soon as the connection ended.
    """

    def __init__(self, connection: Connection, aside: Callable[[Message], bool] = lambda message: False) -> None:
        """Start reading. ``aside`` processes messages that ``next`` must not return, and returns True for them."""
        self.connection, self._aside = connection, aside
        self._queue: asyncio.Queue[Message | LinkError] = asyncio.Queue(_AHEAD)
        self.ended = asyncio.ensure_future(self._pump())

    async def next(self) -> Message:
        """Return the next message. Raises LinkError."""
        if self.ended.done() and self._queue.empty():
            raise self.ended.result()
        message = await self._queue.get()
        if isinstance(message, LinkError):
            raise message
        return message

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
    machine: Device, peers: Mapping[int, Incoming], inference: int, computed: Callable[[int, float], Awaitable[None]]
) -> None:
    """Run a machine from its next event to its last.

    Args:
        machine: begun.
        peers: connections by device, for all devices that the machine names.
        inference: its number.
        computed: awaited after each computed step, with the step and its seconds.

    Raises:
        LinkError: ``device`` is the one at fault.
    """
    while (event := machine.next()).kind is not EventKind.FINISHED:
        if event.kind is EventKind.COMPUTE:
            began = time.perf_counter()
            try:
                await _in_thread(machine.compute)
            except Exception as error:  # a worker survives failed steps
                raise LinkError(Fault.COMPUTE, words=f"{type(error).__name__}: {error}") from error
            await computed(event.step, time.perf_counter() - began)
            continue
        try:
            if event.kind is EventKind.SEND:
                payload = machine.payload()
                connection = peers[event.peer].connection
                await connection.send(Kind.DATA, inference=inference, item=event.sequence, payload=payload)
                machine.sent()
            else:
                message = await peers[event.peer].next()
                header = message.kind, message.inference, message.item, len(message.payload)
                if header != (Kind.DATA, inference, event.sequence, event.nbytes):
                    raise LinkError(Fault.ORDER)
                machine.received(message.payload)
        except LinkError as broken:
            raise broken.of(event.peer) from None


async def _in_thread(function: Callable[[], None]) -> None:
    """Run a function in a thread; a cancelled task waits for its end, as a computing machine must not be begun anew."""
    future = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait({future})
        raise


async def ended(running: asyncio.Future[None]) -> None:
    """Cancel a task and wait until it is over, also if this wait is cancelled: both may use the same machine."""
    running.cancel()
    try:
        await asyncio.wait({running})
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise
