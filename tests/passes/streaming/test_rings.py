"""Streaming models in blocks: equal to TFLM step by step, over resets and two interpreters side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.drawing.raw_spellings import spelled_stream, spelled_streams
from tests.drawing.raw_streams import RawStream, handle_options, streams
from tests.passes.streaming.ring_contents import with_rings, with_variables
from tests.told import told
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.errors import ModelError
from tflite_fuse.model import Model, load_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.types import TensorType
from tflite_fuse.passes.streaming.rings import Rings
from tflite_fuse.runtime import tflm

Steps = list[bytes]
BLOCK = "CUSTOM:TFLITE_FUSE"


def run_steps(data: bytes, model: Model, count: int, seed: int = 0, resets: tuple[int, ...] = ()) -> Steps:
    """Outputs of each step; a reset precedes those in ``resets``."""
    rng = np.random.default_rng(seed)
    found: Steps = []
    with tflm.session(data) as loaded:
        for step in range(count):
            given_ = [rng.integers(-128, 128, model.main.tensors[t].dims).astype(np.int8) for t in model.main.inputs]
            found.append(b"".join(each.tobytes() for each in loaded.infer(given_, (), reset=step in resets)))
    return found


def kinds(data: bytes) -> set[str]:
    model = load_model(data)
    return {operator_name(model, operator) for operator in model.main.operators}


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(model=streams(), seed=st.integers(0, 1000))
def test_streams_of_any_spelling_compute_the_same_bytes_step_by_step(model: Model, seed: int) -> None:
    """And what rings hold after each step, read in order of time, is the end of what the variables hold."""
    result = rewrite(serialize_model(model), verify=False).model
    assert BLOCK in kinds(result) and "READ_VARIABLE" not in kinds(result)
    original, assigned = with_variables(model)
    fused, rings = with_rings(load_model(result))
    rng, count = np.random.default_rng(seed), len(model.main.outputs)
    stands_for = [set(assigned)] * len(rings)
    with tflm.session(original) as one, tflm.session(fused, sanitize=True) as other:
        for step in range(50):
            given_ = [rng.integers(-128, 128, model.main.tensors[t].dims).astype(np.int8) for t in model.main.inputs]
            expected, found = (
                [np.asarray(each).tobytes() for each in session.infer(given_, (), reset=step in (20, 33))]
                for session in (one, other)
            )
            assert expected[:count] == found[:count]
            held = [ring.in_time_order(found) for ring in rings]
            stands_for = [
                {number for number in numbers if expected[number].endswith(steps)}
                for numbers, steps in zip(stands_for, held, strict=True)
            ]
    assert rings and all(stands_for)


@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(model=spelled_streams)
@example(model=spelled_stream(9430))  # a SPLIT of two rows without a batch
def test_states_and_other_variables_compute_the_same_bytes_in_every_spelling(model: Model) -> None:
    result = rewrite(serialize_model(model), verify=False).model
    assert run_steps(serialize_model(model), model, 24, resets=(9, 17)) == run_steps(result, model, 24, resets=(9, 17))


def ring_of_one(first: bytes | None, held: int = 3) -> Model:
    """A window of three earlier steps and a new one, given out as it is."""
    model = RawStream()
    if first is not None:
        model.call_once()
    source = model.tensor((1, 1, 1, 4), 0.1, -5)
    window = model.window(source, 3, held, "STRIDED_SLICE", first)
    return model.stream([source], [window])


def joined_to(held: int, steps: int, what: str) -> Model:
    """New steps joined behind what a variable holds, of which, or of the new ones alone, the end is assigned to it."""
    model = RawStream()
    source = model.tensor((1, steps, 1, 4), 0.1, -5)
    handle, read = model.variable(source, held), model.like(source, held)
    model.operator("READ_VARIABLE", (handle,), (read,), None)
    new = model.cut(read, held - 1, "SLICE") if what == "itself" else source
    window = model.join(read, new)
    kept = model.cut(window, 1, "SLICE") if what == "itself" else model.cut(source, steps - held, "SLICE")
    model.operator("ASSIGN_VARIABLE", (handle, kept), (), None)
    return model.stream([source], [window])


@pytest.mark.parametrize(("held", "steps"), [(1, 1), (1, 2), (2, 2), (2, 3)])
def test_a_state_of_new_steps_alone(held: int, steps: int) -> None:
    """What is assigned is the end of the new steps, not of what they were joined to: both are equal."""
    data = serialize_model(model := joined_to(held, steps, "new"))
    result = rewrite(data, verify=False).model
    assert kinds(result) == {BLOCK}
    assert run_steps(data, model, 12, resets=(5,)) == run_steps(result, model, 12, resets=(5,))


def test_a_variable_that_turns_around_is_no_state() -> None:
    """Its new steps are its own old ones: they would come from a READ_VARIABLE that is gone."""
    data = serialize_model(model := joined_to(3, 1, "itself"))
    assert not Rings().run(model).changed
    result = rewrite(data, verify=False).model
    assert run_steps(data, model, 12, resets=(5,)) == run_steps(result, model, 12, resets=(5,))


def test_the_first_run_sees_the_initialization_and_a_run_after_a_reset_the_zero_point() -> None:
    model = ring_of_one(bytes(range(12)))
    data = serialize_model(model)
    result = rewrite(data, verify=False).model
    assert len(load_model(result).subgraphs) == 1
    for each in (data, result):
        steps = run_steps(each, model, 3, resets=(2,))
        assert steps[0][:12] == bytes(range(12))
        assert steps[1][:12] == bytes(range(4, 12)) + steps[0][12:]
        assert steps[2][:12] == bytes([256 - 5] * 12)


def test_a_reset_before_the_first_run_changes_nothing() -> None:
    model = ring_of_one(bytes(range(12)))
    data = serialize_model(model)
    result = rewrite(data, verify=False).model
    for each in (data, result):
        assert run_steps(each, model, 1, resets=(0,))[0][:12] == bytes(range(12))


def test_a_variable_that_is_read_and_never_assigned_is_refused() -> None:
    """Unless something else may assign it: a CALL_ONCE has, here."""
    for first in (None, bytes(range(12))):
        model = RawStream()
        if first is not None:
            model.call_once()
        source = model.tensor((1, 1, 1, 4), 0.1, -5)
        window = model.window(source, 3, 3, "SLICE", first)
        model.operators.pop()  # ASSIGN_VARIABLE
        data = serialize_model(made := model.stream([source], [window]))
        if first is None:
            with pytest.raises(ModelError, match=r"^READ_VARIABLE_1 reads a variable that is never assigned, so"):
                rewrite(data, verify=False)
        else:
            assert run_steps(data, made, 3) == run_steps(rewrite(data, verify=False).model, made, 3)


def test_two_interpreters_share_no_state() -> None:
    model = ring_of_one(None)
    result = rewrite(serialize_model(model), verify=False).model
    first, second = (np.full((1, 1, 1, 4), value, np.int8) for value in (1, 2))
    with tflm.session(result) as one, tflm.session(result) as other:
        for _ in range(5):
            seen = one.infer([first], (), reset=False)[0], other.infer([second], (), reset=False)[0]
    assert {*seen[0].ravel().tolist()} == {1} and {*seen[1].ravel().tolist()} == {2}


def changed_state(model: Model, **fields: object) -> Model:
    """The same with another tensor for the state."""
    tensors = tuple(
        replace(tensor, **fields) if tensor.is_variable else tensor  # type: ignore[arg-type]
        for tensor in model.main.tensors
    )
    return replace_main(model, replace(model.main, tensors=tensors))


@pytest.mark.parametrize("fields", [{"shape": (12,)}, {"type": TensorType.INT32}, {"is_variable": False}])
def test_a_state_larger_than_its_buffer_or_in_another_tensor_is_refused(fields: dict[str, object]) -> None:
    data = serialize_model(ring_of_one(None))
    result = load_model(rewrite(data, verify=False).model)
    assert validate(load_model(data), result).proven
    damaged = changed_state(result, **fields)
    assert not validate(load_model(data), damaged).proven
    if "is_variable" not in fields:
        with pytest.raises(ModelError), tflm.session(serialize_model(damaged)):
            pass


@pytest.mark.parametrize(
    "what", ["assigned before it is read", "read twice", "read by others", "assigned twice", "used elsewhere"]
)
def test_variables_that_are_no_ring_stay_with_a_reason_and_compute_the_same(what: str) -> None:
    model = RawStream()
    if what == "used elsewhere":
        model.call_once()
    source = model.tensor((1, 1, 1, 4), 0.1, -5)
    first = bytes(range(12)) if what == "used elsewhere" else None
    window = model.window(source, 3, 3, "STRIDED_SLICE", first)
    outputs = [window]
    read = next(number for number, op in enumerate(model.operators) if model.codes[op.opcode_index] == "READ_VARIABLE")
    if what == "assigned before it is read":
        model.operators.insert(read, model.operators.pop())
        model.operators[read] = replace(model.operators[read], inputs=(model.operators[read].inputs[0], source))
    elif what == "read twice":
        outputs.append(model.like(source, 3))
        handle = model.operators[read].inputs or ()
        model.operator("READ_VARIABLE", handle, (outputs[-1],), None)  # behind the assignment: other values
    elif what == "assigned twice":
        assign = model.operators[-1]
        held = (model.operators[read].outputs or ())[0]
        model.operators.append(replace(assign, inputs=((assign.inputs or ())[0], held)))  # what it held stays
    elif what == "read by others":
        outputs.append(
            model.convolution((model.operators[read].outputs or ())[0], 2, (3, 1), (1, 1), np.random.default_rng(0))
        )
    made = model.stream([source], outputs)
    if what == "used elsewhere":  # the subgraph that initializes the variable does so twice
        once = made.subgraphs[1]
        made = replace(made, subgraphs=(made.main, replace(once, operators=(*once.operators, once.operators[-1]))))
    done = Rings().run(made)
    assert not done.changed and told(done.notes, "kept", "variable") == list(done.notes) != []
    result = rewrite(serialize_model(made), verify=False).model
    assert run_steps(serialize_model(made), made, 12, resets=(7,)) == run_steps(result, made, 12, resets=(7,))


def test_variables_of_one_initialization_are_states_by_themselves() -> None:
    """What initializes the others stays, and no more."""
    model = RawStream()
    model.call_once()
    source = model.tensor((1, 1, 1, 4), 0.1, -5)
    ring = model.window(source, 3, 3, "SLICE", bytes(range(12)))
    handle, held = model.variable(source, 1, bytes((9, 8, 7, 6))), model.like(source, 1)
    model.operator("READ_VARIABLE", (handle,), (held,), None)
    mixed = model.like(source, 1)
    model.operator("MAXIMUM", (held, source), (mixed,), None)
    model.operator("ASSIGN_VARIABLE", (handle, mixed), (), None)
    data = serialize_model(made := model.stream([source], [ring, mixed]))
    result = rewrite(data, verify=False).model
    main, initial = load_model(result).subgraphs
    assert {BLOCK, "CALL_ONCE", "READ_VARIABLE"} <= kinds(result)
    assert len(initial.operators) == 2 and len(made.subgraphs[1].operators) == 4
    assert run_steps(data, made, 12, resets=(7,)) == run_steps(result, made, 12, resets=(7,))
    loaded = load_model(result)
    without = replace(loaded, subgraphs=(main, replace(initial, operators=initial.operators[:1])))
    assert validate(load_model(data), loaded).proven and not validate(load_model(data), without).proven


@pytest.mark.parametrize("what", ["several windows", "read twice", "assigned twice", "a window nobody reads"])
def test_states_that_are_read_joined_and_assigned_several_times(what: str) -> None:
    """One ring holds what the longest window needs, and is not longer for one that only the assignment reads."""
    model = RawStream()
    source = model.tensor((1, 2, 1, 4), 0.1, -5)
    handle = model.variable(source, 5)
    reads = [model.like(source, 5) for _ in range(2 if what == "read twice" else 1)]
    for read in reads:
        model.operator("READ_VARIABLE", (handle,), (read,), None)
    near = model.join(model.cut(reads[0], 3, "SLICE"), source)
    far = model.join(reads[-1], source)
    if what == "assigned twice":
        model.operator("ASSIGN_VARIABLE", (handle, reads[0]), (), None)
    model.operator("ASSIGN_VARIABLE", (handle, model.cut(far, 2, "SLICE")), (), None)
    weights = np.random.default_rng(0)
    outputs = [model.convolution(near, 3, (4, 1), (1, 1), weights)]
    if what != "a window nobody reads":
        outputs.append(model.convolution(far, 3, (7, 1), (1, 1), weights))
    data = serialize_model(made := model.stream([source], outputs))
    result = rewrite(data, verify=False).model
    assert "READ_VARIABLE" not in kinds(result)
    assert run_steps(data, made, 12, resets=(7,)) == run_steps(result, made, 12, resets=(7,))
    rings = with_rings(load_model(result))[1]
    assert [ring.history for ring in rings] == [2 if what == "a window nobody reads" else 5]


@pytest.mark.parametrize(
    "what", ["of one name to C", "initialized last", "initialized with an output", "read to nowhere"]
)
def test_odd_variables_stay_as_they_are_and_compute_the_same(what: str) -> None:
    """Names end at a zero, as the runtime compares them."""
    model, initialized = RawStream(), what.startswith("initialized")
    if initialized:
        model.call_once()
    source = model.tensor((1, 1, 1, 4), 0.1, -5)
    first = bytes(range(12)) if initialized else None
    outputs = [model.window(source, 3, 3, "SLICE", first)]
    if what == "of one name to C":
        outputs.append(model.window(source, 3, 3, "SLICE"))
    named = [number for number, op in enumerate(model.operators) if model.codes[op.opcode_index] == "VAR_HANDLE"]
    for number, name in zip(named, (b"a\0b", b"a\0c"), strict=False):
        if not initialized:
            model.operators[number] = replace(model.operators[number], builtin_options=handle_options(name))
    if what == "read to nowhere":
        model.operators[named[0] + 1] = replace(model.operators[named[0] + 1], outputs=())
    made = model.stream([source], outputs)
    main, *others = made.subgraphs
    if what == "initialized last":
        main = replace(main, operators=(*main.operators[1:], main.operators[0]))
    elif what == "initialized with an output":
        others = [replace(others[0], outputs=(1,))]
    made = replace(made, subgraphs=(main, *others))
    assert not Rings().run(made).changed
    if what == "read to nowhere":
        with pytest.raises(ModelError, match="which nothing writes"):
            rewrite(serialize_model(made), verify=False)
        return
    result = rewrite(serialize_model(made), verify=False).model
    assert run_steps(serialize_model(made), made, 12, resets=(7,)) == run_steps(result, made, 12, resets=(7,))
