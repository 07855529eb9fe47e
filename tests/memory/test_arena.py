"""The single computation of the arena: its results, and that all callers get the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from tflite_fuse import Goal
from tflite_fuse.ir.program import Overlap, program_of
from tflite_fuse.memory.arena import ArenaOptions, realise, with_given_offsets
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.tflm.greedy_planner import head_bytes
from tflite_fuse.memory.tflm.offline_plan import read_plan, write_plan
from tflite_fuse.memory.tflm.tail import loading_bytes, predict_tail
from tflite_fuse.model import Model, load_model, serialize_model


def chain(*channels: int) -> Model:
    """1x1 convolutions of an 8x8 image: each tensor has 64 bytes for each channel."""
    builder = ModelBuilder(seed=0)
    x = builder.input((1, 8, 8, channels[0]))
    for count in channels[1:]:
        x = builder.conv(x, count)
    return builder.build([x])


UNEVEN = chain(2, 1, 1, 2)
"""The runtime's planner puts both of the larger tensors at the bottom, and one of the smaller ones above the other."""


def test_every_shared_model_needs_the_arena_of_its_planned_file(shared_model: Path) -> None:
    model = load_model(shared_model)
    arena = realise(program_of(model))
    planned = model if arena.offsets is None else write_plan(model, arena.offsets)
    placed, offsets = program_of(planned), read_plan(planned)
    stands = with_given_offsets(placed, offsets=offsets)
    assert (arena.head, arena.tail, arena.while_loading) == (stands.head, stands.tail, stands.while_loading)
    assert arena.head == head_bytes(planned) <= head_bytes(model)
    assert arena.tail == predict_tail(placed, offsets=offsets).total
    assert arena.while_loading == loading_bytes(placed)
    assert arena.proof.proven == (arena.head == arena.proof.bound_bytes)


def test_without_a_plan_the_runtimes_planner_counts() -> None:
    free, planned = realise(program_of(UNEVEN), options=ArenaOptions(planned=False)), realise(program_of(UNEVEN))
    assert (free.head, free.offsets, free.proof.proven) == (head_bytes(UNEVEN), None, False)
    assert planned.head < free.head and planned.head == planned.proof.bound_bytes == free.proof.bound_bytes


def test_the_library_alone_has_an_offset_for_every_tensor() -> None:
    model = chain(4, 4, 4)
    assert realise(program_of(model)).offsets is None
    alone = realise(program_of(model), options=ArenaOptions(without_tflm=True))
    assert alone.offsets is not None and (alone.tail, alone.while_loading) == (0, 0)
    check_plan(program_of(model), alone.offsets, height=alone.head)


def test_overlaps_of_blocks_lower_the_head_and_its_bound() -> None:
    model = chain(4, 4)
    overlap = Overlap(model.main.inputs[0], model.main.outputs[0], 32)
    assert realise(program_of(model)).head == 512
    shared = realise(program_of(model), (overlap,))
    assert (shared.head, shared.proof.bound_bytes, shared.proof.proven) == (288, 288, True)


def test_operators_in_place_lower_the_head() -> None:
    builder = ModelBuilder(seed=0)
    model = builder.build([builder.softmax(builder.add(builder.input((1, 8, 8, 4)), builder.input((1, 8, 8, 4))))])
    assert realise(program_of(model)).head == 768
    assert realise(program_of(model), options=ArenaOptions("reference")).head == 512


def test_without_any_work_left_the_answer_is_sound_and_claims_nothing_more() -> None:
    model = chain(*(3 + 7 * index % 11 for index in range(30)))
    spent = Budget(0)
    arena = realise(program_of(model), budget=spent)
    assert arena.head <= head_bytes(model) and arena.head >= arena.proof.bound_bytes
    assert not spent.braked and spent.is_over()


def test_a_budget_is_shared_and_counted_alike_every_time() -> None:
    model, budget = chain(*(3 + 7 * index % 11 for index in range(30))), Budget()
    first, second = realise(program_of(model), budget=budget), realise(program_of(model), budget=budget)
    again = Budget()
    assert realise(program_of(model), budget=again) == first == second
    assert Budget().left - budget.left == 2 * (Budget().left - again.left) > 0


def test_a_budget_records_that_it_ran_out() -> None:
    assert Budget(seconds=0.0).is_over() and not Budget(seconds=60.0).is_over()
    braked = Budget(seconds=0.0)
    braked.is_over()
    assert braked.braked


def softmax_over_a_map() -> bytes:
    """Three convolutions and a SOFTMAX that may write over its input: what is left of the peak is there."""
    builder = ModelBuilder(0)
    x = builder.input((1, 32, 32, 3))
    for _ in range(3):
        x = builder.conv(x, 8, 3)
    return serialize_model(builder.build([builder.softmax(x)]))


@pytest.mark.parametrize("spare", [0, 1000, 4000])
def test_limits_count_the_gain_of_operators_in_place(spare: int) -> None:
    """A candidate is judged as the plan will be made: a limit above what no limit reaches is reached."""
    model = softmax_over_a_map()
    free = tflite_fuse.rewrite(model, verify=False, in_place="reference").report.after.arena_bytes
    goal = Goal(max_ram=free + spare)
    report = tflite_fuse.rewrite(model, verify=False, in_place="reference", goal=goal).report
    assert report.after.arena_bytes <= free + spare and report.compute_factor == 1.0
