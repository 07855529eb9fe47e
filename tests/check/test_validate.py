"""Every rewrite is proven under all options, and errors in a rewritten model are named."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts.zoo import ModelBuilder, networks
from scripts.zoo.float_twin import float_twin, with_float16_weights
from tests.builders import random_graph
from tests.check.mutants import mutants, outcome, seal
from tests.compiling import rewritten_by_default
from tests.conftest import shared_models
from tests.drawing.raw_models import RawModel
from tests.model.rich_model import rich_model
from tflite_fuse import api
from tflite_fuse.check import Certificate, validate
from tflite_fuse.emit.options import read_options, write_options
from tflite_fuse.errors import LimitError, TfliteFuseError
from tflite_fuse.ir.enums import ElementType, StageKind
from tflite_fuse.model.edit import replace_main, replace_operators, set_metadata
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.model.operators import make_options
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType
from tflite_fuse.passes.goal import Goal

LEAST = Goal(least_ram=True)

OPTIONS: list[dict[str, Any]] = [
    {},
    {"goal": LEAST},
    {"goal": LEAST, "overlap": False, "in_place": "reference"},
    {"input_mode": "streamed", "int8_io": True},
    {"input_mode": "external", "int8_io": True, "goal": LEAST},
    {"scheme": "stream-2d"},
    {"scheme": "head-patches"},
    {"scheme": "inverted-residual", "tiles": (3, 3)},
    {"scheme": "h-cache"},
    {"target": "cortex-m7"},
    {"passes": ("reorder",), "int8_io": True},
    {"passes": ("plan",)},
    {"passes": ("fuse",)},
]


def rewritten(model: Model | bytes, **options: Any) -> tuple[Model, Model]:
    data = model if isinstance(model, bytes) else serialize_model(model)
    return load_model(data), load_model(api.rewrite(data, verify=False, time_limit=3, **options).model)


def check(model: Model | bytes, **options: Any) -> Certificate | None:
    try:
        before, after = rewritten(model, **options)
    except LimitError:
        return None
    found = validate(before, after)
    assert found.proven, [str(finding) for finding in found.findings[:5]]
    return found


# ---- No false alarms ----


def test_default_rewrites_of_real_models_are_proven(shared_model: Path) -> None:
    found = validate(load_model(shared_model), load_model(rewritten_by_default(shared_model)))
    assert found.proven, [str(finding) for finding in found.findings[:5]]
    assert found.blocks or found.plain


@shared_models("mlperf_tiny_dscnn_kws_int8", "mlperf_tiny_resnet8_int8", "mlperf_tiny_wakeword1d_int8")
@pytest.mark.parametrize("options", OPTIONS[1:], ids=[" ".join(map(str, o.values()))[:40] for o in OPTIONS[1:]])
def test_rewrites_with_options_are_proven(path: Path, options: dict[str, Any]) -> None:
    check(path.read_bytes(), **options)


@pytest.mark.parametrize("seed", range(24))
def test_rewrites_of_random_networks_are_proven(seed: int) -> None:
    randomness = random.Random(seed)
    model = random_graph(randomness.randint, 12, variables=seed % 3 == 0)
    check(model, **randomness.choice(OPTIONS))


@pytest.mark.parametrize("options", OPTIONS, ids=[" ".join(map(str, o.values()))[:40] for o in OPTIONS])
def test_rewrites_of_usual_networks_are_proven(options: dict[str, Any]) -> None:
    check(networks.inverted_residual_network(17, blocks=2), **options)
    check(networks.one_dimensional_network(33, along_rows=True), **options)
    check(networks.pyramid_network(24), **options)


def test_a_model_that_was_not_rewritten_is_proven() -> None:
    model = rich_model()
    assert validate(model, model).proven


def test_indices_that_their_shape_does_not_have_are_not_followed() -> None:
    raw = RawModel()
    source, output = raw.tensor((1, 6)), raw.tensor((1, 1))
    indices = raw.constant(np.array([2], np.int32))
    raw.tensors[indices] = replace(raw.tensors[indices], shape=(0,))
    raw.operator("GATHER", [source, indices], [output], make_options("GatherOptions", axis=1))
    model = raw.build([source], [output])
    assert validate(model, model).proven


def test_a_part_without_dimensions_is_not_followed() -> None:
    raw = RawModel()
    source, parts = raw.tensor((1, 6)), [raw.tensor((1, 3)), raw.tensor(())]
    axis = raw.constant(np.array(1, np.int32))
    raw.operator("SPLIT", [axis, source], parts, make_options("SplitOptions", num_splits=2))
    model = raw.build([source], parts)
    assert validate(model, model).proven


def activated() -> Model:
    """Convolutions behind which stand SiLU, HARD_SWISH, a product and a QUANTIZE."""
    model, shape, rng = RawModel(), (1, 9, 9, 4), np.random.default_rng(0)

    def conv(x: int) -> int:
        weights = model.constant(rng.integers(-127, 128, (4, 3, 3, 4)).astype(np.int8), [0.01])
        y = model.tensor(shape, 0.05, -5)
        model.operator("CONV_2D", [x, weights, -1], [y], make_options("Conv2DOptions", stride_w=1, stride_h=1))
        return y

    def then(name: str, reads: list[int], scale: float = 0.07, point: int = 3, options: Any = None) -> int:
        y = model.tensor(shape, scale, point)
        model.operator(name, reads, [y], options)
        return y

    x = source = model.tensor(shape, 0.04, 3)
    y = conv(x)
    x = then("MUL", [y, then("LOGISTIC", [y], 1 / 256, -128)], options=make_options("MulOptions"))
    y = then("HARD_SWISH", [conv(x)])
    x = then("MUL", [conv(y), y], options=make_options("MulOptions", fused_activation_function=1))
    return model.build([source], [then("QUANTIZE", [conv(x)])])


@pytest.mark.parametrize("options", OPTIONS[:4], ids=["default", "least", "in place", "streamed"])
def test_tables_and_products_are_proven(options: dict[str, Any]) -> None:
    found = check(activated(), **options)
    assert found is not None and found.counts["answers"] == 3 * 256


def test_no_change_of_tables_and_products_is_missed() -> None:
    before, after = rewritten(activated(), goal=LEAST)
    whole = validate(before, after)
    missed = [m for m in mutants(after, random.Random(5), 60) if outcome(before, whole, m) == "missed"]
    assert not missed


# ---- What is wrong is named ----


@pytest.fixture(scope="module")
def pair() -> tuple[Model, Model]:
    return rewritten(networks.inverted_residual_network(16, channels=8, blocks=2), goal=LEAST)


def with_constant(model: Model, change: Any) -> Model:
    """The model with the first block's constants changed."""
    index = next(i for i, op in enumerate(model.main.operators) if op.custom_options)
    buffer = model.main.tensors[(model.main.operators[index].inputs or ())[-1]].buffer
    values = np.frombuffer(model.buffers[buffer].data or b"", np.int8).copy()
    change(values)
    buffers = list(model.buffers)
    buffers[buffer] = replace(buffers[buffer], data=values.tobytes())
    return seal(replace(model, buffers=tuple(buffers)), index)


