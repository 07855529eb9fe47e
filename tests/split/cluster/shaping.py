"""A proxy between a coordinator or worker and a worker that delays, damages and injects messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tflite_fuse.split.cluster.link.messages import HEADER_BYTES

FAULTS = ("delay", "rate", "stall", "reset", "corrupt", "duplicate", "reorder", "truncate")
_DELAY = 0.03
_RATE = 200_000
_STALL = 60.0


@dataclass
class Shape:
    """What is done to messages from now on.

    Attributes:
        fault: one of FAULTS, or nothing.
        chance: of each message.
        rng: that decides.
        done: how often it was done.
    """

    fault: str = ""
    chance: float = 0.0
    rng: Random = field(default_factory=Random)
    done: int = 0


class Proxy:
    """Listens, and hands on to whoever listens at ``target``.

    Attributes:
        target: host and port; may change.
        shape: may change.
    """

    def __init__(self, target: str) -> None:
        self.target, self.shape = target, Shape()
        self.happened: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def listen(self) -> str:
        """The address."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()

    def close(self) -> None:
        self.cut()
        self._server.close()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.target.rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        both = {writer, far_writer}
        self._writers |= both
        tasks = [
            asyncio.ensure_future(self._pump(reader, far_writer)),
            asyncio.ensure_future(self._pump(far_reader, writer)),
        ]
        self._tasks.update(tasks)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(tasks)
        for each in both:
            each.transport.abort()
        self._writers -= both
        self._tasks.difference_update(tasks)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held: bytes | None = None
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readexactly(HEADER_BYTES)
                frame = head + await reader.readexactly(int.from_bytes(head[4:6], "little"))
                shape = self.shape
                fault = shape.fault if shape.fault and shape.rng.random() < shape.chance else ""
                if fault:
                    shape.done += 1
                    self.happened[fault] += 1
                if fault == "reorder" and held is None:
                    held = frame
                    continue
                for piece in await self._changed(fault, frame):
                    writer.write(piece)
                if held is not None:
                    writer.write(held)
                    held = None
                await writer.drain()
                if fault == "truncate":
                    break
                if fault == "reset":
                    writer.transport.abort()
                    break
        with contextlib.suppress(OSError):
            writer.close()

    async def _changed(self, fault: str, frame: bytes) -> list[bytes]:
        rng = self.shape.rng
        if fault == "delay":
            await asyncio.sleep(rng.uniform(0, _DELAY))
        elif fault == "rate":
            await asyncio.sleep(len(frame) / _RATE)
        elif fault == "stall":
            await asyncio.sleep(_STALL)
        elif fault == "corrupt":
            changed = bytearray(frame)
            for _ in range(rng.choice([1, 1, 2, 8])):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            return [bytes(changed)]
        elif fault == "duplicate":
            return [frame, frame]
        elif fault == "truncate":
            return [frame[: rng.randrange(len(frame))]]
        elif fault == "reset":
            return []
        return [frame]
