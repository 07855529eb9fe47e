from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import random_models
from tests.conftest import UNKNOWN_TO_THE_WHEEL
from tests.memory.one_operator import I8, MODELS, Maker
from tflite_fuse.errors import ModelError, PlanError
from tflite_fuse.memory.tflm.greedy_planner import greedy_head, greedy_offsets, head_bytes
from tflite_fuse.memory.tflm.head_requests import BufferRequest
from tflite_fuse.memory.tflm.offline_plan import write_plan
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model import schema as s
from tflite_fuse.model.operators import make_options
from tflite_fuse.model.types import BUILTIN_CODES
from tflite_fuse.runtime import tflm

needs_wheel = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def computed(model: Model) -> int:
    return greedy_head(model, pointer_bytes=8).bytes


def measured(model: Model) -> int:
    return tflm.measure(serialize_model(model)).head_bytes


def buffers(*rows: tuple[int, ...]) -> list[BufferRequest]:
    return [BufferRequest(*row) for row in rows]


# ---- against the runtime


@needs_wheel
def test_equals_the_runtime_on_every_shared_model(shared_model: Path) -> None:
    model = load_model(shared_model)
    if shared_model.stem in UNKNOWN_TO_THE_WHEEL:
        with pytest.raises(ModelError, match="cannot load"):
            measured(model)
    else:
        assert computed(model) == measured(model)


@needs_wheel
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_runtime_on_every_kind_of_operator(name: str) -> None:
    assert computed(MODELS[name]) == measured(MODELS[name])
    assert not greedy_head(MODELS[name]).unknown


@needs_wheel
@given(random_models(most_operators=12), st.booleans())
@settings(max_examples=25)
def test_equals_the_runtime_on_random_models(model: Model, planned: bool) -> None:
    if planned:
        # A plan for every other tensor, so that the rest must be placed around it.
        tops = 0
        offsets = []
        for index, tensor in enumerate(model.main.tensors):
            fixed = index % 2 == 0 and not model.buffers[tensor.buffer].data and bool(tensor.dims)
            offsets.append(tops if fixed else -1)
            tops += 64 if fixed else 0
        model = write_plan(model, offsets)
    assert computed(model) == measured(model)


@needs_wheel
@given(random_models(variables=True))
@settings(max_examples=10)
def test_equals_the_runtime_on_models_with_resource_variables(model: Model) -> None:
    assert computed(model) == measured(model)


def conditional_model(nested: bool = False) -> Model:
    """IF with two branches of different need; ``nested``: the first branch calls the second one again."""

    def tensor(name: str, size: int, kind: int = I8) -> s.Tensor:
        return s.Tensor((1, size), kind, 0, name, s.Quantization(scale=(0.5,), zero_point=(0,)))

    codes = tuple(s.OperatorCode(BUILTIN_CODES[n], None, 1, BUILTIN_CODES[n]) for n in ("IF", "ADD"))
    add = make_options("AddOptions")
    main = s.SubGraph(
        (tensor("condition", 1, 6), tensor("x", 100), tensor("held", 100), tensor("y", 100), tensor("z", 100)),
        (0, 1),
        (4,),
        (
            s.Operator(1, (1, 1), (2,), add),
            s.Operator(0, (0, 1), (3,), make_options("IfOptions", then_subgraph_index=1, else_subgraph_index=2)),
            s.Operator(1, (2, 3), (4,), add),
        ),
        "main",
    )
    main = replace(main, tensors=(replace(main.tensors[0], shape=(1,)), *main.tensors[1:]))
    long = s.SubGraph(
        (tensor("a", 100), tensor("b", 100), tensor("c", 100)),
        (0,),
        (2,),
        (s.Operator(1, (0, 0), (1,), add), s.Operator(1, (0, 1), (2,), add)),
        "long",
    )
    short = s.SubGraph((tensor("d", 100), tensor("e", 100)), (0,), (1,), (s.Operator(1, (0, 0), (1,), add),), "short")
    unreachable = s.SubGraph((tensor("f", 333), tensor("g", 333)), (0,), (1,), (s.Operator(1, (0, 0), (1,), add),), "u")
    return s.Model(3, codes, (main, long, short, unreachable), "", (s.Buffer(),))


@needs_wheel
def test_equals_the_runtime_with_control_flow() -> None:
    model = conditional_model()
    assert computed(model) == measured(model)


