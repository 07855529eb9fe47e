from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from scripts.zoo import ModelBuilder
from tests.builders import random_models
from tests.conftest import shared_models
from tests.memory.one_operator import BOOL, I8, Maker
from tests.passes.claims import proven
from tests.told import told
from tflite_fuse.errors import ModelError, UsageError
from tflite_fuse.ir.program import Overlap, arena_tensors, program_of
from tflite_fuse.memory.arena import ArenaOptions
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.tflm.greedy_planner import head_bytes
from tflite_fuse.memory.tflm.offline_plan import METADATA_NAME, has_plan, read_plan, write_plan
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model import schema as s
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import BUILTIN_CODES
from tflite_fuse.notes import note
from tflite_fuse.passes.base import Pass
from tflite_fuse.passes.plan import Plan
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.inputs import generate_inputs

needs_wheel = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def measured(model: Model) -> int | None:
    try:
        return tflm.measure(serialize_model(model)).head_bytes
    except ModelError:
        return None


def same_bytes(a: Model, b: Model, count: int = 8) -> bool:
    return compare(serialize_model(a), serialize_model(b), generate_inputs(a, count)).first_difference is None


def chain(*channels: int, side: int = 8) -> Model:
    """1x1 convolutions of a square image: each tensor has a byte for each pixel and channel."""
    builder = ModelBuilder(seed=0)
    x = builder.input((1, side, side, channels[0]))
    for count in channels[1:]:
        x = builder.conv(x, count)
    return builder.build([x])


GREEDY_FAILS = chain(2, 1, 1, 2, side=32)
"""The runtime puts both of the larger tensors at the bottom, and one of the smaller ones above the other."""


def test_the_pass_is_a_pass() -> None:
    step: Pass = Plan()
    assert step.name == "plan"


@needs_wheel
@shared_models("mlperf_tiny_vww96_int8")
def test_mobilenet_needs_a_quarter_less(path: Path) -> None:
    model = load_model(path)
    result = Plan(measure=measured).run(model)
    assert measured(model) == 73_728
    assert measured(result.model) == 55_296
    assert (result.changed, proven(result)) == (True, True)
    (planned,) = told(result.notes, "planned", "smaller head")
    assert (planned.details["head_before_bytes"], planned.details["head_bytes"]) == (73_728, 55_296)
    assert same_bytes(model, result.model)


def test_every_shared_model_meets_the_bound(shared_model: Path) -> None:
    model = load_model(shared_model)
    result = Plan().run(model)
    assert proven(result)
    assert head_bytes(result.model) <= head_bytes(model)
    assert result.changed == (head_bytes(result.model) < head_bytes(model))


@needs_wheel
@given(random_models(most_operators=12, variables=True))
@settings(max_examples=15)
def test_random_models_need_no_more_and_compute_the_same(model: Model) -> None:
    result = Plan(measure=measured).run(model)
    before, after = measured(model), measured(result.model)
    assert before is not None and after is not None
    assert after < before if result.changed else result.model is model
    assert result.changed == has_plan(result.model)
    if result.changed:
        assert after == head_bytes(result.model)
        assert same_bytes(model, result.model, 4)


def test_a_plan_leaves_the_rest_to_the_runtime() -> None:
    result = Plan().run(GREEDY_FAILS)
    offsets = read_plan(result.model)
    assert offsets is not None
    arena = arena_tensors(GREEDY_FAILS, GREEDY_FAILS.main)
    assert {index for index, offset in enumerate(offsets) if offset != -1} == arena
    check_plan(program_of(GREEDY_FAILS), offsets, height=head_bytes(result.model))
    assert load_model(serialize_model(result.model)).main == GREEDY_FAILS.main


def test_no_plan_is_written_where_it_saves_nothing() -> None:
    model = chain(4, 4, 4)
    result = Plan().run(model)
    assert result.model is model
    assert (result.changed, proven(result)) == (False, True)
    (kept,) = told(result.notes, "not planned", "least already")
    assert (kept.details["head_before_bytes"], kept.details["proven"]) == (512, True)


