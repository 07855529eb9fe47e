"""Fragments as bytes: round trips; damaged or hostile ones are refused in C and Python."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.split.fragments.cases import fragments, planned, with_header, with_step, with_view, without_operators
from tests.split.networks import cluster, network
from tflite_fuse.errors import BlockError, PlanError
from tflite_fuse.runtime.library.sources import library_directory
from tflite_fuse.runtime.library.worker import HostWorker
from tflite_fuse.split.fragments.encode import decode, encode_plan
from tflite_fuse.split.fragments.structs import StepKind
from tflite_fuse.split.needs import LIBRARY_BYTES, SUMS_BYTES
from tflite_fuse.split.protocol import PAYLOAD_BYTES


@pytest.mark.parametrize("strategy", ["paper", "time", "ram", "traffic"])
def test_a_fragment_is_as_long_as_was_counted(strategy: str) -> None:
    plan, accountant = planned(network(), strategy, 3)
    fragments = encode_plan(accountant.network, plan, accountant.parts).workers
    for needs, fragment in zip(accountant.of_plan(plan, cluster()), fragments, strict=False):
        assert needs.flash_bytes - len(fragment) in (LIBRARY_BYTES, LIBRARY_BYTES + SUMS_BYTES)


def test_every_fragment_names_its_device_and_plan() -> None:
    found = fragments()
    for device, data in zip((0, 1, 2, -1), (*found.workers, found.coordinator), strict=True):
        fragment = decode(data)
        assert (fragment.header.device, fragment.header.workers, fragment.plan) == (device, 3, found.plan)
    assert found.plan != fragments("time").plan
    kinds = {step.kind for data in found.workers for step in decode(data).steps}
    assert kinds == {StepKind.SEND, StepKind.RECEIVE, StepKind.COPY, StepKind.BLOCK}
    assert StepKind.OPERATOR in {step.kind for step in decode(found.coordinator).steps}


def test_messages_have_the_same_size_in_c() -> None:
    header = (library_directory() / "tflite_fuse_worker.h").read_text()
    assert re.findall(r"#define TFLITE_FUSE_PAYLOAD_BYTES (\d+)", header) == [str(PAYLOAD_BYTES)]


@pytest.mark.parametrize("at", [0, 5, 9, 13, 17, 40, 90, -300, -1])
def test_a_changed_byte_is_noticed_on_both_sides(at: int) -> None:
    data = bytearray(fragments().workers[1])
    data[at] ^= 4
    with pytest.raises(PlanError):
        decode(bytes(data))
    with pytest.raises(BlockError):
        HostWorker(bytes(data))


@pytest.mark.parametrize("length", [0, 20, 75, 80, 500])
def test_half_a_fragment_is_refused_on_both_sides(length: int) -> None:
    data = fragments().workers[0][:length]
    with pytest.raises(PlanError):
        decode(data)
    with pytest.raises(BlockError, match="truncated"):
        HostWorker(data)


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "another version": (lambda f: with_header(f, version=2), "another version"),
    "a device that is not there": (lambda f: with_header(f, device=7), "truncated, misaligned or not a fragment"),
    "too many workers": (lambda f: with_header(f, workers=5000), "truncated, misaligned or not a fragment"),
    "steps outside": (lambda f: with_header(f, steps=len(f) - 4), "truncated, misaligned or not a fragment"),
    "steps without end": (lambda f: with_header(f, step_count=2**32 - 1), "truncated, misaligned or not a fragment"),
    "a smaller buffer": (lambda f: with_header(f, buffer_bytes=16), "outside the buffer"),
    "a view far away": (lambda f: with_view(f, 0, offset=2**32 - 1), "outside the buffer"),
    "a view of too many rows": (lambda f: with_view(f, 0, rows=2**31, row_stride=2**31), "outside the buffer"),
    "a view of nothing": (lambda f: with_view(f, 0, run=0), "outside the buffer"),
    "a view of one place again and again": (
        lambda f: with_view(f, 0, rows=2**31, columns=2**31, row_stride=0, column_stride=0),
        "outside the buffer",
    ),
    "a kind that is none": (lambda f: with_step(f, StepKind.COPY, lambda s: s._replace(kind=9)), "a step"),
    "a copy over itself": (
        lambda f: with_view(f, copied(f) + 1, **decode(f).views[copied(f)]._asdict()),
        "over live data",
    ),
    "a copy of other bytes": (lambda f: with_step(f, StepKind.COPY, lambda s: s._replace(bytes=s.bytes + 1)), "a step"),
    "views that are not there": (
        lambda f: with_step(f, StepKind.SEND, lambda s: s._replace(first=2**32 - 1)),
        "a step",
    ),
    "a message to itself": (lambda f: with_step(f, StepKind.SEND, lambda s: s._replace(peer=1)), "a step"),
    "a message to nobody": (lambda f: with_step(f, StepKind.SEND, lambda s: s._replace(peer=3)), "a step"),
    "a message out of order": (
        lambda f: with_step(f, StepKind.SEND, lambda s: s._replace(number=s.number + 1)),
        "a step",
    ),
    "a message of nothing": (lambda f: with_step(f, StepKind.SEND, lambda s: s._replace(bytes=0)), "a step"),
    "a block that is not there": (lambda f: with_step(f, StepKind.BLOCK, lambda s: s._replace(number=999)), "a step"),
    "too few operands": (
        lambda f: with_step(f, StepKind.BLOCK, lambda s: s._replace(amount=s.amount - 1)),
        "a step",
    ),
    "scratch far away": (
        lambda f: with_step(f, StepKind.BLOCK, lambda s: s._replace(scratch=2**32 - 8)),
        "outside the buffer",
    ),
    "scratch over an operand": (
        lambda f: with_step(f, StepKind.BLOCK, lambda s: s._replace(scratch=decode(f).operands[s.first] // 8 * 8)),
        "over live data",
    ),
    "scratch askew": (
        lambda f: with_step(f, StepKind.BLOCK, lambda s: s._replace(scratch=s.scratch + 4)),
        "outside the buffer",
    ),
}


def copied(fragment: bytes) -> int:
    """The first view of the first copy."""
    return next(step.first for step in decode(fragment).steps if step.kind == StepKind.COPY)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_fragment_with_a_checksum_that_fits_is_refused(name: str) -> None:
    change, message = HOSTILE[name]
    data = fragments().workers[1]
    HostWorker(data)
    with pytest.raises(BlockError, match=message):
        HostWorker(change(data))


def test_the_library_refuses_fragments_that_only_python_runs() -> None:
    with pytest.raises(BlockError, match="only a coordinator in Python runs"):
        HostWorker(fragments().coordinator)
    HostWorker(without_operators()[1].coordinator)
