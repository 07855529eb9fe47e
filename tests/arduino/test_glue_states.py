"""States of blocks in TensorFlow Lite Micro: one per interpreter, and reset as by the runtime."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from tests.arduino.fake_runtime import GENERATIONS, INT8, UINT8, FakeTensor, Scenario, play
from tests.drawing.raw_streams import RawStream
from tflite_fuse.api import rewrite
from tflite_fuse.model import load_model, serialize_model


def remembering(first: bytes, count: int = 1) -> Scenario:
    """A block that hands out a step of four values behind the three before it; those of the first run are ``first``. Of
    several such blocks the first one."""
    model = RawStream()
    model.call_once()
    sources = [model.tensor((1, 1, 1, 4), 0.1, -5) for _ in range(count)]
    windows = [model.window(source, 3, 3, "STRIDED_SLICE", first) for source in sources]
    fused = load_model(rewrite(serialize_model(model.stream(sources, windows)), verify=False).model)
    operator, *others = fused.main.operators
    assert len(others) == count - 1
    tensors = []
    for index in (*(operator.inputs or ()), *(operator.outputs or ())):
        tensor = fused.main.tensors[index]
        data = fused.buffers[tensor.buffer].data
        kind = UINT8 if tensor.is_variable else INT8
        tensors.append(FakeTensor(tensor.dims, data or None, bytes(4), type=kind, variable=tensor.is_variable))
    count = len(operator.inputs or ())
    return Scenario(
        operator.custom_options or b"", tuple(tensors), tuple(range(count)), tuple(range(count, len(tensors)))
    )


@pytest.mark.parametrize("generation", GENERATIONS)
def test_interpreters_share_no_state_and_a_reset_leaves_the_zero_point(generation: int) -> None:
    first, runs, reset = bytes(range(100, 112)), 6, 4
    how = (f"runs {runs}", "interpreters 2", "counting", f"reset {reset}")
    outcome = play(generation, replace(remembering(first), extra=how))
    assert (outcome.prepare, outcome.invoke, outcome.log) == (0, [0] * 2 * runs, [])
    held, expected = [first, first], []
    for run in range(runs):
        for each in range(2):
            before = bytes([256 - 5] * 12) if (run, each) == (reset, 0) else held[each]
            expected.append(before + bytes([run + 16 * each] * 4))
            held[each] = expected[-1][4:]
    assert outcome.outputs == expected


def test_a_state_that_is_too_small_or_a_constant_is_refused() -> None:
    scenario = remembering(bytes(12))
    state = scenario.inputs[-2]
    (*above, last) = scenario.tensors[state].shape
    for changed in (
        scenario.change_tensor(state, shape=(*above, last - 1)),
        scenario.change_tensor(state, data=bytes(prod((*above, last))), variable=False),
    ):
        outcome = play(max(GENERATIONS), changed)
        assert outcome.prepare == 1 and "a uint8 variable as large as the block's state" in outcome.log[0]


def test_a_block_does_not_go_on_where_the_last_one_has_not() -> None:
    """It sees that one's number, which never changes here."""
    first, runs, reset = bytes(range(100, 112)), 5, 3
    scenario = remembering(first, count=2)
    outcome = play(max(GENERATIONS), replace(scenario, extra=(f"runs {runs}", "counting", f"reset {reset}")))
    assert len(scenario.inputs) == 4 and (outcome.prepare, outcome.invoke) == (0, [0] * runs)
    before = [first] * reset + [bytes([256 - 5] * 12)] * (runs - reset)
    assert outcome.outputs == [held + bytes([run] * 4) for run, held in enumerate(before)]


def test_a_state_that_is_a_constant_is_refused() -> None:
    scenario = remembering(bytes(12), count=2)
    for place in (-2, -3):
        state = scenario.inputs[place]
        constant = scenario.change_tensor(state, variable=False, data=bytes(scenario.tensors[state].shape[0]))
        outcome = play(max(GENERATIONS), constant)
        assert outcome.prepare == 1 and "must be a uint8 variable" in outcome.log[0]
