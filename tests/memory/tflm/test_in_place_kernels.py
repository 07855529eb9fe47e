from __future__ import annotations

from collections.abc import Callable

import pytest

from scripts.zoo import ModelBuilder
from scripts.zoo.recording import Ref
from tests.memory.one_operator import I8, I16, MODELS, Maker
from tflite_fuse.errors import UsageError
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.place.portfolio import place
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS, in_place_pairs, with_in_place
from tflite_fuse.memory.tflm.offline_plan import write_plan
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.operators import make_options
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.inputs import generate_inputs

needs_wheel = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def built(make: Callable[[ModelBuilder], Ref]) -> Model:
    builder = ModelBuilder(seed=3)
    return builder.build([make(builder)])


def image(b: ModelBuilder) -> Ref:
    return b.input((1, 6, 6, 12))


SAFE = {
    "ADD": built(lambda b: b.add(image(b), image(b))),
    "ADD with itself": built(lambda b: b.add(x := image(b), x)),
    "ADD RELU": built(lambda b: b.add(image(b), image(b), "RELU")),
    "RESHAPE": built(lambda b: b.reshape(image(b), (1, 432))),
    "SOFTMAX": built(lambda b: b.softmax(image(b))),
    "AVERAGE_POOL_2D": built(lambda b: b.average_pool(image(b), 6, 1, "VALID")),
}

UNSAFE = {
    "MEAN": built(lambda b: b.mean(image(b), keep_dims=True)),
    "FULLY_CONNECTED": built(lambda b: b.fully_connected(image(b), 12)),
    "CONV_2D": built(lambda b: b.conv(image(b), 12, 3)),
    "AVERAGE_POOL_2D to many pixels": built(lambda b: b.average_pool(image(b), 3, 1, "SAME")),
    "ADD with broadcasting": built(lambda b: b.add(b.input((1, 1, 1, 12)), image(b))),
}


def overlaid(model: Model, source: int) -> Model:
    """The model's only operator, planned to write over input ``source``."""
    operator = model.main.operators[0]
    output = (operator.outputs or ())[0]
    offsets = [-1] * len(model.main.tensors)
    for number, tensor in enumerate(model.main.inputs):
        offsets[tensor] = number * 4096
    offsets[output] = offsets[source]
    return write_plan(model, offsets)


def same_bytes(a: Model, b: Model) -> bool:
    samples = generate_inputs(a, 12, seed=1)
    return compare(serialize_model(a), serialize_model(b), samples).first_difference is None


@needs_wheel
@pytest.mark.parametrize("name", SAFE)
def test_safe_operators_compute_the_same_in_place(name: str) -> None:
    model = SAFE[name]
    pairs = in_place_pairs(program_of(model), "reference")[0]
    data_inputs = {
        t for t in model.main.operators[0].inputs or () if not model.buffers[model.main.tensors[t].buffer].data
    }
    assert {source for source, _ in pairs} == data_inputs
    for source, output in pairs:
        planned = overlaid(model, source)
        assert same_bytes(model, planned)
        graph = with_in_place(program_of(model), "reference")
        offsets = [-1] * len(graph.sizes)
        for number, tensor in enumerate(model.main.inputs):
            offsets[tensor] = number * 4096
        offsets[output] = offsets[source]
        check_plan(graph, offsets)


@needs_wheel
@pytest.mark.parametrize("name", UNSAFE)
def test_the_operators_left_out_really_break(name: str) -> None:
    """Shows that the test above can fail, and why the list is as short as it is."""
    model = UNSAFE[name]
    for kernels in KERNEL_SETS:
        assert in_place_pairs(program_of(model), kernels) == ((),)
    assert not same_bytes(model, overlaid(model, (model.main.operators[0].inputs or ())[0]))


@pytest.mark.parametrize("name", SAFE)
def test_every_set_names_its_operators(name: str) -> None:
    sets = [kernels for kernels in KERNEL_SETS if in_place_pairs(program_of(SAFE[name]), kernels) != ((),)]
    assert sets == (["reference", "cmsis-nn"] if name == "AVERAGE_POOL_2D" else ["reference", "cmsis-nn", "esp-nn"])


@pytest.mark.parametrize(
    "model",
    [
        MODELS["SOFTMAX of 16 bits"],
        MODELS["ADD_N"],
        MODELS["MAX_POOL_2D"],
        MODELS["QUANTIZE"],
        MODELS["MUL"],
    ],
    ids=["16 bits", "ADD_N", "MAX_POOL_2D", "QUANTIZE", "MUL"],
)
def test_everything_else_is_left_out(model: Model) -> None:
    assert in_place_pairs(program_of(model), "reference") == ((),)


def test_shapes_and_types_must_be_equal() -> None:
    maker = Maker()
    grown = maker.model(
        "ADD", [maker.data((1, 4)), maker.data((3, 4))], [maker.data((3, 4))], make_options("AddOptions")
    )
    assert in_place_pairs(program_of(grown), "reference") == ((),)
    maker = Maker()
    wide = maker.model("RESHAPE", [maker.data((4,), I16)], [maker.data((2, 2), I16)])
    assert in_place_pairs(program_of(wide), "reference") == ((),)
    maker = Maker()
    images = maker.model("AVERAGE_POOL_2D", [maker.data((2, 3, 3, 4))], [maker.data((2, 1, 1, 4), I8)])
    assert in_place_pairs(program_of(images), "reference") == ((),)


def test_constants_are_never_written_over() -> None:
    maker = Maker()
    model = maker.model("ADD", [maker.data((3, 4)), maker.constant((3, 4))], [maker.data((3, 4))])
    assert in_place_pairs(program_of(model), "reference") == (((0, 2), (1, 2)),)
    graph = with_in_place(program_of(model), "reference")
    assert graph.steps[0].in_place == ((0, 2),)


def test_an_unknown_kernel_set_is_refused() -> None:
    with pytest.raises(UsageError, match="no kernel set 'mkl'; the sets are reference, cmsis-nn, esp-nn"):
        in_place_pairs(program_of(SAFE["ADD"]), "mkl")


@needs_wheel
def test_a_whole_network_in_place_computes_the_same() -> None:
    builder = ModelBuilder(seed=5)
    x = builder.conv(builder.input((1, 8, 8, 3)), 8, 3)
    for _ in range(3):
        x = builder.add(builder.reshape(builder.reshape(x, (1, 512)), (1, 8, 8, 8)), x)
    model = builder.build([builder.softmax(builder.reshape(builder.average_pool(x, 8, 1, "VALID"), (1, 8)))])
    plain = program_of(model)
    graph = with_in_place(plain, "reference")
    placement = place(graph)
    check_plan(graph, placement.offsets, height=placement.height)
    assert placement.height == 1024 < place(plain).height
    assert same_bytes(model, write_plan(model, placement.offsets))


def test_no_kernel_works_in_place_by_default() -> None:
    assert all(not op.in_place for op in program_of(SAFE["ADD"]).steps)
