"""The fuzzers detect each kind of defect, and a case is reproducible by its number."""

from __future__ import annotations

import os

import pytest

from scripts.fuzzing import counts, reader
from scripts.fuzzing.bounded import Budget, Case, run_cases


def outcomes(run: object, count: int = 1, budget: Budget | None = None) -> list[str]:
    case = Case(lambda number: bytes([number]), run)  # type: ignore[arg-type]
    return [outcome.word for outcome in run_cases(case, range(count), budget or Budget())]


def test_an_unexpected_exception_is_a_defect() -> None:
    assert outcomes(lambda data: data.decode("ascii") and {}["missing"]) == ["defect"]


def test_time_and_memory_beyond_the_budget_are_seen() -> None:
    def forever(data: bytes) -> str:
        while True:
            pass

    kept = []
    assert outcomes(forever, budget=Budget(seconds=0.2)) == ["time"]
    assert outcomes(lambda data: kept.append(b"x" * (3 << 30)) or "ok") == ["memory"]
    assert outcomes(lambda data: str(len(b"x" * (1 << 27))), budget=Budget(memory=1 << 25)) == ["memory"]


def test_a_case_that_takes_its_process_along_does_not_end_the_run() -> None:
    assert outcomes(lambda data: os._exit(3) if data == b"\1" else "ok", 4) == ["ok", "crash", "ok", "ok"]


@pytest.mark.slow
def test_a_case_is_its_number() -> None:
    files = [reader.damaged_file(number) for number in range(30)]
    assert files == [reader.damaged_file(number) for number in range(30)]
    assert len(set(files)) > 25


def test_damaged_files_end_in_the_projects_own_errors() -> None:
    seen = list(run_cases(reader.INSPECT, range(60), Budget(seconds=20.0)))
    assert not [outcome for outcome in seen if outcome.bad]
    assert {"ok", "ModelError"} <= {outcome.word for outcome in seen}


def test_the_report_is_a_table_of_counts() -> None:
    lines = counts.report().splitlines()
    assert lines[0] == "| fuzzer | cases | of | outcomes |"
    assert len(lines) == 2 + len(counts.load())