@needs_wheel
def test_equals_the_runtime_where_tensors_are_never_used() -> None:
    maker = Maker()
    ends = maker.data((8, 100)), maker.data((8, 100))
    for _ in range(3):
        maker.data((9, 100))
    model = maker.model("RELU", [ends[0]], [ends[1]])
    assert computed(model) == measured(model) == 3 * 912


# ---- by hand


def test_the_largest_comes_first_and_of_equal_ones_the_last() -> None:
    assert greedy_offsets(buffers((16, 0, 1), (32, 0, 1), (32, 0, 1))) == (64, 32, 0)


def test_the_first_gap_that_fits_is_taken() -> None:
    plan = buffers((64, 0, 0, 0), (64, 0, 0, 96), (64, 0, 0, 192), (32, 0, 0), (48, 0, 0))
    assert greedy_offsets(plan) == (0, 96, 192, 64, 256)


def test_buffers_apart_in_time_share_memory() -> None:
    assert greedy_offsets(buffers((64, 0, 1), (64, 2, 3))) == (0, 0)


def test_fixed_offsets_may_overlap_and_are_kept() -> None:
    assert greedy_offsets(buffers((64, 0, 1, 16), (64, 0, 1, 32), (16, 1, 1))) == (16, 32, 0)


def test_a_model_without_arena_needs_no_head() -> None:
    assert head_bytes(s.Model(3, (), (s.SubGraph((), (), (), (), "main"),), "", (s.Buffer(),))) == 0


def test_an_unknown_custom_operator_makes_the_head_inexact() -> None:
    maker = Maker()
    model = maker.model("MY_OPERATOR", [maker.data((4,))], [maker.data((4,))])
    head = greedy_head(model)
    assert (head.bytes, head.unknown) == (32, ("MY_OPERATOR_0",))


def test_a_plan_for_another_model_is_refused_as_the_runtime_does() -> None:
    model = write_plan(MODELS["ADD"], (0, 32, 64))
    grown = replace(model, subgraphs=(replace(model.main, tensors=(*model.main.tensors, model.main.tensors[0])),))
    with pytest.raises(PlanError, match="made for 3 tensors but the model has 4"):
        greedy_head(grown)


@pytest.mark.parametrize("options", [None, make_options("AddOptions"), make_options("WhileOptions")])
def test_control_flow_without_its_options_is_refused(options: s.OptionsTable | None) -> None:
    model = conditional_model()
    operators = (model.main.operators[0], replace(model.main.operators[1], builtin_options=options))
    with pytest.raises(ModelError, match="a control flow operator has no options"):
        greedy_head(replace(model, subgraphs=(replace(model.main, operators=operators), *model.subgraphs[1:])))


def test_subgraphs_that_call_each_other_without_end_are_refused() -> None:
    model = conditional_model()
    again = replace(model.subgraphs[1], operators=(model.main.operators[1],), tensors=model.main.tensors)
    with pytest.raises(ModelError, match="calls itself"):
        greedy_head(replace(model, subgraphs=(model.main, again, *model.subgraphs[2:])))


def chain(length: int) -> Model:
    """Subgraphs that call the next one, in both branches of an IF."""
    model = conditional_model()
    graphs = [
        replace(
            model.main,
            operators=(
                s.Operator(
                    0, (0, 1), (3,), make_options("IfOptions", then_subgraph_index=n + 1, else_subgraph_index=n + 1)
                ),
            ),
        )
        for n in range(length)
    ]
    return replace(model, subgraphs=(*graphs, model.subgraphs[1]))


def test_subgraphs_deep_in_each_other_are_refused() -> None:
    with pytest.raises(ModelError, match="more than 100 deep"):
        greedy_head(chain(500))


def test_subgraphs_that_call_others_again_and_again_are_refused() -> None:
    with pytest.raises(ModelError, match="too often"):
        greedy_head(chain(60))


def test_a_subgraph_that_is_not_there_is_refused() -> None:
    model = conditional_model()
    with pytest.raises(ModelError, match="calls subgraph 1, the model has 1"):
        greedy_head(replace(model, subgraphs=(model.main,)))


def test_a_dynamic_shape_is_refused() -> None:
    maker = Maker()
    with pytest.raises(ModelError, match="dynamic shape"):
        greedy_head(maker.model("RELU", [maker.data((4,))], [maker.data((-1,))]))


def test_sizes_beyond_64_bits_are_added_up_as_they_are() -> None:
    huge = [BufferRequest(1 << 63, 0, 1), BufferRequest(1 << 62, 1, 2), BufferRequest(5, 2, 3)]
    assert greedy_offsets(huge) == (0, 1 << 63, 0)
