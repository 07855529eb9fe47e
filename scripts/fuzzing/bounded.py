"""Runs cases in child processes with bounded memory and time; each ends well, badly, or over its budget."""

from __future__ import annotations

import gc
import os
import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """``make`` gives the input of a number, ``run`` answers it in one word, within the budget. What it raises is a
    defect. ``warm`` does once, in the parent of all processes, what they need not do each for itself."""

    make: Callable[[int], bytes]
    run: Callable[[bytes], str]
    warm: Callable[[], object] = lambda: None


_PATIENCE = 300.0
"""Seconds on the wall, for a machine that is busy with other things; processor time is bounded by the budget."""
_TRIES = 3
"""Where the time is over: others on the same core make the same work take twice the processor time."""
_BATCH = 500


@dataclass(frozen=True)
class Budget:
    """Processor seconds, and bytes of memory beyond what the process has before the case."""

    seconds: float = 2.0
    memory: int = 1 << 30


@dataclass(frozen=True)
class Outcome:
    """What became of a case: ``word`` is ``ok``, a refusal's class or a kind of defect; ``detail`` says where."""

    number: int
    word: str
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.word in ("defect", "time", "memory", "crash")


class _OutOfTime(BaseException):
    """Of its own kind, so that nothing catches it."""


def run_cases(case: Case, numbers: range, budget: Budget) -> Iterator[Outcome]:
    """Yield the outcomes of the cases in order; a case that ends its process does not end the run."""
    case.warm()
    todo = list(numbers)
    while todo:
        done = 0
        for outcome in _of_one_process(case, todo[:_BATCH], budget):
            done += 1
            yield outcome
        del todo[:done]


def _of_one_process(case: Case, numbers: list[int], budget: Budget) -> Iterator[Outcome]:
    """Yield outcomes of the cases one process gets through, the one that ends it the last."""
    ours, theirs = get_context("fork").Pipe()
    process = get_context("fork").Process(target=_serve, args=(theirs, case, numbers, budget), daemon=True)
    process.start()
    theirs.close()
    try:
        for number in numbers:
            try:
                answer = ours.recv() if ours.poll(_PATIENCE) else None
            except (EOFError, ConnectionError):
                process.join()
                yield Outcome(number, "crash", f"exit code {process.exitcode}")
                return
            yield answer or Outcome(number, "time", "no answer for minutes")
            if answer is None:
                return
    finally:
        process.kill()
        process.join()
        ours.close()


def _serve(connection: Connection, case: Case, numbers: list[int], budget: Budget) -> None:
    gc.freeze()  # what the parent made is not looked through again and again
    signal.signal(signal.SIGPROF, _out_of_time)
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    for number in numbers:
        outcome = _one(case, number, budget)
        for _ in range(_TRIES - 1 if outcome.word == "time" else 0):
            again = _one(case, number, budget)
            outcome = outcome if again.word == "time" else again
        connection.send(outcome)
    connection.close()


def _out_of_time(*_: object) -> None:
    raise _OutOfTime


def _one(case: Case, number: int, budget: Budget) -> Outcome:
    data = case.make(number)
    before = _start_watching_memory(budget)
    signal.setitimer(signal.ITIMER_PROF, budget.seconds)
    try:
        word, detail = case.run(data), ""
    except _OutOfTime as error:
        word, detail = "time", _where(error)
    except MemoryError as error:
        word, detail = "memory", _where(error)
    except Exception as error:
        word, detail = "defect", f"{type(error).__name__}: {str(error)[:200]} {_where(error)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    taken = _peak_memory() - before
    if word not in ("time", "memory", "defect") and taken > budget.memory:
        word, detail = "memory", f"{taken:,} bytes"
    return Outcome(number, word, detail)


def _where(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "tflite_fuse" in f.filename]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[-4:]))


def _start_watching_memory(budget: Budget) -> int:
    """Reset the peak, and set a limit that ends the greediest cases in ``MemoryError`` instead of this machine."""
    Path("/proc/self/clear_refs").write_text("5")
    sizes = _status()
    resource.setrlimit(resource.RLIMIT_AS, (sizes["VmSize"] + budget.memory + (1 << 28), resource.RLIM_INFINITY))
    return sizes["VmRSS"]


def _peak_memory() -> int:
    return _status()["VmHWM"]


def _status() -> dict[str, int]:
    """Return sizes of this process in bytes."""
    status = Path("/proc/self/status").read_text().splitlines()
    lines = [line.split() for line in status if line.startswith("Vm")]
    return {name.rstrip(":"): int(size) * 1024 for name, size, *_ in lines}
