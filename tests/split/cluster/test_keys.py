"""Connections with a key: devices without it, and changed or repeated messages, are refused."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests import PATIENCE
from tests.split.cluster import cases
from tests.split.cluster.shaping import Proxy
from tests.split.cluster.test_c_worker import processes
from tests.split.cluster.test_running import same
from tflite_fuse.errors import ClusterError, UsageError
from tflite_fuse.runtime import tflm
from tflite_fuse.split.cluster.link.connection import Connection, LinkError
from tflite_fuse.split.cluster.link.messages import (
    KEYED,
    TAG_BYTES,
    Fault,
    Frame,
    Kind,
    Message,
    checked,
    decode,
    encode,
    read_key,
)
from tflite_fuse.split.cluster.link.streams import connect
from tflite_fuse.split.cluster.running.coordinator import Contact, Coordinator, ask_all
from tflite_fuse.split.devices import COORDINATOR

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

QUIET = {"ASAN_OPTIONS": "detect_leaks=0"}
KEY, OTHER = b"sixteen bytes or more", b"sixteen bytes or less"


class Meddler(Proxy):
    """Hands on what ``meddle`` makes of each frame; keeps all that came."""

    def __init__(self, target: str, meddle: Callable[[bytes], list[bytes]] = lambda frame: [frame]) -> None:
        super().__init__(target)
        self.seen: list[bytes] = []
        self._meddle = meddle

    async def _changed(self, fault: str, frame: bytes) -> list[bytes]:
        self.seen.append(frame)
        return self._meddle(frame)


def coordinator(contacts: dict[int, Contact], key: bytes | None) -> Coordinator:
    found = cases.deployment()
    return Coordinator(found.coordinator(), found.number, contacts, found.dials, 30.0, key)


def changed(frame: bytes, later: int = 0, flip: int = 0, drop: int = 0) -> bytes:
    """A frame with another number, another first byte or a shorter end, and a checksum that fits."""
    found = decode(frame)
    assert found is not None
    payload = bytearray(found.message.payload)
    payload[0] ^= flip
    return encode(replace(found.message, payload=bytes(payload[: len(payload) - drop])), found.sequence + later)


@needs_tflm
def test_with_one_key_everywhere_an_inference_gives_the_bytes_of_tflm() -> None:
    async def run() -> None:
        _, contacts = await cases.start(cases.deployment(), key=KEY)
        devices = coordinator(contacts, KEY)
        for inputs, expected in cases.samples():
            assert same(await devices.infer(inputs), expected)
        answers = await ask_all(cases.deployment().number, contacts, 5.0, KEY)
        assert [(each.fault, each.inferences) for each in answers] == [(None, 3)] * 3
        assert same(await devices.infer(cases.samples()[0][0]), cases.samples()[0][1])
        devices.close()

    asyncio.run(run())


@pytest.mark.parametrize(("theirs", "ours"), [(OTHER, KEY), (None, KEY), (KEY, None)])
def test_another_key_or_none_is_named(theirs: bytes | None, ours: bytes | None) -> None:
    async def run() -> None:
        _, contacts = await cases.start(cases.deployment(), key=theirs)
        with pytest.raises(ClusterError, match=r"worker w[0-2] has another key, or only one of the two has a key"):
            await coordinator(contacts, ours).infer(cases.samples()[0][0])
        answers = await ask_all(cases.deployment().number, contacts, 5.0, ours)
        assert {each.fault for each in answers} == {"has another key, or only one of the two has a key"}

    asyncio.run(run())


async def meddled(meddle: Callable[[bytes], list[bytes]], then: Callable[[Coordinator], Awaitable[None]]) -> None:
    """An inference with somebody between the coordinator and worker 0."""
    _, contacts = await cases.start(cases.deployment(), key=KEY)
    proxy = Meddler(contacts[0].address, meddle)
    devices = coordinator(cases.elsewhere(contacts, 0, await proxy.listen()), KEY)
    await then(devices)
    devices.close()
    proxy.close()


def meddling(what: str) -> Callable[[bytes], list[bytes]]:
    """Does this to messages with values."""

    def meddle(frame: bytes) -> list[bytes]:
        found = decode(frame)
        assert found is not None
        if found.message.kind != Kind.DATA or len(found.message.payload) > 1400:
            return [frame]
        if what == "changed":
            return [changed(frame, flip=1)]
        if what == "unsigned":
            return [changed(frame, drop=TAG_BYTES)]
        return [frame, changed(frame, later=1)]

    return meddle


@needs_tflm
@pytest.mark.parametrize("what", ["changed", "said again", "unsigned"])
def test_messages_changed_by_a_stranger_are_detected(what: str) -> None:
    async def then(devices: Coordinator) -> None:
        with pytest.raises(ClusterError, match=r"(worker w0|the coordinator) has another key"):
            await devices.infer(cases.samples()[0][0])

    asyncio.run(meddled(meddling(what), then))


class Dawdler(Proxy):
    """Hands on the coordinator's signed HELLO late."""

    async def _changed(self, fault: str, frame: bytes) -> list[bytes]:
        found = decode(frame)
        assert found is not None
        message = found.message
        if message.kind == Kind.HELLO and message.sender == COORDINATOR and not message.item & KEYED:
            await asyncio.sleep(0.3)
        return [frame]