@needs_wheel
def test_no_plan_is_written_where_loading_the_model_needs_more() -> None:
    """The head of a small model shrinks, and the arena does not; around a plan, scratch of other kernels fits worse."""
    model = chain(2, 1, 1, 2)
    result = Plan(measure=measured).run(model)
    arena = result.arena
    assert result.model is model and proven(result) and arena is not None
    assert (arena.offsets, arena.head) == (None, measured(model))
    (kept,) = told(result.notes, "not planned", "same arena")
    assert kept.details["arena_bytes"] == arena.needed == arena.while_loading > arena.total
    again = Plan(measure=measured).run(write_plan(model, _spread(model)))
    assert again.model == model and again.arena == replace(arena, notes=again.arena.notes)


def test_the_measured_head_decides() -> None:
    def stubborn(model: Model) -> int | None:
        return 9_999 if has_plan(model) else 9_998

    result = Plan(measure=stubborn).run(GREEDY_FAILS)
    assert result.model is GREEDY_FAILS
    assert not result.changed
    (kept,) = told(result.notes, "not planned", "larger head")
    assert (kept.details["head_bytes"], kept.details["head_before_bytes"]) == (9_999, 9_998)


def test_an_arena_that_the_runtime_does_not_report_is_recomputed() -> None:
    result = Plan(measure=lambda model: None).run(GREEDY_FAILS)
    assert result.changed
    assert result.model == Plan().run(GREEDY_FAILS).model


def mean_model() -> Model:
    """MEAN asks for scratch of four bytes for each channel beside its input."""
    builder = ModelBuilder(seed=0)
    x = builder.conv(builder.input((1, 8, 8, 2)), 8)
    return builder.build([builder.mean(builder.conv(x, 64), keep_dims=True)])


def test_room_is_left_for_scratch_buffers() -> None:
    model = mean_model()
    result = Plan().run(model)
    assert proven(result)
    assert head_bytes(result.model) <= head_bytes(model)


@needs_wheel
@given(random_models(most_operators=6))
@settings(max_examples=8)
def test_scratch_never_makes_a_planned_model_larger(model: Model) -> None:
    larger = _with_two_scratch_buffers(model)
    result = Plan(measure=measured).run(larger)
    before, after = measured(larger), measured(result.model)
    assert before is not None and after is not None and after <= before
    if result.changed:
        assert same_bytes(larger, result.model, 4)


def _with_two_scratch_buffers(model: Model) -> Model:
    """The model with a REDUCE_MAX over everything behind its first output: two scratch buffers more."""
    graph = model.main
    source = graph.tensors[graph.outputs[0]]
    axes = b"".join(axis.to_bytes(4, "little") for axis in range(1, len(source.dims)))
    maker = Maker()
    template = maker.model("REDUCE_MAX", [maker.data((4, 4))], [maker.data((4, 1))]).operator_codes[0]
    tensors = (
        *graph.tensors,
        s.Tensor((len(source.dims) - 1,), 2, len(model.buffers), "axes"),
        replace(source, shape=(1,) * len(source.dims), name="largest"),
    )
    operator = s.Operator(
        len(model.operator_codes), (graph.outputs[0], len(graph.tensors)), (len(graph.tensors) + 1,), _keep_dims()
    )
    graph = replace(graph, tensors=tensors, operators=(*graph.operators, operator), outputs=(len(graph.tensors) + 1,))
    return replace(
        model,
        subgraphs=(graph,),
        buffers=(*model.buffers, s.Buffer(axes)),
        operator_codes=(*model.operator_codes, template),
        signature_defs=None,
    )


def _keep_dims() -> s.OptionsTable:
    return s.OptionsTable(27, ((0, b"\x01"),))


# ---- plans that are there already


def test_an_existing_plan_is_redone() -> None:
    poor = write_plan(GREEDY_FAILS, _spread(GREEDY_FAILS))
    result = Plan().run(poor)
    assert result.changed
    assert result.model == Plan().run(GREEDY_FAILS).model
    assert result.notes[0] == note("changed", "plan")