def test_a_weight_is_named_with_operator_channel_and_element(pair: tuple[Model, Model]) -> None:
    before, after = pair

    def change(values: Any) -> None:
        values[0] += 1  # packed: the first channel's first tap and first input channel

    (finding,) = validate(before, with_constant(after, change)).findings
    assert (finding.what, finding.operator, finding.channel, finding.element) == ("weight", "CONV_2D_0", 0, (0, 0, 0))
    assert isinstance(finding.expected, int) and finding.actual == finding.expected + 1
    assert "CONV_2D_0, channel 0, element [0, 0, 0]" in str(finding)


def test_weights_of_zeros_are_not_proven(pair: tuple[Model, Model]) -> None:
    before, after = pair
    found = validate(before, with_constant(after, lambda values: values.fill(0)))
    assert not found.proven
    assert any(finding.what == "weight" and finding.count > 1 for finding in found.findings)


@pytest.mark.parametrize("other", [2.0**-24, np.inf, np.nan])
def test_a_weight_in_float16_is_compared_with_float32(other: float) -> None:
    before, after = rewritten(with_float16_weights(float_twin(networks.dense_network())))

    def change(values: Any) -> None:
        values[:2] = np.array([other], "<f2").view(np.int8)

    findings = validate(before, with_constant(after, change)).findings
    assert {finding.what for finding in findings} >= {"weight"}
    assert any("finite" in finding.what for finding in findings) == (not np.isfinite(other))


