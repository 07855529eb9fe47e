"""Inferences over TCP: TFLM's bytes, or an error that names the device at fault."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from tests.split.cluster import cases
from tflite_fuse.errors import ClusterError
from tflite_fuse.ir.block import Int8Array
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.library.worker import HostWorker
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.link.connection import Connection, LinkError
from tflite_fuse.split.cluster.link.messages import Fault, Kind, Message, Wish
from tflite_fuse.split.cluster.link.streams import connect
from tflite_fuse.split.cluster.running import worker
from tflite_fuse.split.cluster.running.coordinator import Contact, ask_all
from tflite_fuse.split.cluster.running.worker import HANDSHAKE_SECONDS, Worker
from tflite_fuse.split.devices import COORDINATOR

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def same(found: list[Int8Array], expected: list[Int8Array]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


@needs_tflm
@pytest.mark.parametrize(
    ("workers", "direct", "strategy"),
    [
        (1, True, "auto"),
        (2, True, "auto"),
        (3, True, "auto"),
        (3, False, "auto"),
        (4, False, "paper"),
        (8, True, "auto"),
    ],
)
def test_an_inference_over_tcp_gives_the_bytes_of_tflm(workers: int, direct: bool, strategy: str) -> None:
    found = cases.deployment(workers, direct, strategy)

    async def run() -> None:
        _, contacts = await cases.start(found)
        coordinator = cases.coordinator(found, contacts)
        for inputs, expected in cases.samples():
            assert same(await coordinator.infer(inputs), expected)
        coordinator.close()

    asyncio.run(run())


@needs_tflm
def test_workers_report_their_progress() -> None:
    found = cases.deployment()

    async def run() -> None:
        _, contacts = await cases.start(found)
        coordinator = cases.coordinator(found, contacts)
        done = dict[int, int]()
        coordinator.progress = lambda each: done.update({each.device: each.done})
        await coordinator.infer(cases.samples()[0][0])
        coordinator.close()
        assert {*done} >= {*found.taking_part} and all(done.values())

    asyncio.run(run())


@needs_tflm
def test_a_worker_that_is_not_there_is_named_and_found_once_it_is() -> None:
    found = cases.deployment()

    async def run() -> None:
        workers, contacts = await cases.start(found)
        gone = cases.elsewhere(contacts, 1, await cases.closed_port())
        coordinator = cases.coordinator(found, gone)
        with pytest.raises(ClusterError, match="worker w1 is lost"):
            await coordinator.infer(cases.samples()[0][0])
        await workers[1].listen("127.0.0.1", int(gone[1].address.split(":")[1]))
        inputs, expected = cases.samples()[0]
        assert same(await coordinator.infer(inputs), expected)
        coordinator.close()

    asyncio.run(run())


@needs_tflm
def test_retries_name_a_worker_that_is_down_and_go_on_when_it_is_back() -> None:
    found = cases.deployment()
    inputs, expected = cases.samples()[0]

    async def run() -> None:
        workers, contacts = await cases.start(found)
        gone = cases.elsewhere(contacts, 1, await cases.closed_port())
        coordinator = cases.coordinator(found, gone)
        told, starting = list[str](), list[asyncio.Task[str]]()
        coordinator.failed = lambda why, seconds: told.append(why)
        with pytest.raises(ClusterError, match="worker w1 is lost"):
            await coordinator.infer(inputs, 3)
        assert len(told) == 3 and all("worker w1 is lost" in each for each in told)

        def comes_back(why: str, seconds: float) -> None:
            told.append(why)
            if len(told) == 5:
                port = int(gone[1].address.split(":")[1])
                starting.append(asyncio.ensure_future(workers[1].listen("127.0.0.1", port)))

        coordinator.failed = comes_back
        assert same(await coordinator.infer(inputs, 5), expected)
        assert len(told) == 5
        coordinator.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (b"garbage", "host:port, not 'garbage'"),
        (b"127.0.0.1:99999", "port from 0 to 65,535, not 99999"),
        (b"127.0.0.1:" + b"9" * 1000, "port from 0 to 65,535, not 9"),
        (b"\xff\xfe\x00:80", "host:port"),
        (b"", "host:port, not ''"),
        (b"a" * 300 + b":80", "host:port"),
        (b"socket://garbage", "host:port, not 'garbage'"),
        (b"/dev/nothing@99999999", ""),
    ],
)
def test_an_address_of_another_worker_that_is_none_ends_in_an_error_that_names_it(address: bytes, words: str) -> None:
    found = cases.deployment()

    async def run() -> None:
        _, contacts = await cases.start(found)
        unhandled = list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
        for _ in range(2):  # the worker outlives it
            connection = Connection(await connect(contacts[0].address), found.number, COORDINATOR, 0)
            await connection.open(Wish.RUN)
            await connection.send(Kind.PEERS, item=1, payload=address)
            with pytest.raises(LinkError) as told:
                await asyncio.wait_for(connection.receive(), 20.0)
            assert (told.value.fault, told.value.device) == (Fault.LOST, 1) and words in told.value.words
            connection.close()
        await asyncio.sleep(0)
        assert not unhandled

    asyncio.run(run())


class Refusing(HostWorker):
    """Its first computation does something else."""

    def __init__(self, fragment: bytes, what: str) -> None:
        super().__init__(fragment)
        self.what = what

    def compute(self) -> None:
        what, self.what = self.what, ""
        if what == "fail":
            raise ValueError("no")
        if what == "sleep":
            time.sleep(1.5)
        super().compute()


@needs_tflm
@pytest.mark.parametrize(("what", "message"), [("fail", "worker w1 cannot compute"), ("sleep", "is late")])
def test_a_worker_that_fails_or_sleeps_is_named_and_a_retry_may_succeed(what: str, message: str) -> None:
    found = cases.deployment()

    async def run(retries: int) -> None:
        _, contacts = await cases.start(found)
        odd = Worker(Refusing(found.fragments.workers[1], what), found.number, 1, found.peers(1))
        contacts = cases.elsewhere(contacts, 1, await odd.listen("127.0.0.1", 0))
        coordinator = cases.coordinator(found, contacts, 1.0 if what == "sleep" else 30.0)
        inputs, expected = cases.samples()[0]
        if retries:
            assert same(await coordinator.infer(inputs, retries), expected)
        else:
            with pytest.raises(ClusterError, match=message):
                await coordinator.infer(inputs)
            assert same(await coordinator.infer(inputs, 3), expected)
        coordinator.close()

    asyncio.run(run(0))
    asyncio.run(run(4))


@needs_tflm
def test_a_worker_with_another_plan_is_named() -> None:
    found = cases.deployment()

    async def run() -> None:
        _, contacts = await cases.start(found)
        _, others = await cases.start(replace(found), found.number ^ 1)
        mixed = {**contacts, 2: others[2]}
        coordinator = cases.coordinator(found, mixed)
        with pytest.raises(ClusterError, match="worker w2 has another plan"):
            await coordinator.infer(cases.samples()[0][0])
        answers = await ask_all(found.number, mixed, 5.0)
        assert [answer.fault for answer in answers] == [None, None, "has another plan"]

    asyncio.run(run())


def test_a_worker_in_anothers_place_is_a_stranger() -> None:
    found = cases.deployment()

    async def run() -> None:
        _, contacts = await cases.start(found)
        swapped = {**contacts, 1: contacts[2], 2: contacts[1]}
        with pytest.raises(ClusterError, match="is not who it should be"):
            await cases.coordinator(found, swapped).infer([np.zeros(17 * 13 * 3, np.int8)])

    asyncio.run(run())


@needs_tflm
def test_a_restarted_coordinator_is_served_and_its_predecessor_refused_once() -> None:
    found = cases.deployment()

    async def run() -> None:
        _, contacts = await cases.start(found)
        first, second = cases.coordinator(found, contacts), cases.coordinator(found, contacts)
        inputs, expected = cases.samples()[0]
        assert same(await first.infer(inputs), expected)
        assert same(await second.infer(inputs), expected)
        with pytest.raises(ClusterError, match="serves another coordinator"):
            await first.infer(inputs)
        assert same(await first.infer(inputs), expected)

    asyncio.run(run())


@needs_tflm
def test_concurrent_inferences_run_one_after_the_other() -> None:
    found = cases.deployment()

    async def run() -> None:
        _, contacts = await cases.start(found)
        coordinator = cases.coordinator(found, contacts)
        results = await asyncio.gather(*(coordinator.infer(inputs) for inputs, _ in cases.samples()))
        assert all(same(result, expected) for result, (_, expected) in zip(results, cases.samples(), strict=True))
        coordinator.close()

    asyncio.run(run())


@needs_tflm
@pytest.mark.parametrize("how", ["goes", "stays"])
def test_in_the_middle_of_an_inference_another_coordinator_takes_over(how: str) -> None:
    found = cases.deployment()

    async def run() -> None:
        _, contacts = await cases.start(found)
        await in_the_middle(found, contacts, how)

    asyncio.run(run())


@needs_tflm
def test_a_coordinator_takes_over_as_the_inference_of_another_one_ends() -> None:
    """``asyncio.wait_for`` of Python 3.11 returns a result that comes at the moment of its cancellation."""
    found, (inputs, expected) = cases.deployment(), cases.samples()[0]

    async def without_cancellation(waiting: Awaitable[object], seconds: float) -> object:
        result = await waiting
        if seconds != HANDSHAKE_SECONDS and not results:  # an inference of the first coordinator
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        return result

    async def run() -> None:
        _, contacts = await cases.start(found)
        with patch.object(worker, "in_time", without_cancellation):
            first, second = (cases.coordinator(found, contacts, 10) for _ in range(2))
            for each in (first, second):
                results.append(await each.infer(inputs))
        first.close()
        second.close()

    results = list[list[Int8Array]]()
    asyncio.run(run())
    assert all(same(result, expected) for result in results)


async def in_the_middle(found: Deployment, contacts: dict[int, Contact], how: str) -> None:
    """A coordinator goes, or is still there, at its first, second and fifth message; another one follows."""
    inputs, expected = cases.samples()[0]
    for messages in (1, 2, 5):
        first, came = cases.coordinator(found, contacts), asyncio.Semaphore(0)

        def note(here: int, there: int | None, message: Message, out: bool, came: asyncio.Semaphore = came) -> None:
            if message.kind in (Kind.DATA, Kind.STEP) and not out and here == COORDINATOR:
                came.release()

        with cases.observed(note):
            running = asyncio.ensure_future(first.infer(inputs))
            for _ in range(messages):
                await asyncio.wait_for(came.acquire(), 30)
        if how == "goes":
            running.cancel()
            await asyncio.wait({running})
        second = cases.coordinator(found, contacts)
        assert same(await second.infer(inputs), expected)
        second.close()
        if how == "stays":  # it was told, or had its outputs by then
            (ended,) = await asyncio.gather(running, return_exceptions=True)
            assert isinstance(ended, list) or "serves another coordinator" in str(ended) or "is lost" in str(ended)
            first.close()


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", Fault.DAMAGED),
        (b"\x5e\xf7\x02\x01" + bytes(40), Fault.VERSION),
    ],
)
def test_a_stranger_receives_the_reason_of_its_refusal(sent: bytes, fault: Fault) -> None:
    found = cases.deployment()

    async def run() -> None:
        _, contacts = await cases.start(found)
        stream = await connect(contacts[0].address)
        await stream.write(sent)
        connection = Connection(stream, found.number, COORDINATOR, 0)
        with pytest.raises(LinkError) as told:
            await connection.receive()
        assert told.value.fault is fault

    asyncio.run(run())


def test_messages_out_of_turn_end_the_connection() -> None:
    found = cases.deployment()

    async def told(*messages: tuple[Kind, int, int]) -> Fault:
        _, contacts = await cases.start(found)
        connection = Connection(await connect(contacts[0].address), found.number, COORDINATOR, 0)
        await connection.open(Wish.RUN)
        for kind, inference, item in messages:
            await connection.send(kind, inference=inference, item=item, payload=b"\x10\x27\0\0")
        with pytest.raises(LinkError) as error:
            while True:
                await connection.receive()
        return error.value.fault

    for messages in [
        ((Kind.DATA, 1, 0),),
        ((Kind.WELCOME, 0, 0),),
        ((Kind.START, 0, 0),),
        ((Kind.PEERS, 0, 0),),
        ((Kind.START, 1, 0), (Kind.DATA, 1, 5)),
        ((Kind.START, 1, 0), (Kind.DATA, 2, 0)),
    ]:
        assert asyncio.run(told(*messages)) is Fault.ORDER, messages