def test_a_plan_that_corrupts_is_dropped_with_a_word() -> None:
    model = chain(4, 4, 4)
    offsets = [0 if offset != -1 else -1 for offset in _spread(model)]
    result = Plan().run(write_plan(model, offsets))
    assert result.changed
    assert not has_plan(result.model)
    assert result.model == model
    (dropped,) = told(result.notes, "removed", "plan")
    assert str(dropped.details["why"]).startswith("output")


def test_a_damaged_plan_is_dropped() -> None:
    model = chain(4, 4, 4)
    damaged = replace(model, metadata=(s.Metadata(METADATA_NAME, 0),))
    result = Plan().run(damaged)
    assert result.changed
    assert not has_plan(result.model)
    assert told(result.notes, "removed", "plan") == [result.notes[0]]


def test_a_sound_plan_that_is_better_stays() -> None:
    model = add_chain()
    planned = write_plan(model, _spread(model))
    result = Plan(measure=_first_is_best(planned)).run(planned)
    assert result.model is planned
    assert not result.changed
    assert told(result.notes, "kept", "plan")


def _first_is_best(best: Model) -> Callable[[Model], int]:
    return lambda model: 1 if model == best else 1000


def _spread(model: Model) -> list[int]:
    arena = arena_tensors(model, model.main)
    return [index * 4096 if index in arena else -1 for index in range(len(model.main.tensors))]


# ---- permissions to share


def add_chain() -> Model:
    builder = ModelBuilder(seed=0)
    x = builder.input((1, 8, 8, 4))
    y = builder.add(builder.add(x, x), x)
    return builder.build([builder.add(y, y)])


@needs_wheel
def test_in_place_is_opt_in() -> None:
    model = add_chain()
    plain, shared = (
        Plan(measure=measured).run(model),
        Plan(ArenaOptions("reference"), measure=measured).run(model),
    )
    assert measured(plain.model) == 768
    assert measured(shared.model) == 512
    assert same_bytes(model, shared.model)


@needs_wheel
def test_in_place_saves_where_it_can() -> None:
    builder = ModelBuilder(seed=0)
    x = builder.input((1, 8, 8, 4))
    y = builder.input((1, 8, 8, 4))
    model = builder.build([builder.log_softmax(builder.add(x, y))])
    result = Plan(ArenaOptions("reference"), measure=measured).run(model)
    assert (measured(model), measured(result.model)) == (768, 512)
    assert proven(result)
    assert same_bytes(model, result.model)


def test_an_unknown_kernel_set_is_refused() -> None:
    with pytest.raises(UsageError, match="no kernel set"):
        Plan(ArenaOptions("mkl")).run(GREEDY_FAILS)


def test_overlaps_from_outside_are_used() -> None:
    model = chain(4, 4)
    source, target = model.main.inputs[0], model.main.outputs[0]

    def overlaps(model: Model) -> Sequence[Overlap]:
        return (Overlap(source, target, 32),)

    result = Plan(overlaps=overlaps).run(model)
    assert (head_bytes(model), head_bytes(result.model)) == (512, 288)
    assert proven(result)
    offsets = read_plan(result.model)
    assert offsets is not None
    assert (offsets[target], offsets[source]) == (0, 32)


# ---- models that are not planned, or not wholly


