"""In one rewrite nothing is worked out twice: scheduled and encoded once per block.

A model is lowered once to be prepared and once to be searched: together 1 % of a rewrite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tflite_fuse
from scripts.zoo.networks import cell_network, inverted_residual_network
from tests.conftest import shared_models
from tflite_fuse import Goal
from tflite_fuse.emit import block_plan, in_model, insert_blocks
from tflite_fuse.ir.block import Block
from tflite_fuse.ir.program import program_of
from tflite_fuse.model import file, load_model, serialize_model
from tflite_fuse.ops.lowering import extract
from tflite_fuse.ops.lowering import lower as operators
from tflite_fuse.runtime import tflm

GOALS = [None, Goal(least_ram=True), Goal(max_compute=1.3), Goal(max_ram=12_000)]


class Calls:
    """What was asked of some functions, each question by what it was about."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch = monkeypatch
        self.asked: dict[str, Counter[Any]] = {}
        self.kept: list[Any] = []

    def watch(self, module: Any, name: str, about: Callable[..., Any]) -> None:
        original, asked = getattr(module, name), self.asked.setdefault(name, Counter())

        def watched(*arguments: Any, **others: Any) -> Any:
            self.kept.append(arguments)  # objects that live on keep their identity
            asked[about(*arguments, **others)] += 1
            return original(*arguments, **others)

        self.patch.setattr(module, name, watched)


def results(block: Block) -> tuple[str, ...]:
    """What tells a block in every order of a model: the names of what its stages write."""
    return tuple(block.tensors[stage.output].name for stage in block.stages)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls(monkeypatch)
    for module in (operators, extract):
        found.watch(module, "lower_operator", lambda model, index: (id(model), index))
    found.watch(block_plan, "schedule", lambda block, config: (results(block), config))
    found.watch(block_plan, "encode", lambda block, *_: results(block))
    found.watch(in_model, "decode", lambda options, constants: options)
    found.watch(file, "_parse", lambda data, name: data)
    return found


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("cost", ["macs", "instructions"])
@pytest.mark.parametrize("model", [inverted_residual_network(size=48, blocks=4), cell_network(size=48)])
def test_no_work_is_done_twice_in_a_rewrite(calls: Calls, model: Any, goal: Goal | None, cost: str) -> None:
    data = serialize_model(model)
    report = tflite_fuse.rewrite(data, verify=False, goal=goal, cost=cost).report
    assert report.blocks
    for name in ("schedule", "encode", "_parse"):
        assert set(calls.asked[name].values()) == {1}, name
    assert max(calls.asked["lower_operator"].values()) <= 2
    orders = {model for model, _ in calls.asked["lower_operator"]}
    assert len(calls.asked["lower_operator"]) == len(orders) * report.before.operators
    assert len(calls.asked["encode"]) == len(report.blocks) <= len(calls.asked["schedule"])
    assert not calls.asked["decode"], "nobody decodes what he has just encoded"


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_verification_reads_neither_model_again(calls: Calls, tmp_path: Path) -> None:
    source = tmp_path / "in.tflite"
    source.write_bytes(serialize_model(inverted_residual_network(size=24, blocks=2)))
    result = tflite_fuse.rewrite(source, verify=True, inputs=2)
    read_by_the_proof = {result.model: 1}  # on purpose: what was written, not what was meant
    assert calls.asked["_parse"] == {source.read_bytes(): 1} | read_by_the_proof
    assert not calls.asked["decode"], "blocks travel with their operators, and the proof decodes them by itself"
    calls.asked["_parse"].clear()
    tflite_fuse.verify(source, result.model, inputs=2)
    assert calls.asked["_parse"] == {source.read_bytes(): 1, result.model: 1}


def test_blocks_of_a_file_are_decoded_once(calls: Calls) -> None:
    once = tflite_fuse.rewrite(serialize_model(inverted_residual_network(size=48, blocks=4)), verify=False)
    tflite_fuse.rewrite(once.model, verify=False)
    assert set(calls.asked["decode"].values()) == {1} and len(calls.asked["decode"]) == len(once.report.blocks)


@shared_models("mlperf_tiny_vww96_int8")
def test_programs_need_the_arena_that_their_models_need(path: Path) -> None:
    from tflite_fuse.memory.arena import realise
    from tflite_fuse.search.fusion_front import SearchOptions, fusion_front

    model = load_model(path)
    maker = insert_blocks.BlockMaker(model)
    front = fusion_front(model, SearchOptions(alignment=16, count_tail=True, overlap=True))
    for point in front.points[:: max(1, len(front.points) // 4)]:
        program, blocks = maker.program(point.blocks)
        emitted = maker.emit(program, blocks)
        ours = realise(program, in_model.program_overlaps(program))
        theirs = realise(program_of(emitted), in_model.block_overlaps(emitted))
        assert replace(ours, offsets=None) == replace(theirs, offsets=None)
        assert [at for at in ours.offsets or () if at >= 0] == [at for at in theirs.offsets or () if at >= 0]
