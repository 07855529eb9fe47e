"""Plans in files: every pair of overlapping live tensors is found, by every command."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from scripts.zoo.networks import branching_network
from tests.memory.one_operator import I8, Maker
from tests.told import told
from tflite_fuse.emit.in_model import block_overlaps
from tflite_fuse.errors import PlanError
from tflite_fuse.export import export_model
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.checker import plan_fault
from tflite_fuse.memory.place.portfolio import place
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS, with_in_place
from tflite_fuse.memory.tflm.offline_plan import METADATA_NAME, read_plan, remove_plan, write_plan
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import add_tensor, set_metadata
from tflite_fuse.model.schema import Tensor


def planned(model: Model | None = None, kernels: str | None = None) -> Model:
    """A model with a sound plan: of operators as they are, or of ``model``."""
    model = model or branching_network(16, 8)
    graph = program_of(model)
    graph = graph if kernels is None else with_in_place(graph, kernels)
    return write_plan(model, place(graph, block_overlaps(model)).offsets)


def fused(model: Model) -> Model:
    return remove_plan(load_model(tflite_fuse.rewrite(serialize_model(model), verify=False).model))


def moved(model: Model, tensor: int, offset: int) -> Model:
    offsets = list(read_plan(model) or ())
    offsets[tensor] = offset
    return write_plan(model, offsets)


def test_sound_plans_are_left_in_peace() -> None:
    models = [planned(kernels=kernels) for kernels in (None, *KERNEL_SETS)]
    for model in (*models, planned(fused(branching_network(16, 8)))):
        assert read_plan(model) is not None and plan_fault(model, block_overlaps(model)) is None
    assert plan_fault(branching_network(8, 4)) is None


def test_an_operators_output_over_its_input_is_found_wherever_it_is() -> None:
    model = planned()
    graph, offsets, found = program_of(model), read_plan(model) or (), 0
    for op in graph.steps:
        for read in op.inputs:
            if graph.sizes[read] > 16:
                wrong = moved(model, op.outputs[0], offsets[read] + 16)
                assert "overlaps" in str(plan_fault(wrong)) or "overwritten" in str(plan_fault(wrong))
                found += 1
    assert found >= 5


def test_a_block_nearer_to_its_input_than_its_schedule_allows_is_found() -> None:
    builder = ModelBuilder(seed=1)
    x = builder.input((1, 32, 8, 4))
    for _ in range(3):
        x = builder.conv(x, 4, kernel=3)
    model = planned(fused(builder.build([x])))
    overlap = next(each for each in block_overlaps(model) if each.distance is not None)
    offsets = read_plan(model) or ()
    assert plan_fault(model, block_overlaps(model)) is None
    at = offsets[overlap.input]
    wrong = moved(model, overlap.output, at) if offsets[overlap.output] != at else moved(model, overlap.output, at + 16)
    assert plan_fault(wrong, block_overlaps(wrong)) is not None


@pytest.mark.parametrize("offset", [-2, 8, 2**31 - 16])
def test_offsets_no_arena_has_are_found(offset: int) -> None:
    model = planned()
    offsets = list(read_plan(model) or ())
    offsets[program_of(model).steps[0].outputs[0]] = offset
    data = struct.pack(f"<{3 + len(offsets)}i", 1, 1, len(offsets), *offsets)
    assert plan_fault(set_metadata(model, METADATA_NAME, data)) is not None


def test_tensors_left_to_the_runtime_are_no_fault() -> None:
    model = planned()
    assert plan_fault(moved(model, model.main.operators[0].outputs[0], -1)) is None  # type: ignore[index]


def test_a_strange_operator_may_do_as_it_likes_with_its_own_tensors() -> None:
    maker = Maker()
    ends = maker.data((1, 64), I8), maker.data((1, 64), I8)
    model = maker.model("RELU", [ends[0]], [ends[1]])
    code = replace(model.operator_codes[0], custom_code="ethos-u", deprecated_builtin_code=32, builtin_code=32)
    strange = write_plan(replace(model, operator_codes=(code, *model.operator_codes[1:])), [0, 16])
    assert plan_fault(strange) is None
    assert plan_fault(write_plan(model, [0, 16])) is not None


def test_the_memory_of_a_strange_operator_may_contain_the_input() -> None:
    """As compilers for accelerators write it: the input and the output lie in the memory of the command stream."""
    maker = Maker()
    source, memory, result = maker.data((1, 64), I8), maker.data((1, 256), I8), maker.data((1, 64), I8)
    model = maker.model("ADD", [source, memory], [result])
    model = replace(model, subgraphs=(replace(model.main, inputs=(source,)),))
    code = replace(model.operator_codes[0], custom_code="ethos-u", deprecated_builtin_code=32, builtin_code=32)
    strange = write_plan(replace(model, operator_codes=(code, *model.operator_codes[1:])), [64, 0, 128])
    assert plan_fault(strange) is None
    assert not told(tflite_fuse.inspect(serialize_model(strange)).records, "warned", "unsound plan")
    assert plan_fault(write_plan(model, [64, 0, 128])) is not None


def test_inspect_warns_and_verify_and_export_refuse(tmp_path: Path) -> None:
    model = planned()
    sound = serialize_model(model)
    source = program_of(model).steps[0]
    wrong = serialize_model(moved(model, source.outputs[0], (read_plan(model) or ())[source.inputs[0]] + 16))
    assert told(tflite_fuse.inspect(wrong).records, "warned", "unsound plan")
    with pytest.raises(PlanError, match=r"model B: .* unsound"):
        tflite_fuse.verify(sound, wrong, inputs=1)
    for format in ("arduino", "platformio", "esp-idf"):
        with pytest.raises(PlanError, match="unsound"):
            export_model(wrong, tmp_path / "folder", format)
    assert list(tmp_path.iterdir()) == []


def test_rewriting_drops_an_unsound_plan_and_proves_the_result_against_the_model_without_it() -> None:
    model = planned()
    source = program_of(model).steps[0]
    wrong = moved(model, source.outputs[0], (read_plan(model) or ())[source.inputs[0]] + 16)
    result = tflite_fuse.rewrite(serialize_model(wrong), passes=("plan",), inputs=2)
    assert told(result.report.records, "removed", "plan")
    assert plan_fault(load_model(result.model)) is None


def at_odd_places(model: Model) -> Model:
    """The model with every offset of its plan 8 higher, as other compilers write them."""
    data = bytearray(next(model.buffers[entry.buffer].data or b"" for entry in model.metadata or ()))
    data[12:] = b"".join(struct.pack("<i", at + 8) for at in read_plan(model) or ())
    return set_metadata(remove_plan(model), METADATA_NAME, bytes(data))


def test_a_plan_of_offsets_that_are_no_multiples_of_16_refuses_no_model() -> None:
    odd = at_odd_places(planned())
    assert "not a multiple of 16" in str(plan_fault(odd))
    report = tflite_fuse.rewrite(serialize_model(odd), verify=True, inputs=2).report
    assert report.verified is not None and report.after.arena_bytes < report.before.arena_bytes
    code = replace(odd.operator_codes[0], custom_code="XC_load", deprecated_builtin_code=32, builtin_code=32)
    strange = serialize_model(replace(odd, operator_codes=(code, *odd.operator_codes[1:])))
    result = tflite_fuse.rewrite(strange, inputs=2)
    assert result.model == strange and "XC_load" in str(result.report.unchanged)


def test_a_variable_that_a_plan_places_outlives_the_inference() -> None:
    """The runtime puts it there, too, and keeps it from nobody."""
    model = planned()
    offsets = list(read_plan(model) or ())
    graph = program_of(model)
    inside = [tensor for tensor, size in enumerate(graph.sizes) if size]
    end = max(offsets[tensor] + graph.sizes[tensor] for tensor in inside)
    variable = Tensor((16,), 9, 0, "state", is_variable=True)
    model, _ = add_tensor(remove_plan(model), variable)
    assert plan_fault(write_plan(model, [*offsets, (end + 15) // 16 * 16])) is None
    for tensor in inside:
        assert "state" in str(plan_fault(write_plan(model, [*offsets, offsets[tensor]])))