def test_the_claim_names_the_proof_and_the_run(pair: tuple[Model, Model]) -> None:
    before, after = pair
    assert validate(before, after).sentence(16) == (
        "constants, options and schedule proven equal; kernels tested on 16 inputs"
    )
    assert validate(before, after).sentence() == "constants, options and schedule proven equal; kernels not run"
    wrong = validate(before, with_constant(after, lambda values: values.fill(0)))
    assert wrong.sentence(16).startswith("not proven equal: ")


def test_a_certificate_names_and_counts_the_operators_of_blocks(pair: tuple[Model, Model]) -> None:
    found = validate(*pair)
    names = [name for block in found.blocks for name in block.replaces]
    assert "CONV_2D_0" in names
    assert found.counts["weights"] > 0
    assert found.counts["biases, multipliers and shifts"] > 0
    assert found.counts["runs of pixels"] > 0


@pytest.mark.parametrize("seed", range(2))
def test_no_change_of_a_block_is_missed(pair: tuple[Model, Model], seed: int) -> None:
    before, after = pair
    whole = validate(before, after)
    for mutant in mutants(after, random.Random(seed), 100):
        assert outcome(before, whole, mutant) != "missed", (mutant.what, mutant.place)


def test_a_zero_point_of_floats_is_named() -> None:
    """Floats have none: no value depends on the number, so nothing else would ever notice it."""
    model = RawModel()
    source = model.tensor((1, 6, 6, 4), type_=TensorType.FLOAT32, quantization=None)
    made = model.tensor((1, 6, 6, 4), 0.04, 3)
    model.operator("QUANTIZE", [source], [made], None)
    before, after = rewritten(model.build([source], [made]), goal=LEAST)
    (operator,) = after.main.operators
    constants = after.buffers[after.main.tensors[(operator.inputs or ())[-1]].buffer].data or b""
    options = read_options(operator.custom_options or b"")
    tensors = tuple(t._replace(zero_point=3) for t in options.tensors)
    assert {t.element_type for t in tensors} == {ElementType.FLOAT32, ElementType.INT8}
    other = replace(operator, custom_options=write_options(options._replace(tensors=tensors), constants))
    findings = validate(before, replace_operators(after, [other])).findings
    assert any("input zero point of QUANTIZE_0: 3 instead of 0" in str(each) for each in findings)


def test_the_numbers_of_the_shorter_way_to_sums_are_the_only_ones(pair: tuple[Model, Model]) -> None:
    """Others near them may give the same sums; a change of them is none that goes unnoticed."""
    before, after = pair
    for index, operator in enumerate(after.main.operators):
        options = read_options(operator.custom_options or b"") if operator.custom_options else None
        for stage in () if options is None else options.stages:
            if stage.kind == StageKind.ADD and stage.weights_offset >= 0:
                buffer = after.main.tensors[(operator.inputs or ())[-1]].buffer
                for number, step in product(range(3), (-1, 1)):
                    data = bytearray(after.buffers[buffer].data or b"")
                    at = stage.weights_offset + 4 * number
                    data[at : at + 4] = (int.from_bytes(data[at : at + 4], "little") + step).to_bytes(4, "little")
                    buffers = list(after.buffers)
                    buffers[buffer] = replace(buffers[buffer], data=bytes(data))
                    changed = seal(replace(after, buffers=tuple(buffers)), index)
                    assert any("by multiples" in str(finding) for finding in validate(before, changed).findings)
                return
    raise AssertionError("no such stage")


# ---- What surrounds the blocks ----


def changed_tensor(model: Model, name: str, **changes: Any) -> Model:
    tensors = tuple(replace(t, **changes) if t.name == name else t for t in model.main.tensors)
    return replace(model, subgraphs=(replace(model.main, tensors=tensors), *model.subgraphs[1:]))


def test_other_scales_at_the_borders_are_found(pair: tuple[Model, Model]) -> None:
    before, after = pair
    for index in (*after.main.inputs, *after.main.outputs):
        tensor = after.main.tensors[index]
        assert tensor.quantization is not None and tensor.quantization.scale
        other = replace(tensor.quantization, scale=(tensor.quantization.scale[0] * 1.01,))
        assert not validate(before, changed_tensor(after, tensor.name or "", quantization=other)).proven


