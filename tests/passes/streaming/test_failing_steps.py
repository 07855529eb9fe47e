"""Steps that fail, because a source had no data: nothing is remembered of them, in no block of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from tests.fusion.drawing.recurrent import add_lstm
from tests.fusion.raw_models import RawModel
from tests.fusion.raw_streams import RawStream
from tflite_fuse.api import rewrite
from tflite_fuse.export.steps import whole_model
from tflite_fuse.fusion.encoding.in_model import operands_of
from tflite_fuse.memory.from_model import FUSED_OPERATOR
from tflite_fuse.model import Model, load_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.outside import outside_inputs
from tflite_fuse.model.schema import Operator
from tflite_fuse.proof import validate
from tflite_fuse.runtime import tflm
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


def compare(model: Model, steps: int, resets: Sequence[int] = ()) -> None:
    """Every step fails once, in one of its sources, before it is done; a reset may lie between."""
    data = serialize_model(model)
    streamed = rewrite(data, input_mode="streamed", verify=False).model
    entries = sorted(outside_inputs(load_model(streamed)), key=lambda entry: entry.number)
    rng = np.random.default_rng(1)
    with tflm.session(data) as one, tflm.session(streamed, sanitize=True) as other:
        for step in range(steps):
            shapes = [model.main.tensors[t].dims for t in model.main.inputs]
            given = [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]

            def sources(until: Sequence[int], given: list[Steps] = given) -> list[Stream]:
                return [played(e.image, given[e.position], n) for e, n in zip(entries, until, strict=True)]

            failing = step % len(entries)
            until = [step % 3 if number == failing else 9 for number in range(len(entries))]
            with pytest.raises(ValueError, match="no more sound"):
                other.infer([], sources(until), reset=False)
            found = other.infer([], sources([9] * len(entries)), reset=step in resets)
            wanted = one.infer(given, (), reset=step in resets)
            assert [each.tobytes() for each in found] == [each.tobytes() for each in wanted], step


@pytest.mark.parametrize("resets", [(), (3, 4, 9)])
def test_what_fails_in_any_block_is_as_if_it_had_not_been(resets: tuple[int, ...]) -> None:
    """Where the second block's source fails, the first has run already."""
    compare(two_microphones(5), 14, resets)


@pytest.mark.parametrize("resets", [(), (4,)])
def test_the_memory_of_an_lstm_is_that_before_the_step_that_failed(resets: tuple[int, ...]) -> None:
    compare(recurrent(2), 9, resets)


def test_blocks_see_the_state_of_the_last_one_and_the_proof_insists() -> None:
    model = load_model(serialize_model(two_microphones(5)))
    result = load_model(rewrite(serialize_model(model), verify=False).model)
    first, last = (operands_of(result, operator) for operator in blocks(result))
    assert first.last == last.state and not last.last
    assert validate(model, result).proven
    for wrong in ((), first.state):
        operator, *others = result.main.operators
        changed = (*first.inputs, *wrong, *first.state, first.constants)
        operators = (Operator(**{**vars(operator), "inputs": changed}), *others)
        damaged = replace_main(result, type(result.main)(**{**vars(result.main), "operators": operators}))
        assert not validate(model, damaged).proven


def test_plain_c_has_no_use_for_it() -> None:
    result = load_model(rewrite(serialize_model(two_microphones(5)), verify=False).model)
    places = [step.state for step in whole_model(result).steps]
    assert [len(step.inputs) for step in whole_model(result).steps] == [1, 1]
    assert len({place.offset for place in places}) == 2
