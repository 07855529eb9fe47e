from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.zoo import ModelBuilder
from tests.builders import random_models
from tests.memory.order.order_graphs import is_valid
from tests.model.rich_model import rich_model
from tests.passes.claims import proven
from tests.told import told
from tflite_fuse.errors import UsageError
from tflite_fuse.ir.liveness import peak
from tflite_fuse.ir.program import Program, program_of
from tflite_fuse.memory.arena import Arena, realise
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.order.least_peak import OrderResult
from tflite_fuse.memory.tflm.offline_plan import ONLINE, has_plan, tensor_count, write_plan
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model import schema as s
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.options import make_options
from tflite_fuse.notes import note
from tflite_fuse.passes.base import Pass
from tflite_fuse.passes.reorder import Reorder
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.inputs import generate_inputs

needs_wheel = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def branching_model() -> Model:
    """Two branches that each grow and shrink; the default order starts both before it finishes one."""
    builder = ModelBuilder(seed=3)
    x = builder.input((1, 8, 8, 4))
    wide = [builder.conv(x, 16), builder.conv(x, 12)]
    narrow = [builder.conv(tensor, 2) for tensor in wide]
    return builder.build([builder.concat(narrow)])


def aligned(graph: Program) -> Program:
    return replace(graph, sizes=tuple(-(-size // 16) * 16 for size in graph.sizes))


def found_by(reorder: Reorder, model: Model) -> OrderResult:
    return reorder.ordered(program_of(model)).order


def test_the_pass_is_a_pass() -> None:
    step: Pass = Reorder()
    assert step.name == "reorder"


def test_a_branching_model_has_a_better_order() -> None:
    model = branching_model()
    result = Reorder().run(model)
    assert (result.changed, proven(result), result.proves) == (True, True, "order")
    before, after = peak(program_of(model)), peak(program_of(result.model))
    assert after < before
    order = found_by(Reorder(), model)
    assert after == order.peak == order.lower_bound
    (found,) = told(result.notes, "changed", "order of operators")
    assert found.details == {"peak_before_bytes": before, "peak_bytes": after, "proven": True, "bound_bytes": after}
    assert replace_operators(result.model, model.main.operators) == model, "only the order may change"


def test_a_second_run_changes_nothing() -> None:
    once = Reorder().run(branching_model()).model
    again = Reorder().run(once)
    assert again.model is once
    assert (again.changed, proven(again)) == (False, True)
    assert told(again.notes, "kept", "order of operators")


def test_without_time_the_model_stays_with_a_note() -> None:
    model = branching_model()
    result = Reorder(Budget(seconds=0.0)).run(model)
    assert result.model is model
    assert (result.changed, proven(result)) == (False, False)
    assert not result.notes[0].details["proven"]
    assert result.notes[0].details["bound_bytes"] == found_by(Reorder(Budget(seconds=0.0)), model).lower_bound


def test_a_plan_of_the_old_order_is_dropped() -> None:
    model = branching_model()
    planned = write_plan(model, [ONLINE] * tensor_count(model))
    result = Reorder().run(planned)
    assert not has_plan(result.model)
    assert result.notes[1] == note("removed", "plan of another order")
    ordered = Reorder().run(model).model
    kept = Reorder().run(write_plan(ordered, [ONLINE] * tensor_count(ordered)))
    assert has_plan(kept.model)
    assert len(kept.notes) == 1


def test_sizes_count_as_the_arena_pays_for_them() -> None:
    model = branching_model()
    result = found_by(Reorder(alignment=4096), model)
    graph = program_of(model)
    rounded = replace(graph, sizes=tuple(4096 if size else 0 for size in graph.sizes))
    assert max(graph.sizes) <= 4096
    assert result.peak == peak(rounded.reordered(result.order)) > peak(graph)


def test_an_unknown_kernel_set_is_refused() -> None:
    with pytest.raises(UsageError):
        Reorder(in_place="unknown").run(branching_model())


def test_sharing_in_place_changes_the_peak_that_counts() -> None:
    builder = ModelBuilder(seed=1)
    x = builder.input((1, 8, 8, 4))
    model = builder.build([builder.add(builder.conv(x, 4), x)])
    shared, plain = found_by(Reorder(in_place="reference"), model), found_by(Reorder(), model)
    assert (plain.peak, shared.peak) == (3 * 256, 2 * 256)


def test_everything_else_in_the_file_survives() -> None:
    model = rich_model()
    result = Reorder().run(model)
    assert replace_operators(result.model, model.main.operators) == model
    assert is_valid(program_of(model), found_by(Reorder(), model).order)


def test_operators_that_meet_in_a_string_keep_their_order() -> None:
    """Strings live outside the arena, so that no arena tensor tells that the second operator needs the first."""
    arena, text = 9, 5
    tensors = (
        s.Tensor((64,), arena, 0, "x"),
        s.Tensor((1,), text, 0, "text"),
        s.Tensor((16,), arena, 0, "large"),
        s.Tensor((16,), arena, 0, "y"),
    )
    operators = (
        s.Operator(0, (0,), (2, 1), make_options("SplitOptions", num_splits=2)),
        s.Operator(0, (1,), (3,), make_options("SplitOptions", num_splits=1)),
    )
    main = s.SubGraph(tensors, (0,), (2, 3), operators)
    model = s.Model(3, (s.OperatorCode(49, None, 1, 49),), (main,), None, (s.Buffer(),))
    graph = program_of(model)
    assert not is_valid(graph, (1, 0))
    assert Reorder().run(model).model is model


def test_shared_models_are_proven(shared_model: Path) -> None:
    model = load_model(shared_model)
    result = Reorder(Budget()).run(model)
    assert proven(result)
    figures = peak(program_of(model)), peak(program_of(result.model))
    if shared_model.stem == "swiftnet_vww224_uint8":
        assert figures == (351_232, 301_056)
    assert figures[1] <= figures[0]


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(random_models(), random_models(variables=True)))
def test_random_models_never_get_worse(model: Model) -> None:
    result = Reorder(Budget()).run(model)
    graph, order = aligned(program_of(model)), found_by(Reorder(Budget()), model)
    assert is_valid(graph, order.order)
    assert peak(aligned(program_of(result.model))) == order.peak <= peak(graph)
    assert result.changed == (order.peak < peak(graph))


@needs_wheel
def test_the_reordered_model_computes_the_same_bytes_in_less_memory() -> None:
    model = branching_model()
    result = Reorder().run(model)
    before, after = serialize_model(model), serialize_model(result.model)
    assert compare(before, after, generate_inputs(model, 8)).first_difference is None
    assert tflm.measure(after).head_bytes < tflm.measure(before).head_bytes


def test_the_order_there_was_stays_where_it_needs_a_smaller_arena() -> None:
    """Blocks may write over their input in one order and not in the other, which the peak does not tell."""
    program = program_of(branching_model())
    least = Reorder().ordered(program).program

    def arena(of: Program) -> Arena:
        needed = realise(of)
        return replace(needed, head=needed.head + (1000 if of.steps == least.steps else 0))

    found, needed = Reorder().ordered_for(program, realise)
    assert found.program == least and needed == realise(least)
    result, needed = Reorder().ordered_for(program, arena)
    assert result.program is program and needed == arena(program)
    assert told(result.notes, "kept", "order of operators by arena")
