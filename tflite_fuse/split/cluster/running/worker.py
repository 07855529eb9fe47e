"""A worker as a process of this machine. It listens and serves one coordinator at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.runtime.library.worker import HostWorker
from tflite_fuse.split.cluster.link.connection import Connection, LinkError, dial_device, in_time
from tflite_fuse.split.cluster.link.messages import QUIET, Fault, Kind, Wish
from tflite_fuse.split.cluster.link.streams import Stream, TcpStream
from tflite_fuse.split.cluster.running.inference import Incoming, ended, run_machine
from tflite_fuse.split.devices import COORDINATOR

HANDSHAKE_SECONDS = 5.0

MOST_GREETINGS = 16
"""Most connections in their handshake at a time; a further one closes the oldest."""


class Worker:
    """Serves the plan of number ``plan`` as device ``device``.

    Attributes:
        inferences: done so far.
    """

    def __init__(
        self, machine: HostWorker, plan: int, device: int, peers: Collection[int] = (), key: bytes | None = None
    ) -> None:
        """Store the machine and its peers, which are workers; it opens the connections to those of greater number."""
        self._machine, self._plan, self._device, self._key = machine, plan, device, key
        self._dialled = {other for other in peers if other > device}
        self._awaited = {*peers} - self._dialled
        self._session: asyncio.Task[None] | None = None
        self._peers: dict[int, Incoming] = {}
        self._greetings: dict[Connection, None] = {}  # the oldest first
        self._joined = asyncio.Event()
        self.inferences = 0

    async def listen(self, host: str, port: int) -> str:
        """Start to serve and return the address. Raises OSError if the address cannot be used."""

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self.serve(TcpStream(reader, writer))

        self._server = await asyncio.start_server(accepted, host, port)
        address = self._server.sockets[0].getsockname()
        return f"{address[0]}:{address[1]}"

    async def serve(self, stream: Stream) -> None:
        """Serve one connection until its end."""
        connection = Connection(stream, self._plan, self._device, key=self._key)
        if len(self._greetings) >= MOST_GREETINGS:
            oldest = next(iter(self._greetings))
            del self._greetings[oldest]
            oldest.close()
        self._greetings[connection] = None
        try:
            runs = await self._greet(connection)
        except LinkError as broken:
            await connection.give_up(broken)
            return
        finally:
            self._greetings.pop(connection, None)
        if runs:
            await self._replace(connection)

    async def _greet(self, connection: Connection) -> bool:
        """Perform the handshake; return whether a coordinator requests inferences. Raises LinkError."""
        wish = await in_time(connection.accept(), HANDSHAKE_SECONDS)
        if wish is Wish.PEER:
            await self._join(connection)
            return False
        if connection.peer != COORDINATOR:
            raise LinkError(Fault.STRANGER)
        await in_time(connection.welcome(self.inferences), HANDSHAKE_SECONDS)
        if wish is Wish.STATUS:
            connection.close()
        return wish is Wish.RUN

    async def _join(self, connection: Connection) -> None:
        """Accept a connection of another worker."""
        if self._session is None or connection.peer is None or connection.peer not in self._awaited:
            raise LinkError(Fault.STRANGER)
        await in_time(connection.welcome(self.inferences), HANDSHAKE_SECONDS)
        if self._session is None:
            raise LinkError(Fault.STRANGER)
        self._add(connection.peer, connection)

    def _add(self, peer: int, connection: Connection) -> None:
        if peer in self._peers:
            self._peers[peer].close()
        self._peers[peer] = Incoming(connection)
        if self._peers.keys() >= self._awaited | self._dialled:
            self._joined.set()

    # ---- One coordinator ----

    async def _replace(self, connection: Connection) -> None:
        """Serve this coordinator until it leaves or another one connects."""
        before = self._session
        self._session = asyncio.current_task()
        self._forget_peers()  # at once: this coordinator's peers may connect while the last one is still notified
        incoming = Incoming(connection)
        try:
            if before is not None:
                await ended(before)
            await self._run(incoming)
        except LinkError as broken:
            await connection.give_up(broken)
        except asyncio.CancelledError:
            if self._session is not asyncio.current_task():  # else the process ends
                await connection.give_up(LinkError(Fault.BUSY))
        finally:
            incoming.close()
            if self._session is asyncio.current_task():
                self._forget_peers()
                self._session = None

    def _forget_peers(self) -> None:
        for each in self._peers.values():
            each.close()
        self._peers.clear()
        self._joined.clear()

    async def _run(self, coordinator: Incoming) -> None:
        number = 0
        # asyncio.wait_for of Python 3.11 drops a cancellation that comes as an inference ends.
        while self._session is asyncio.current_task():
            message = await coordinator.next()
            if message.kind == Kind.PEERS and message.item in self._dialled - self._peers.keys():
                await self._dial(message.item, message.payload.decode("utf-8", "replace"))
            elif message.kind == Kind.READY and not number:
                if message.item:
                    await in_time(self._joined.wait(), HANDSHAKE_SECONDS)
                await coordinator.connection.send(Kind.READY)
            elif message.kind == Kind.START and message.inference > number and len(message.payload) == 4:
                number = message.inference
                seconds = int.from_bytes(message.payload, "little") / 1000
                await in_time(self._infer(coordinator, number, message.item != QUIET), seconds)
                self.inferences += 1
            else:
                raise LinkError(Fault.ORDER)
        raise LinkError(Fault.BUSY)

    async def _dial(self, peer: int, address: str) -> None:
        try:
            connection, _ = await dial_device(
                address, self._plan, self._device, peer, self._key, Wish.PEER, HANDSHAKE_SECONDS
            )
        except (OSError, TfliteFuseError) as error:  # the coordinator's address may be invalid
            raise LinkError(Fault.LOST, peer, str(error)) from None
        self._add(peer, connection)

    async def _infer(self, coordinator: Incoming, number: int, tells: bool) -> None:
        async def computed(step: int, seconds: float) -> None:
            if not tells:
                return
            payload = min(round(seconds * 1e6), 0xFFFFFFFF).to_bytes(4, "little")
            await coordinator.connection.send(Kind.STEP, inference=number, item=step, payload=payload)

        self._machine.begin()
        everybody = {COORDINATOR: coordinator, **self._peers}
        running = asyncio.ensure_future(run_machine(self._machine, everybody, number, computed))
        ends = [each.ended for each in everybody.values()]
        try:
            await asyncio.wait({running, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise next(each.result() for each in ends if each.done())
            await running
        finally:
            await ended(running)
