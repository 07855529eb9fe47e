"""A split model and its workers as tasks of one event loop, joined over TCP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import numpy as np

from tests.split.networks import branching_model, cluster, network
from tflite_fuse.ir.block import Int8Array
from tflite_fuse.model import serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.link.connection import Connection
from tflite_fuse.split.cluster.link.messages import Kind, Message
from tflite_fuse.split.cluster.running.coordinator import Contact, Coordinator
from tflite_fuse.split.cluster.running.worker import Worker
from tflite_fuse.split.fragments.encode import encode_plan
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.search.paper import paper_plan
from tflite_fuse.split.splitting import SplitOptions, split_model


@cache
def deployment(workers: int = 3, direct: bool = True, strategy: str = "auto", tail: bool = True) -> Deployment:
    """The branching model over equal workers, so slow that all take part; only the coordinator runs its tail."""
    devices, found = cluster((60.0,) * workers, direct), network(tail=tail)
    if strategy == "auto":
        split = split_model(branching_model(tail=tail), devices, SplitOptions())
        plan, found = split.plan, split.network
    else:
        plan = paper_plan(found, (1.0,) * workers, "")
    return Deployment(found, plan, devices, encode_plan(found, plan, Accountant(found).parts))


@cache
def samples(count: int = 3, tail: bool = True) -> tuple[tuple[list[Int8Array], list[Int8Array]], ...]:
    """Inputs, and what TFLM computes of them, both as bytes."""
    model = branching_model(tail=tail)
    given = generate_inputs(model, count, 7)
    expected = tflm.run(serialize_model(model), given).outputs
    return tuple((as_bytes(inputs), as_bytes(outputs)) for inputs, outputs in zip(given, expected, strict=True))


def as_bytes(arrays: Sequence[object]) -> list[Int8Array]:
    return [np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8) for array in arrays]


async def start(
    found: Deployment, number: int | None = None, key: bytes | None = None
) -> tuple[dict[int, Worker], dict[int, Contact]]:
    """All workers of a plan that take part, listening."""
    workers, contacts = dict[int, Worker](), dict[int, Contact]()
    for device in found.taking_part:
        plan = found.number if number is None else number
        workers[device] = Worker(found.machine(device), plan, device, found.peers(device), key)
        address = await workers[device].listen("127.0.0.1", 0)
        contacts[device] = Contact(found.cluster.workers[device].name, address)
    return workers, contacts


def coordinator(found: Deployment, contacts: Mapping[int, Contact], timeout: float = 60.0) -> Coordinator:
    return Coordinator(found.coordinator(), found.number, contacts, found.dials, timeout)


@contextmanager
def observed(note: Callable[[int, int | None, Message, bool], None]) -> Iterator[None]:
    """Calls ``note`` with all messages of all connections: this end, the other, the message, whether it goes out."""
    send, receive = Connection.send, Connection.receive

    async def sent(self: Connection, kind: Kind, *, inference: int = 0, item: int = 0, payload: bytes = b"") -> None:
        note(self._me, self.peer, Message(kind, self._plan, self._me, inference, item, payload), True)
        await send(self, kind, inference=inference, item=item, payload=payload)

    async def received(self: Connection) -> Message:
        message = await receive(self)
        note(self._me, self.peer, message, False)
        return message

    with patch.object(Connection, "send", sent), patch.object(Connection, "receive", received):
        yield


def elsewhere(contacts: Mapping[int, Contact], device: int, address: str) -> dict[int, Contact]:
    return {**contacts, device: replace(contacts[device], address=address)}


async def closed_port() -> str:
    """An address at which nobody listens."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return f"127.0.0.1:{port}"