async def dawdled(contacts: dict[int, Contact]) -> None:
    """An inference in which a worker is dialled while the coordinator's handshake with it is on its way."""
    _, dialled = min(cases.deployment().dials)
    proxy = Dawdler(contacts[dialled].address)
    devices = coordinator(cases.elsewhere(contacts, dialled, await proxy.listen()), KEY)
    inputs, expected = cases.samples()[0]
    assert same(await devices.infer(inputs), expected)
    devices.close()
    proxy.close()


@needs_tflm
def test_workers_meet_only_after_the_handshake_of_the_coordinator(keyed_program: Path, tmp_path: Path) -> None:
    async def run() -> None:
        _, contacts = await cases.start(cases.deployment(), key=KEY)
        await dawdled(contacts)

    asyncio.run(run())
    (tmp_path / "key").write_bytes(KEY)
    with processes(keyed_program, cases.deployment(), tmp_path, tmp_path / "key") as (contacts, _):
        asyncio.run(dawdled(contacts))


@needs_tflm
def test_a_replayed_conversation_opens_no_session_and_disturbs_none() -> None:
    inputs, expected = cases.samples()[0]

    async def run() -> None:
        _, contacts = await cases.start(cases.deployment(), key=KEY)
        proxy = Meddler(contacts[0].address)
        first = coordinator(cases.elsewhere(contacts, 0, await proxy.listen()), KEY)
        assert same(await first.infer(inputs), expected)
        said = [frame for frame in proxy.seen if int.from_bytes(frame[6:8], "little") == 0xFFFF]
        assert len(said) > 3
        stream = await connect(contacts[0].address)
        await stream.write(b"".join(said))
        stranger = Connection(stream, cases.deployment().number, COORDINATOR, 0)
        await stranger._next()  # a WELCOME with another nonce
        with pytest.raises((LinkError, ConnectionError)) as told:
            while True:
                await stranger.receive()
        assert not isinstance(told.value, LinkError) or told.value.fault in (Fault.KEY, Fault.LOST, Fault.DAMAGED)
        assert same(await first.infer(inputs), expected)
        first.close()
        proxy.close()

    asyncio.run(run())


