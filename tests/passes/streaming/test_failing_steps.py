"""Steps that fail because a source had no data: no block of the model keeps their state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.drawing.raw_models import RawModel
from tests.drawing.raw_streams import RawStream, affine
from tests.drawing.steps.recurrent import add_lstm
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.emit.in_model import operands_of
from tflite_fuse.errors import ModelError
from tflite_fuse.export.steps import whole_model
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.model import Model, load_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.outside import outside_inputs
from tflite_fuse.model.schema import Operator
from tflite_fuse.model.types import TensorType
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.processes.worker import Worker
from tflite_fuse.runtime.streams import Stream

Steps = npt.NDArray[np.int8]


def two_microphones(seed: int) -> Model:
    """Two inputs with states of their own, initialized: two blocks that nothing connects."""
    rng, made = np.random.default_rng(seed), RawStream()
    made.call_once()
    sources, outputs = [], []
    for channels in (4, 3):
        sources.append(made.tensor((1, 3, 1, channels), 0.1, -3))
        first = rng.integers(-128, 128, 4 * channels).astype(np.int8).tobytes()
        window = made.window(sources[-1], 4, 4, "STRIDED_SLICE", first)
        outputs.append(made.convolution(window, 6, (3, 1), (2, 1), rng))
    return made.stream(sources, outputs)


def a_microphone_and_a_camera(seed: int) -> Model:
    """Behind the block that keeps a state another one reads an input of its own."""
    rng, made = np.random.default_rng(seed), RawStream()
    sound, picture = made.tensor((1, 3, 1, 4), 0.1, -3), made.tensor((1, 5, 4, 2), 0.1, 7)
    heard = made.convolution(made.window(sound, 2, 2, "STRIDED_SLICE"), 6, (3, 1), (1, 1), rng)
    seen = made.convolution(picture, 3, (3, 3), (1, 1), rng)
    return made.stream([sound, picture], [heard, seen])


def three_microphones(seed: int) -> Model:
    """As two, the third of which has an LSTM; the first and the last are initialized."""
    rng, made = np.random.default_rng(seed), RawStream()
    made.call_once()
    sources = [made.tensor((1, 3, 1, 4), 0.1, -3), made.tensor((1, 3, 5), 0.05, 3), made.tensor((1, 3, 1, 4), 0.1, 8)]
    first = [rng.integers(-128, 128, 16).astype(np.int8).tobytes() for _ in range(2)]
    outputs = [made.convolution(made.window(sources[0], 4, 4, "SLICE", first[0]), 6, (3, 1), (2, 1), rng)]
    outputs.append(add_lstm(made, sources[1], 5, rng))
    outputs.append(made.convolution(made.window(sources[2], 4, 4, "SLICE", first[1]), 6, (3, 1), (2, 1), rng))
    return made.stream(sources, outputs)


def recurrent(seed: int) -> Model:
    raw = RawModel()
    source = raw.tensor((1, 4, 3), 0.05, 3)
    return raw.build([source], [add_lstm(raw, source, 5, np.random.default_rng(seed))])


def played(image: tuple[int, int, int], steps: Steps, until: int) -> Stream:
    """A source of rows or columns of steps that fails from one on."""
    pixels = steps.reshape(image)

    def read(y: int, x: int, count: int) -> Steps:
        if max(y, x + count - 1) >= until:
            raise ValueError("no more sound")
        return pixels[y, x : x + count]

    return Stream(read, image)


def blocks(model: Model) -> list[Operator]:
    return [each for each in model.main.operators if operator_name(model, each) == FUSED_OPERATOR]


class Sides:
    """A model, and its rewrite whose sources can fail, fed with the same noise."""

    def __init__(self, model: Model, one: Worker, other: Worker, streamed: bytes) -> None:
        self.model, self.one, self.other = model, one, other
        self.entries = sorted(outside_inputs(load_model(streamed)), key=lambda entry: entry.number)
        self.rng = np.random.default_rng(1)

    def noise(self) -> list[Steps]:
        shapes = [self.model.main.tensors[t].dims for t in self.model.main.inputs]
        return [self.rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]

    def sources(self, given: Sequence[Steps], until: Sequence[int]) -> list[Stream]:
        return [played(e.image, given[e.position], n) for e, n in zip(self.entries, until, strict=True)]

    def fail(self, given: Sequence[Steps], failing: int, at: int = 0) -> None:
        """A step of the rewrite in which a source has no data."""
        until = [at if number == failing else 9 for number in range(len(self.entries))]
        with pytest.raises(ValueError, match="no more sound"):
            self.other.infer([], self.sources(given, until), reset=False)

    def answers(self, given: Sequence[Steps], reset: bool) -> list[list[bytes]]:
        """Of both to a step, a reset before it or not."""
        expected = self.one.infer(given, (), reset=reset)
        found = self.other.infer([], self.sources(given, [9] * len(self.entries)), reset=reset)
        return [[each.tobytes() for each in arrays] for arrays in (expected, found)]


@contextmanager
def sides(model: Model, **options: Any) -> Iterator[Sides]:
    data = serialize_model(model)
    streamed = rewrite(data, input_mode="streamed", verify=False, **options).model
    with tflm.session(data) as one, tflm.session(streamed, sanitize=True) as other:
        yield Sides(model, one, other, streamed)


def compare(model: Model, steps: int, resets: Sequence[int] = (), **options: Any) -> None:
    """Every step fails once, in one of its sources, before it is done; a reset may lie between."""
    with sides(model, **options) as both:
        for step in range(steps):
            given = both.noise()
            both.fail(given, step % len(both.entries), step % 3)
            expected, found = both.answers(given, step in resets)
            assert expected == found, step


@pytest.mark.parametrize("resets", [(), (3, 4, 9)])
def test_a_step_that_fails_in_any_block_changes_no_state(resets: tuple[int, ...]) -> None:
    """Where the second block's source fails, the first has run already."""
    compare(two_microphones(5), 14, resets)


