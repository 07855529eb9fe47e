from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.memory.place.placement_graphs import chain, programs
from tflite_fuse.errors import PlanError
from tflite_fuse.ir.program import Overlap, Program, Step
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.place.portfolio import place

THREE = Program(
    (32, 32, 32),
    (Step("first", (0,), (1,)), Step("second", (1,), (2,))),
    (0,),
    (2,),
    names=("in", "mid", "out"),
)


def test_accepts_memory_that_is_used_again() -> None:
    check_plan(THREE, (0, 32, 0), height=64)


def test_names_both_tensors_and_the_operator() -> None:
    with pytest.raises(PlanError, match="output mid of operator first overlaps its input in"):
        check_plan(THREE, (0, 16, 64))


def test_one_step_more_of_life_is_noticed() -> None:
    ops = (*THREE.steps[:1], Step("second", (1, 0), (2,)))
    graph = Program(THREE.sizes, ops, (0,), (2,), names=THREE.names)
    with pytest.raises(PlanError, match="output out of operator second overlaps its input in"):
        check_plan(graph, (0, 32, 0))


def test_one_byte_more_is_noticed() -> None:
    check_plan(Program((16, 16), THREE.steps[:1], (0,), (1,)), (0, 16))
    with pytest.raises(PlanError, match="overlaps its input"):
        check_plan(Program((17, 16), THREE.steps[:1], (0,), (1,)), (0, 16))


def test_a_tensor_overwritten_between_is_found_where_it_is_read() -> None:
    ops = (Step("a", (0,), (1,)), Step("b", (1,), (2,)), Step("c", (0, 2), (3,)))
    graph = Program((16, 16, 16, 16), ops, (0,), (3,), names=("skip", "x", "y", "z"))
    check_plan(graph, (0, 16, 32, 16))
    with pytest.raises(PlanError, match="skip was overwritten with y by operator b before operator c reads it"):
        check_plan(graph, (0, 16, 0, 32))


def test_outputs_stay_to_the_end() -> None:
    graph = Program(THREE.sizes, THREE.steps, (0,), (1, 2), names=THREE.names)
    check_plan(graph, (0, 32, 0))
    kept_input = Program(THREE.sizes, THREE.steps, (0,), (0, 2), names=THREE.names)
    with pytest.raises(PlanError, match="in was overwritten with out by operator second before the network returns it"):
        check_plan(kept_input, (0, 32, 0))


def test_inputs_must_not_overlap_even_without_readers() -> None:
    graph = Program((16, 16, 16), (Step("op", (1,), (2,)),), (0, 1), (2,))
    with pytest.raises(PlanError, match="t0 was overwritten with t1"):
        check_plan(graph, (0, 0, 16))


def test_outputs_of_one_operator_must_not_overlap() -> None:
    graph = Program((16, 32, 16), (Step("op", (0,), (1, 2)),), (0,), (1,))
    check_plan(graph, (0, 16, 48))
    with pytest.raises(PlanError, match="t1 was overwritten with t2 by operator op before operator op has written it"):
        check_plan(graph, (0, 16, 32))


def test_places_must_be_aligned_and_inside() -> None:
    with pytest.raises(PlanError, match="not a multiple of 16"):
        check_plan(THREE, (0, 40, 0))
    with pytest.raises(PlanError, match="negative"):
        check_plan(THREE, (0, 32, -16))
    with pytest.raises(PlanError, match="ends at byte 64 of an arena of 63"):
        check_plan(THREE, (0, 32, 0), height=63)
    with pytest.raises(PlanError, match="no place"):
        check_plan(THREE, (0, -1, 0))
    with pytest.raises(PlanError, match="2 offsets, the graph 3"):
        check_plan(THREE, (0, 32))
    check_plan(THREE, (0, 36, 0), alignment=4)


def test_in_place_means_the_same_first_byte() -> None:
    graph = Program((32, 32), (Step("op", (0,), (1,), in_place=((0, 1),)),), (0,), (1,))
    check_plan(graph, (16, 16))
    with pytest.raises(PlanError, match="overlaps its input"):
        check_plan(graph, (16, 0))
    check_plan(Program((32, 32), (Step("op", (0,), (1,)),), (0,), (1,)), (0, 0), (Overlap(0, 1),))


def test_in_place_over_an_input_that_is_read_again() -> None:
    ops = (Step("a", (0,), (1,), in_place=((0, 1),)), Step("b", (0, 1), (2,)))
    with pytest.raises(PlanError, match="t0 was overwritten with t1 by operator a before operator b reads it"):
        check_plan(Program((16, 16, 16), ops, (0,), (2,)), (0, 0, 16))


@pytest.mark.parametrize("distance", [0, 1, 16, 17, 33, -15, -16])
def test_a_diagonal_overlap_holds_to_the_byte(distance: int) -> None:
    graph = Program((64, 64), (Step("block", (0,), (1,)),), (0,), (1,))
    allowed = (Overlap(0, 1, distance),)
    for output in range(0, 160):
        source = 80
        apart = output + 64 <= source or source + 64 <= output
        if apart or output + distance <= source:
            check_plan(graph, (source, output), allowed, alignment=1)
        else:
            with pytest.raises(PlanError, match="output t1 of operator block overlaps its input t0"):
                check_plan(graph, (source, output), allowed, alignment=1)


def test_an_overlap_of_other_tensors_permits_nothing() -> None:
    with pytest.raises(PlanError, match="overlaps its input"):
        check_plan(THREE, (0, 0, 64), (Overlap(1, 2, 0), Overlap(1, 0, 0)))


def test_huge_offsets_are_no_burden() -> None:
    check_plan(THREE, (0, 2**40, 2**30))


def test_resident_tensors_overlap_no_other() -> None:
    graph = Program((16, 16, 16), (Step("op", (0, 2), (1,)),), (0,), (1,), resident=(2,))
    check_plan(graph, (0, 16, -1))
    check_plan(graph, (0, 16, 32))
    with pytest.raises(PlanError, match="overlaps"):
        check_plan(graph, (0, 16, 16))


@given(programs(most_bytes=64), st.data())
@settings(max_examples=80)
def test_a_tensor_moved_onto_one_alive_at_the_same_time_is_found(graph: Program, data: st.DataObject) -> None:
    """Two tensors that one operator touches are put at one place: always wrong."""
    placement = place(graph)
    op = data.draw(st.sampled_from(graph.steps))
    read, written = data.draw(st.sampled_from(op.inputs)), data.draw(st.sampled_from(op.outputs))
    assume(read != written)
    offsets = list(placement.offsets)
    offsets[written] = offsets[read]
    with pytest.raises(PlanError):
        check_plan(graph, offsets)


def test_a_plan_that_is_one_unit_short_is_found() -> None:
    graph = chain([48, 64, 80, 32])
    placement = place(graph)
    with pytest.raises(PlanError, match="ends at byte"):
        check_plan(graph, placement.offsets, height=placement.height - 1)
