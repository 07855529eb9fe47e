"""Silent connections, partial handshakes and handshakes without the key: no inference waits for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.split.cluster import cases
from tests.split.cluster.test_c_worker import processes
from tests.split.cluster.test_running import same
from tflite_fuse.runtime import tflm
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.link.connection import Connection, LinkError
from tflite_fuse.split.cluster.link.messages import KEYED, Fault, Kind, Message, Wish, encode
from tflite_fuse.split.cluster.link.streams import TcpStream, connect, parse_address
from tflite_fuse.split.cluster.running.coordinator import Contact, Coordinator, ask_all
from tflite_fuse.split.cluster.running.worker import HANDSHAKE_SECONDS, MOST_GREETINGS
from tflite_fuse.split.devices import COORDINATOR

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

KEY = b"sixteen bytes or more"
PATIENCE = 6.0
"""Seconds an inference may take: a few times what it takes, and less than eight strangers of two seconds each."""


def greeting(found: Deployment, wish: int) -> bytes:
    return encode(Message(Kind.HELLO, found.number, COORDINATOR, item=wish, payload=bytes(16)), 0)


def first_words(found: Deployment, what: str) -> bytes:
    """What a stranger says before it falls silent."""
    return {
        "nothing": b"",
        "half a header": greeting(found, Wish.RUN)[:10],
        "a header": greeting(found, Wish.RUN)[:32],
        "a long message": encode(Message(Kind.DATA, found.number, COORDINATOR, payload=bytes(1400)), 0)[:40],
        "a greeting without the key": greeting(found, Wish.RUN | KEYED),
    }[what]


@dataclass
class Strangers:
    """Streams that stay open."""

    address: str
    words: bytes

    def __post_init__(self) -> None:
        self.streams: list[TcpStream] = []

    async def come(self, count: int) -> None:
        for _ in range(count):
            stream = await connect(self.address)
            assert isinstance(stream, TcpStream)
            self.streams.append(stream)
            with contextlib.suppress(OSError):
                await stream.write(self.words)

    async def keep_coming(self, pause: float) -> None:
        while True:
            await self.come(1)
            await asyncio.sleep(pause)

    def go(self) -> None:
        for each in self.streams:
            each.close()


@contextlib.contextmanager
def workers(program: Path, folder: Path, key: bytes | None) -> Iterator[tuple[Deployment, dict[int, Contact]]]:
    found = cases.deployment()
    if key is not None:
        (folder / "key").write_bytes(key)
    with processes(program, found, folder, *([] if key is None else [folder / "key"])) as (contacts, _):
        yield found, contacts


def coordinator(found: Deployment, contacts: dict[int, Contact], key: bytes | None) -> Coordinator:
    return Coordinator(found.coordinator(), found.number, contacts, found.dials, PATIENCE, key)


@pytest.mark.parametrize(
    ("key", "what"),
    [
        (None, "nothing"),
        (None, "half a header"),
        (None, "a long message"),
        (KEY, "a header"),
        (KEY, "a greeting without the key"),
    ],
)
def test_an_inference_waits_for_no_stranger_that_was_there_before(
    program: Path, tmp_path: Path, key: bytes | None, what: str
) -> None:
    inputs, expected = cases.samples()[0]

    async def run(found: Deployment, contacts: dict[int, Contact]) -> None:
        strangers = [Strangers(each.address, first_words(found, what)) for each in contacts.values()]
        for each in strangers:
            await each.come(8)
        devices = coordinator(found, contacts, key)
        assert same(await devices.infer(inputs), expected)
        answers = await ask_all(found.number, contacts, PATIENCE, key)
        assert [(each.fault, each.inferences) for each in answers] == [(None, 1)] * len(contacts)
        devices.close()
        for each in strangers:
            each.go()

    with workers(program, tmp_path, key) as (found, contacts):
        asyncio.run(run(found, contacts))


@pytest.mark.parametrize(("key", "what"), [(None, "nothing"), (KEY, "nothing"), (KEY, "a greeting without the key")])
def test_inferences_go_on_while_strangers_keep_coming(
    program: Path, tmp_path: Path, key: bytes | None, what: str
) -> None:
    async def run(found: Deployment, contacts: dict[int, Contact]) -> None:
        devices = coordinator(found, contacts, key)
        assert same(await devices.infer(cases.samples()[0][0]), cases.samples()[0][1])
        strangers = Strangers(contacts[0].address, first_words(found, what))
        coming = asyncio.ensure_future(strangers.keep_coming(0.01))
        for inputs, expected in 10 * cases.samples():
            assert same(await devices.infer(inputs), expected)
        answers = await ask_all(found.number, contacts, PATIENCE, key)
        assert {each.fault for each in answers} == {None}
        devices.close()
        coming.cancel()
        strangers.go()

    with workers(program, tmp_path, key) as (found, contacts):
        asyncio.run(run(found, contacts))


def test_of_many_silent_connections_the_oldest_ends_and_the_newest_is_late(program: Path, tmp_path: Path) -> None:
    async def run(found: Deployment, contacts: dict[int, Contact]) -> None:
        strangers = Strangers(contacts[0].address, b"")
        await strangers.come(12)
        for number, fault in ((0, Fault.LOST), (-1, Fault.LATE)):
            with pytest.raises(LinkError) as told:
                await Connection(strangers.streams[number], found.number, COORDINATOR).receive()
            assert told.value.fault == fault
        strangers.go()

    with workers(program, tmp_path, None) as (found, contacts):
        asyncio.run(run(found, contacts))


def test_a_stranger_under_a_workers_name_replaces_no_worker(program: Path, tmp_path: Path) -> None:
    inputs, expected = cases.samples()[0]

    async def run(found: Deployment, contacts: dict[int, Contact]) -> None:
        devices = coordinator(found, contacts, None)
        assert same(await devices.infer(inputs), expected)
        for device, contact in contacts.items():
            for other in {*contacts} - {device}:
                host, port = parse_address(contact.address, "an address")
                stream = TcpStream(*await asyncio.open_connection(host, port))
                with pytest.raises(LinkError) as told:
                    await Connection(stream, found.number, other, device).open(Wish.PEER)
                assert told.value.fault == Fault.STRANGER
                stream.close()
        assert same(await devices.infer(inputs), expected)
        devices.close()

    with workers(program, tmp_path, None) as (found, contacts):
        asyncio.run(run(found, contacts))


def test_a_worker_in_python_keeps_a_bounded_number_of_greetings_and_serves_between_them() -> None:
    inputs, expected = cases.samples()[0]
    found = cases.deployment()

    async def run() -> None:
        _, contacts = await cases.start(found)
        strangers = Strangers(contacts[0].address, first_words(found, "half a header"))
        await strangers.come(3 * MOST_GREETINGS)
        ended = [asyncio.ensure_future(stream.read()) for stream in strangers.streams]
        devices = cases.coordinator(found, contacts)
        assert same(await devices.infer(inputs), expected)
        oldest, newest = ended[: 2 * MOST_GREETINGS], ended[2 * MOST_GREETINGS + 1 :]
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(asyncio.gather(*oldest), HANDSHAKE_SECONDS / 2) == [b""] * len(oldest)
        assert not any(each.done() for each in newest)
        devices.close()
        strangers.go()
        await asyncio.wait(ended)

    asyncio.run(run())