@pytest.mark.parametrize("resets", [(), (3, 4, 9)])
@pytest.mark.parametrize("make", [a_microphone_and_a_camera, three_microphones])
def test_a_block_without_a_state_and_one_with_a_memory_are_waited_for(
    make: Callable[[int], Model], resets: tuple[int, ...]
) -> None:
    compare(make(5), 12, resets, passes=("fuse", "plan"))  # in the order they are made


@pytest.mark.parametrize("make", [two_microphones, three_microphones])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_reset_behind_a_first_step_that_failed_leaves_the_zero_point_in_all_blocks(
    make: Callable[[int], Model], failing: int
) -> None:
    """As the runtime's own: it initializes variables when the first step begins, however far that comes."""
    with sides(make(5)) as both:
        if failing < len(both.entries):
            given = both.noise()
            both.one.infer(given, (), reset=False)
            both.fail(given, failing)
            for step in range(5):
                expected, found = both.answers(both.noise(), reset=step == 0)
                assert expected == found, step


def picking(seed: int) -> Model:
    """Behind the state's block the runtime picks a value, and fails where there is none of that number."""
    rng, made = np.random.default_rng(seed), RawStream()
    sound, number = made.tensor((1, 1, 1, 4), 0.1, -3), made.tensor((1, 4), 1.0, 0, TensorType.INT32)
    heard = made.convolution(made.window(sound, 2, 2, "STRIDED_SLICE"), 6, (3, 1), (1, 1), rng)
    picked = made.tensor((1,), *affine(made.tensors[heard]))
    made.operator("GATHER_ND", (heard, number), (picked,), None)
    return made.stream([sound, number], [heard, picked])


def test_a_failure_behind_all_blocks_leaves_the_variables_as_in_the_runtime() -> None:
    """Its variables, too, hold what was assigned when the step came so far."""
    model, rng = picking(4), np.random.default_rng(0)
    data = serialize_model(model)
    outputs = []
    for each, fails in ((data, True), (rewrite(data, verify=False).model, True), (data, False)):
        rng, seen = np.random.default_rng(0), []
        with tflm.session(each) as running:
            for step in range(8):
                sound = rng.integers(-128, 128, (1, 1, 1, 4)).astype(np.int8)
                at = np.array([[0, 0, 0, 99 if step == 4 else 1]], np.int32)
                if step != 4:
                    seen.append([found.tobytes() for found in running.infer([sound, at], (), reset=False)])
                elif fails:
                    with pytest.raises(ModelError):
                        running.infer([sound, at], (), reset=False)
        outputs.append(seen)
    original, rewritten, left_out = outputs
    assert original == rewritten != left_out


@pytest.mark.parametrize("resets", [(), (4,)])
def test_the_memory_of_an_lstm_is_that_before_the_step_that_failed(resets: tuple[int, ...]) -> None:
    compare(recurrent(2), 9, resets)


def test_blocks_see_the_state_of_the_last_one_and_the_proof_insists() -> None:
    model = load_model(serialize_model(two_microphones(5)))
    result = load_model(rewrite(serialize_model(model), verify=False).model)
    first, last = (operands_of(result.main, operator) for operator in blocks(result))
    assert first.last == last.state and not last.last
    assert validate(model, result).proven
    for wrong in ((), first.state):
        operator, *others = result.main.operators
        changed = (*first.inputs, *wrong, *first.state, first.constants)
        operators = (Operator(**{**vars(operator), "inputs": changed}), *others)
        damaged = replace_main(result, replace(result.main, operators=operators))
        assert not validate(model, damaged).proven


def test_the_proof_insists_that_the_last_that_reads_from_outside_counts() -> None:
    model = load_model(serialize_model(a_microphone_and_a_camera(5)))
    options = {"input_mode": "streamed", "verify": False, "passes": ("fuse", "plan")}  # not the camera first
    result = load_model(rewrite(serialize_model(model), **options).model)
    first, last = (operands_of(result.main, operator) for operator in blocks(result))
    assert first.last == last.state and result.main.tensors[last.state[0]].dims == (4,)
    assert validate(model, result).proven
    hearing, seeing = result.main.operators
    alone = replace(hearing, inputs=(*first.inputs, *first.state, first.constants))
    silent = replace(seeing, inputs=(*last.inputs, last.constants))
    for operators in ((alone, seeing), (alone, silent)):
        assert not validate(model, replace_main(result, replace(result.main, operators=operators))).proven


def test_counters_without_effect_are_dropped() -> None:
    """Where the camera comes first, nobody waits for it."""
    model = load_model(serialize_model(a_microphone_and_a_camera(5)))
    result = load_model(rewrite(serialize_model(model), input_mode="streamed", verify=False).model)
    seeing, hearing = (operands_of(result.main, operator) for operator in blocks(result))
    assert not seeing.state and hearing.state and not hearing.last
    assert validate(model, result).proven


def test_plain_c_has_no_use_for_it() -> None:
    result = load_model(rewrite(serialize_model(two_microphones(5)), verify=False).model)
    places = [step.state for step in whole_model(result).steps]
    assert [len(step.inputs) for step in whole_model(result).steps] == [1, 1]
    assert len({place.offset for place in places}) == 2