def calling(name: str) -> Model:
    """GREEDY_FAILS, then an operator that calls subgraphs on 16 values: they are doubled or stay as they are."""
    main, first, buffers = GREEDY_FAILS.main, len(GREEDY_FAILS.main.tensors), GREEDY_FAILS.buffers
    flag, values = s.Tensor((1,), BOOL), s.Tensor((1, 16), I8, 0, "", s.Quantization(scale=(0.5,), zero_point=(0,)))
    false, numbers = replace(flag, buffer=len(buffers)), replace(values, buffer=len(buffers) + 1)
    code = len(GREEDY_FAILS.operator_codes)
    codes = (s.OperatorCode(min(BUILTIN_CODES[n], 127), None, 1, BUILTIN_CODES[n]) for n in (name, "ADD"))
    options = {
        "CALL_ONCE": make_options("CallOnceOptions", init_subgraph_index=1),
        "IF": make_options("IfOptions", then_subgraph_index=1, else_subgraph_index=2),
        "WHILE": make_options("WhileOptions", cond_subgraph_index=2, body_subgraph_index=1),
    }
    given = () if name == "CALL_ONCE" else (first, first + 1)
    got = {"CALL_ONCE": (), "WHILE": (first + 2, first + 3)}.get(name, (first + 3,))
    caller = replace(
        main,
        tensors=(*main.tensors, *((flag, values, flag, values) if given else ())),
        inputs=(*main.inputs, *given),
        outputs=(*main.outputs, *got),
        operators=(*main.operators, s.Operator(code, given, got, options.get(name))),
    )
    ends = {"CALL_ONCE": ((), ()), "WHILE": ((0, 1), (3, 2))}.get(name, ((1,), (2,)))
    add = s.Operator(code + 1, (1, 1) if given else (4, 4), (2,), make_options("AddOptions"))
    doubles = s.SubGraph((flag, values, values, false, numbers), *ends, (add,), "doubles")
    same = s.SubGraph((flag, values), ends[0], (0,) if name == "WHILE" else (1,), (), "same")
    return replace(
        GREEDY_FAILS,
        operator_codes=(*GREEDY_FAILS.operator_codes, *codes),
        subgraphs=(caller, doubles, same) if given else (caller, doubles),
        buffers=(*buffers, s.Buffer(b"\0"), s.Buffer(bytes(range(16)))),
    )


@needs_wheel
@pytest.mark.parametrize("call", ["IF", "WHILE", "CALL_ONCE"])
def test_tensors_around_called_subgraphs_are_planned(call: str) -> None:
    model = calling(call)
    result = Plan(measure=measured).run(model)
    offsets = read_plan(result.model)
    assert proven(result) and offsets is not None
    assert set(offsets[len(model.main.tensors) :]) == {-1}
    heads = [measured(each) for each in (model, result.model)]
    assert heads == [head_bytes(model), head_bytes(result.model)] and heads[1] < heads[0]
    assert same_bytes(model, result.model)


def test_calls_that_the_runtime_lacks_are_left_alone() -> None:
    model = calling("CALL")
    result = Plan().run(model)
    assert result.model is model
    assert not result.changed
    assert result.notes == (note("not planned", "obstacle", why="the model calls other subgraphs (CALL)"),)
    planned = write_plan(model, [-1] * sum(len(graph.tensors) for graph in model.subgraphs))
    result = Plan().run(planned)
    assert result.model is planned
    assert told(result.notes, "not planned", "obstacle, plan kept")


@needs_wheel
def test_other_subgraphs_are_left_to_the_runtime() -> None:
    extra = s.SubGraph(GREEDY_FAILS.main.tensors[:1], (0,), (0,), (), "extra")
    model = replace(GREEDY_FAILS, subgraphs=(GREEDY_FAILS.main, extra))
    result = Plan(measure=measured).run(model)
    offsets = read_plan(result.model)
    assert result.changed
    assert offsets is not None
    assert offsets[-1] == -1
    assert len(offsets) == len(GREEDY_FAILS.main.tensors) + 1
    assert same_bytes(model, result.model)


def test_variables_of_other_subgraphs_are_a_reason_not_to_plan() -> None:
    variable = replace(GREEDY_FAILS.main.tensors[0], is_variable=True)
    extra = s.SubGraph((variable,), (), (), (), "extra")
    result = Plan().run(replace(GREEDY_FAILS, subgraphs=(GREEDY_FAILS.main, extra)))
    assert not result.changed
    (why,) = told(result.notes, "not planned", "obstacle")
    assert "a subgraph other than the first has variables" in str(why.details["why"])


def test_unknown_scratch_is_admitted() -> None:
    maker = Maker()
    model = maker.model("FOREIGN", [maker.data((64,), I8)], [maker.data((64,), I8)])
    assert Plan().run(model).notes[0] == note("warned", "unknown scratch", names="FOREIGN_0")
