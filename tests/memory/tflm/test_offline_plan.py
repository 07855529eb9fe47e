from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.one_operator import MODELS
from tflite_fuse.errors import PlanError
from tflite_fuse.memory.tflm.offline_plan import (
    METADATA_NAME,
    decode_plan,
    encode_plan,
    has_plan,
    read_plan,
    remove_plan,
    tensor_count,
    write_plan,
)
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model import schema as s

MODEL = MODELS["ADD"]


@given(st.lists(st.sampled_from([-1, 0, 16, 4096, 2**31 - 16])), st.integers(1, 5))
def test_plans_are_decoded_as_encoded(offsets: list[int], subgraphs: int) -> None:
    assert decode_plan(encode_plan(offsets, subgraphs)) == tuple(offsets)


def test_the_format_is_the_runtimes() -> None:
    assert encode_plan((0, -1, 48), 2) == struct.pack("<6i", 1, 2, 3, 0, -1, 48)


@pytest.mark.parametrize("offset", [-2, -16, 8, 17, 2**31, 2**40])
def test_an_offset_that_cannot_be_stored_is_refused(offset: int) -> None:
    with pytest.raises(PlanError, match=f"offset {offset} of tensor 1"):
        encode_plan((0, offset))


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        offsets = decode_plan(data)
    except PlanError:
        return
    assert len(offsets) * 4 + 12 <= len(data)


@pytest.mark.parametrize("count", [-1, 3, 2**31 - 1, -(2**31)])
def test_a_wrong_count_is_refused(count: int) -> None:
    with pytest.raises(PlanError, match="announces"):
        decode_plan(struct.pack("<5i", 1, 1, count, 0, 0))


def test_bytes_behind_the_plan_are_ignored() -> None:
    assert decode_plan(struct.pack("<5i", 1, 1, 1, 16, 99)) == (16,)


def test_a_plan_survives_the_file() -> None:
    planned = write_plan(MODEL, (0, 32, 64))
    again = load_model(serialize_model(planned))
    assert read_plan(again) == (0, 32, 64)
    assert has_plan(again)
    assert not has_plan(MODEL)
    assert read_plan(MODEL) is None


def test_the_plan_lies_aligned_in_the_file() -> None:
    data = serialize_model(write_plan(MODEL, (0, 32, 64)))
    assert data.index(encode_plan((0, 32, 64))) % 16 == 0


def test_a_new_plan_replaces_the_old_one() -> None:
    planned = write_plan(write_plan(MODEL, (0, 32, 64)), (64, 32, 0))
    assert read_plan(planned) == (64, 32, 0)
    assert [entry.name for entry in planned.metadata or ()] == [METADATA_NAME]
    assert len(planned.buffers) == len(MODEL.buffers) + 1


def test_removing_leaves_other_metadata_alone() -> None:
    noted = replace(MODEL, metadata=(s.Metadata("note", 0),))
    assert remove_plan(write_plan(noted, (0, 32, 64))) == noted
    assert remove_plan(noted) is noted


def test_a_plan_needs_one_offset_for_each_tensor_of_all_subgraphs() -> None:
    two = replace(MODEL, subgraphs=(MODEL.main, MODEL.main))
    assert tensor_count(two) == 6
    with pytest.raises(PlanError, match="a plan of 3 offsets does not fit a model of 6 tensors"):
        write_plan(two, (0, 32, 64))
    assert read_plan(write_plan(two, (0, 32, 64, -1, -1, -1))) == (0, 32, 64, -1, -1, -1)


def test_a_plan_for_other_tensors_is_refused() -> None:
    planned = write_plan(MODEL, (0, 32, 64))
    with pytest.raises(PlanError, match="made for 3 tensors but the model has 6"):
        read_plan(replace(planned, subgraphs=(MODEL.main, MODEL.main)))


def test_of_two_plans_the_last_counts_as_in_the_runtime() -> None:
    buffers = (*MODEL.buffers, s.Buffer(encode_plan((0, 0, 0))), s.Buffer(encode_plan((0, 32, 64))))
    metadata = tuple(s.Metadata(METADATA_NAME, len(MODEL.buffers) + number) for number in range(2))
    double = replace(MODEL, buffers=buffers, metadata=metadata)
    assert read_plan(double) == (0, 32, 64)
    assert not has_plan(remove_plan(double))


def test_an_empty_plan_is_refused() -> None:
    empty = replace(MODEL, metadata=(s.Metadata(METADATA_NAME, 0),))
    with pytest.raises(PlanError, match="0 bytes"):
        read_plan(empty)
