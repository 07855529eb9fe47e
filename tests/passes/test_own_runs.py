"""Stages with their own runs: never more memory or instructions than with one length for all, and the same bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

import tflite_fuse
from scripts.zoo import networks
from scripts.zoo.builder import ModelBuilder
from tests.builders import random_models
from tests.emit.test_encode import small_block
from tflite_fuse.cost.instructions import Target, block_instructions
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.errors import BlockError, LimitError
from tflite_fuse.ir.block import BlockConfig
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.fusing.candidate import Candidate
from tflite_fuse.passes.fusing.fuse import Fuse
from tflite_fuse.passes.fusing.objective import objective_of
from tflite_fuse.passes.fusing.own_runs import OwnRuns
from tflite_fuse.passes.fusing.propose import smallest
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.rewriting.figures import arena_in_file
from tflite_fuse.runtime import tflm
from tflite_fuse.search.fusion_front import CHUNKS
from tflite_fuse.tuning import TUNING


def least_and_better(model: Model, mode: InputMode, more: int = 0) -> tuple[Candidate, Candidate]:
    """The least arena with one length of runs for each block, and what becomes of it."""
    options = FuseOptions(goal=Goal(least_ram=True), input_mode=mode)
    site = Fuse(options).site(model)
    objective = objective_of(site, options.goal)
    least = objective.least(list(smallest(site, objective)))
    assert least is not None
    return least, OwnRuns(site).with_own_runs(least, more)


@pytest.mark.parametrize("mode", [InputMode.RESIDENT, InputMode.STREAMED])
def test_strides_let_runs_before_them_be_longer(mode: InputMode) -> None:
    least, better = least_and_better(networks.mobile_network(size=64), mode, more=256)
    assert better.arena <= least.arena + 256
    assert better.time < 0.97 * least.time
    configs = [block.plan.config for block in better.blocks]
    assert any(max(config.longest_runs, default=0) > config.chunk for config in configs)


def test_no_one_length_for_all_takes_fewer_instructions_in_the_same_memory() -> None:
    least, better = least_and_better(networks.mobile_network(size=64), InputMode.STREAMED, more=1024)
    assert better is not least
    for before, after in zip(least.blocks, better.blocks, strict=True):
        plan, now = before.plan, after.plan
        for chunk in range(1, 2 * plan.config.chunk + 1):
            config = replace(plan.config, chunk=chunk, longest_runs=())
            other = schedule(plan.block, config)
            if other.scratch_bytes <= plan.schedule.scratch_bytes + 1024 and chunk in CHUNKS:
                found = [block_instructions([(plan.block, run)], Target.GENERIC) for run in (now.schedule, other)]
                assert found[0] <= found[1]


def test_stages_run_ahead_where_windows_would_leave_single_pixels() -> None:
    b = ModelBuilder()
    x = b.conv(b.input((1, 25, 5, 4)), 32, 3)
    for _ in range(3):
        x = b.conv(b.depthwise(x, 3), 32)
    model = b.build([b.softmax(b.fully_connected(b.mean(x), 4))])
    least, better = least_and_better(model, InputMode.RESIDENT, more=96)
    assert better.arena <= least.arena + 96
    runners = [block.plan for block in better.blocks if block.plan.config.ahead]
    assert runners
    for plan in runners:
        waiting = schedule(plan.block, replace(plan.config, ahead=frozenset()))
        singles, before = (sum(runs.get(1, 0) for runs in each.stage_runs) for each in (plan.schedule, waiting))
        assert singles < before


def test_stages_of_states_and_driven_stages_do_not_run_ahead() -> None:
    block = small_block()
    assert schedule(block, BlockConfig(9, 9)).config.ahead == frozenset()
    with pytest.raises(BlockError, match="Stage 0 cannot run ahead"):
        schedule(block, BlockConfig(9, 9, ahead=frozenset({0})))
    with pytest.raises(BlockError, match="Stage -1 cannot run ahead"):
        schedule(block, BlockConfig(9, 9, ahead=frozenset({-1})))


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(random_models())
def test_never_more_memory_or_instructions(model: Model) -> None:
    for mode in (InputMode.RESIDENT, InputMode.STREAMED):
        try:
            least, better = least_and_better(model, mode)
        except LimitError:  # nothing of it can be streamed
            continue
        assert better.arena <= least.arena
        assert better.time <= least.time
        for block in better.blocks:
            assert all(run <= TUNING.longest_run for run in block.plan.config.longest_runs)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(random_models())
def test_nothing_needs_less_than_the_least_ram(model: Model) -> None:
    data = serialize_model(model)
    made = [tflite_fuse.rewrite(data, goal=goal, verify=False).model for goal in (Goal(), Goal(least_ram=True))]
    arenas = [arena_in_file(load_model(each), each) for each in made]
    default, least = (max(arena.total, arena.while_loading) for arena in arenas)
    assert least <= default


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("mode", tflite_fuse.INPUT_MODES)
def test_own_runs_keep_the_bytes_and_stand_in_the_file(mode: str) -> None:
    model = serialize_model(networks.mobile_network(size=64))
    result = tflite_fuse.rewrite(model, input_mode=mode, inputs=8)
    assert result.report.verified is not None and result.report.verified.bit_exact
    found = [decoded.config for decoded in blocks_in(load_model(result.model)).values()]
    assert mode == "resident" or any(config.longest_runs for config in found)