def test_swapped_outputs_are_found() -> None:
    before, after = rewritten(networks.pyramid_network(24))
    outputs = after.main.outputs
    graph = replace(after.main, outputs=(outputs[1], outputs[0], *outputs[2:]))
    assert not validate(before, replace(after, subgraphs=(graph,))).proven


def test_an_arena_plan_that_overwrites_is_found(pair: tuple[Model, Model]) -> None:
    before, after = pair
    count = len(after.main.tensors)
    plan = np.array([1, 1, count, *[0] * count], "<i4").tobytes()
    found = validate(before, set_metadata(after, "OfflineMemoryAllocation", plan))
    assert [finding.where for finding in found.findings] == ["arena plan"]


def test_foreign_metadata_and_description_are_found(pair: tuple[Model, Model]) -> None:
    before, after = pair
    assert not validate(before, set_metadata(after, "something", b"else")).proven
    assert not validate(before, replace(after, description="another")).proven


def test_an_operator_without_the_writer_of_its_input_is_detected() -> None:
    """Names alone do not make up for it: what nothing writes holds whatever lay there."""
    model = RawModel()
    source, middle, last = (model.tensor((1, 2, 2, 4), 0.1, 0) for _ in range(3))
    for read, written in ((source, middle), (middle, last)):
        model.operator("LOGISTIC", (read,), (written,), None)
    whole = model.build([source], [last])
    assert validate(whole, whole).proven
    found = validate(whole, replace_operators(whole, whole.main.operators[1:]))
    assert [finding.where for finding in found.findings] == ["LOGISTIC_0", "outputs"]


def test_operators_with_effects_stay_in_order() -> None:
    b = ModelBuilder(0)
    x = b.input((1, 4, 4, 2))
    state = b.variable(x.shape)
    y = b.add(x, b.read_variable(state))
    b.assign_variable(state, y)
    model = b.build([y])
    assert validate(model, model).proven
    without = [op for op in model.main.operators if op is not model.main.operators[-1]]
    names = [finding.where for finding in validate(model, replace_operators(model, without)).findings]
    assert "operators" in names


def test_a_variable_that_two_operators_share_is_not_two_of_the_same_name() -> None:
    raw = RawModel()
    x, state, y, z = (raw.tensor((1, 4)) for _ in range(4))
    raw.tensors[state] = replace(raw.tensors[state], is_variable=True)
    raw.operator("SVDF", [x, state], [y], None)
    raw.operator("SVDF", [y, state], [z], None)
    shared = raw.build([x], [z])
    graph = shared.main
    second = replace(graph.operators[1], inputs=(y, len(graph.tensors)))
    apart = replace_main(
        shared,
        replace(graph, tensors=(*graph.tensors, graph.tensors[state]), operators=(graph.operators[0], second)),
    )
    assert validate(shared, shared).proven and validate(apart, apart).proven
    assert not validate(shared, apart).proven and not validate(apart, shared).proven


def test_a_constant_of_whole_numbers_and_a_byte_is_no_defect() -> None:
    b = ModelBuilder(seed=2)
    model = b.build([b.conv(b.pad(b.input((1, 6, 6, 2)), (1, 1, 1, 1)), 2, 3, padding="VALID")])
    pad = next(op for op in model.main.operators if len(op.inputs or ()) == 2)
    at = model.main.tensors[(pad.inputs or ())[1]].buffer
    buffers = [
        replace(each, data=(each.data or b"") + b"\0") if i == at else each for i, each in enumerate(model.buffers)
    ]
    damaged = replace(model, buffers=tuple(buffers))
    with suppress(TfliteFuseError):
        api.rewrite(serialize_model(damaged), verify=False)
    assert validate(damaged, damaged).proven


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 0.0])
def test_scales_that_are_none_are_no_warning(scale: float) -> None:
    """And nothing is proven of them: what the runtime makes of such a ratio is left to the machine."""
    model = networks.inverted_residual_network(8, channels=4, blocks=1)
    for index, tensor in enumerate(model.main.tensors):
        if tensor.quantization is not None and tensor.quantization.scale:
            other = replace(tensor.quantization, scale=(scale, *tensor.quantization.scale[1:]))
            changed = changed_tensor(model, model.main.tensors[index].name or "", quantization=other)
            assert check(changed) is not None