@needs_tflm
def test_workers_in_c_with_a_key_serve_only_its_holders(keyed_program: Path, tmp_path: Path) -> None:
    found = cases.deployment()
    inputs, expected = cases.samples()[0]
    (tmp_path / "key").write_bytes(KEY)

    async def run(contacts: dict[int, Contact]) -> None:
        proxy = Meddler(contacts[0].address)
        first = coordinator(cases.elsewhere(contacts, 0, await proxy.listen()), KEY)
        assert same(await first.infer(inputs), expected)
        for key in (OTHER, None):
            with pytest.raises(ClusterError, match=r"worker w[0-2] has another key"):
                await coordinator(contacts, key).infer(inputs)
        assert {each.fault for each in await ask_all(found.number, contacts, 5.0, KEY)} == {None}
        stream = await connect(contacts[0].address)
        await stream.write(b"".join(frame for frame in proxy.seen if frame[6:8] == b"\xff\xff"))
        stranger = Connection(stream, found.number, COORDINATOR, 0)
        assert (await stranger._next()).message.kind == Kind.WELCOME
        with pytest.raises((LinkError, ConnectionError)):
            while True:
                await stranger.receive()
        assert same(await first.infer(inputs), expected)
        _, python = await cases.start(found, key=KEY)
        for mixed in ({**contacts, 1: python[1]}, {**python, 1: contacts[1]}):
            devices = coordinator(mixed, KEY)
            assert same(await devices.infer(inputs), expected)
            devices.close()
        first.close()
        proxy.close()

    with processes(keyed_program, found, tmp_path, tmp_path / "key") as (contacts, _):
        asyncio.run(run(contacts))


@needs_tflm
@pytest.mark.parametrize("what", ["changed", "said again", "unsigned"])
def test_a_worker_in_c_detects_messages_changed_by_a_stranger(keyed_program: Path, tmp_path: Path, what: str) -> None:
    (tmp_path / "key").write_bytes(KEY)

    async def run(contacts: dict[int, Contact]) -> None:
        proxy = Meddler(contacts[0].address, meddling(what))
        devices = coordinator(cases.elsewhere(contacts, 0, await proxy.listen()), KEY)
        with pytest.raises(ClusterError, match=r"(worker w0|the coordinator) has another key"):
            await devices.infer(cases.samples()[0][0])
        devices.close()
        proxy.close()

    with processes(keyed_program, cases.deployment(), tmp_path, tmp_path / "key") as (contacts, _):
        asyncio.run(run(contacts))


def test_a_worker_in_c_with_a_key_needs_entropy_and_reports_its_lack(keyed_program: Path, tmp_path: Path) -> None:
    (tmp_path / "fragment").write_bytes(cases.deployment().fragments.workers[0])
    for key, environment in ((KEY, {"WITHOUT_ENTROPY": "1"}), (b"short", {})):
        (tmp_path / "key").write_bytes(key)
        call = [str(keyed_program), str(tmp_path / "fragment"), "127.0.0.1:0", str(tmp_path / "key")]
        assert subprocess.run(call, env={**environment, **QUIET}, check=False, timeout=PATIENCE).returncode == 6
    call = [str(keyed_program), str(tmp_path / "fragment"), "127.0.0.1:0"]
    with subprocess.Popen(call, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "without a key whoever reaches this worker can use it\n"
        process.kill()


def test_every_bit_of_a_signed_message_counts() -> None:
    message, secret = Message(Kind.DATA, 7, 2, 1, 9, b"values"), b"s" * 32
    sound = decode(encode(message, 3, secret))
    assert sound is not None and checked(sound, secret) == message
    assert checked(sound, b"t" * 32) is None and checked(Frame(message, 3), secret) is None
    assert checked(Frame(sound.message, 4), secret) is None
    payload = bytearray(sound.message.payload)
    for bit in range(8 * len(payload)):
        payload[bit // 8] ^= 1 << bit % 8
        assert checked(Frame(Message(Kind.DATA, 7, 2, 1, 9, bytes(payload)), 3), secret) is None
        payload[bit // 8] ^= 1 << bit % 8
    for other in ({"plan": 6}, {"kind": Kind.STEP}, {"sender": 3}, {"inference": 2}, {"item": 8}):
        assert checked(Frame(replace(sound.message, **other), 3), secret) is None  # type: ignore[arg-type]


def test_a_key_that_is_too_short_ends_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(UsageError, match="has 5 bytes; a key has 16 to 1,024"):
        read_key(tmp_path / "key")
