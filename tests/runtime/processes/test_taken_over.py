"""A compromised runtime may reply anything: the parent reports it, and neither waits nor grows."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.small_models import dense_model
from tflite_fuse.errors import ModelError
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.processes.child import send_frame
from tflite_fuse.runtime.processes.connection import Pixels
from tflite_fuse.runtime.processes.worker import Worker, WorkerKind
from tflite_fuse.runtime.streams import Stream

pytestmark = pytest.mark.skipif(not tflm.available(), reason="tflite-micro is not installed")

Answering = Callable[[Callable[[socket.socket], object]], Worker]


@pytest.fixture
def taken_over() -> Iterator[Answering]:
    """Workers that a function answers for, once, in place of the runtime."""
    workers: list[Worker] = []

    def start(answer: Callable[[socket.socket], object]) -> Worker:
        worker = Worker(WorkerKind())
        workers.append(worker)
        worker.load(dense_model())
        ours, theirs = socket.socketpair()
        worker._child._connection.close()
        worker._child._connection = ours
        threading.Thread(target=_quietly, args=(answer, theirs), daemon=True).start()
        return worker

    yield start
    for each in workers:
        each.close()


def _quietly(answer: Callable[[socket.socket], object], connection: socket.socket) -> None:
    try:
        answer(connection)
    except OSError:  # the parent has heard enough
        connection.close()


def _says(header: Any, body: bytes = b"") -> Callable[[socket.socket], object]:
    return lambda connection: send_frame(connection, header, [body])


ANSWERS: dict[str, Callable[[socket.socket], object]] = {
    "nothing it was asked for": _says({}),
    "no table": _says([1]),
    "arrays without number": _says({"arrays": 3}),
    "more than it sends": _says({"arrays": [["int8", [1 << 40]]]}),
    "a shape below zero": _says({"arrays": [["int8", [-1]]]}, b"1234"),
    "a shape of fractions": _says({"arrays": [["int8", [0.5]]]}),
    "objects": _says({"arrays": [["O", [1]]]}, bytes(8)),
    "types of a terabyte": _says({"arrays": [["(1000000,1000000)i1", [1]]]}),
    "text that is no JSON": lambda connection: connection.sendall(struct.pack("<4sIQ", b"TFW1", 1, 0) + b"{"),
    "tables in tables": lambda connection: connection.sendall(struct.pack("<4sIQ", b"TFW1", 99999, 0) + b"[" * 99999),
    "eight exabytes to come": lambda connection: connection.sendall(struct.pack("<4sIQ", b"TFW1", 2, 1 << 63) + b"{}"),
    "that it wants pixels of nobody": _says({"wanted": [7, 0, 0, 1]}),
    "that it wants a word": _says({"wanted": "pixels"}),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_an_invalid_answer_is_reported(what: str, taken_over: Answering) -> None:
    worker = taken_over(ANSWERS[what])
    with pytest.raises(ModelError, match=r"cannot run the model: the runtime('s reply is malformed| ended| crashed)"):
        worker.infer(_zeros(worker), timeout=20.0)
    assert not worker.healthy


def _zeros(worker: Worker) -> list[Any]:
    return [np.zeros(each.shape, each.dtype) for each in worker.inputs]


def test_an_answer_that_trickles_in_has_no_longer_than_any_other(taken_over: Answering) -> None:
    def trickle(connection: socket.socket) -> None:
        connection.sendall(struct.pack("<4sIQ", b"TFW1", 1 << 20, 0))
        while True:
            connection.sendall(b" ")
            time.sleep(0.05)

    worker = taken_over(trickle)
    with pytest.raises(ModelError, match="took longer than 1 s"):
        worker.infer(_zeros(worker), timeout=1.0)


def test_questions_without_end_have_no_longer_than_one(taken_over: Answering) -> None:
    def ask(connection: socket.socket) -> None:
        while True:
            send_frame(connection, {"wanted": [0, 0, 0, 1]})
            time.sleep(0.05)

    worker = taken_over(ask)
    with pytest.raises(ModelError, match="took longer than 1 s"):
        worker.infer(_zeros(worker), [Stream(lambda y, x, count: bytes(count), (2, 2, 1))], timeout=1.0)


@pytest.mark.parametrize(
    "expected", [[0, 2, 0, 1], [0, -1, 0, 1], [0, 0, 1, 2], [0, 0, 0, 0], [0, 0, 0, 1.0], [0, 0, 0]]
)
def test_a_source_is_read_within_its_image(expected: list[Any]) -> None:
    pixels = Pixels([Stream(lambda y, x, count: pytest.fail("asked"), (2, 2, 1))])
    with pytest.raises(ValueError, match=r"\["):
        pixels.answer(expected)
    assert pixels.error is None


def test_a_json_beside_the_model_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "runpy", "socket", "ctypes"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\nraise SystemExit('taken over')\n")
    monkeypatch.chdir(tmp_path)
    worker = Worker(WorkerKind())
    worker.load(dense_model())
    worker.close()
    assert not (tmp_path / "run").exists()
