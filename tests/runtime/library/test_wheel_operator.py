"""Fused models in the real runtime: run, measured and compared like others, and refused when damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from scripts.zoo import ModelBuilder
from tests.conftest import SHARED
from tests.runtime.fused_models import fuse, fuse_outside, with_version
from tflite_fuse.emit.options import sealed
from tflite_fuse.errors import BlockError, ModelError, RuntimeUnavailableError
from tflite_fuse.ir.block import BlockConfig, Storage
from tflite_fuse.ir.program import CUSTOM_CODE
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model import schema as s
from tflite_fuse.model.edit import replace_main
from tflite_fuse.ops.lowering.extract import fusability
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.runtime.library.sources import kind_for
from tflite_fuse.runtime.processes import worker as worker_module
from tflite_fuse.runtime.processes.worker import Worker

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


@cache
def network() -> bytes:
    """An inverted residual block with stem and head: CONV, CONV, DEPTHWISE, CONV, ADD, MEAN, FULLY_CONNECTED."""
    b = ModelBuilder(seed=4)
    x = b.conv(b.input((1, 13, 11, 3)), 6, 3, 2, activation="RELU6")
    y = b.depthwise(b.conv(x, 18, 1, activation="RELU6"), 3, activation="RELU6")
    x = b.add(b.conv(y, 6, 1), x)
    return serialize_model(b.build(outputs=[b.fully_connected(b.mean(x), 5)]))


@cache
def fused() -> bytes:
    return fuse(network(), range(7))


def inputs_of(model: bytes, count: int = 16) -> list[list[np.ndarray]]:
    return generate_inputs(load_model(model), count)


def block_of(model: s.Model) -> s.Operator:
    codes = [code.custom_code for code in model.operator_codes]
    (block,) = (op for op in model.main.operators if codes[op.opcode_index] == CUSTOM_CODE)
    return block


def options_of(model: s.Model) -> bytes:
    return block_of(model).custom_options or b""


def changed(edit: Callable[[s.Model], s.Model]) -> bytes:
    return serialize_model(edit(load_model(fused())))


@pytest.mark.parametrize("config", [BlockConfig(7, 6), BlockConfig(7, 6, 1), BlockConfig(7, 2), BlockConfig(2, 3, 2)])
@pytest.mark.parametrize("operators", [range(7), range(4), range(1, 6), (2, 3)])
def test_fused_models_compute_the_same_bytes(operators: range, config: BlockConfig) -> None:
    model = fuse(network(), operators, config)
    assert compare(network(), model, inputs_of(network())).bit_exact


@pytest.mark.parametrize("config", [BlockConfig(7, 6), BlockConfig(7, 2), BlockConfig(2, 3, 2)])
def test_memory_outside_the_tensors_stays_unchanged(config: BlockConfig) -> None:
    """Under sanitizers, with every tensor, the constants and the options in memory of their exact size."""
    model = fuse(network(), range(7), config)
    inputs = inputs_of(network(), 4)
    for plain, guarded in zip(
        tflm.run(network(), inputs).outputs, tflm.run(model, inputs, sanitize=True).outputs, strict=True
    ):
        assert (plain[0] == guarded[0]).all()


def test_the_whole_network_takes_input_output_and_scratch() -> None:
    model = load_model(fused())
    sizes = [int(np.prod(model.main.tensors[t].dims)) for t in (*model.main.inputs, *(block_of(model).outputs or ()))]
    assert len(sizes) == 3
    assert tflm.measure(fused()).head_bytes == sum((size + 15) // 16 * 16 for size in sizes)


def test_a_changed_constant_is_found() -> None:
    def edit(model: s.Model) -> s.Model:
        buffer = model.main.tensors[(block_of(model).inputs or ())[-1]].buffer
        data = bytearray(model.buffers[buffer].data or b"")
        data[: len(data) // 2] = bytes(byte ^ 0x10 for byte in data[: len(data) // 2])
        buffers = (*model.buffers[:buffer], s.Buffer(bytes(data)), *model.buffers[buffer + 1 :])
        return replace(model, buffers=buffers)

    inputs = inputs_of(network())
    assert compare(fused(), fused(), inputs).bit_exact
    try:
        assert not compare(fused(), changed(edit), inputs).bit_exact
    except ModelError as error:  # the constants hold tables as well, which the operator checks
        assert "TFLITE_FUSE: " in str(error)


def with_block(model: s.Model, **fields: object) -> s.Model:
    block = block_of(model)
    operators = tuple(replace(op, **fields) if op == block else op for op in model.main.operators)
    return replace(model, subgraphs=(replace(model.main, operators=operators),))


def with_tensor(model: s.Model, index: int, **fields: object) -> s.Model:
    tensors = list(model.main.tensors)
    tensors[index] = replace(tensors[index], **fields)
    return replace(model, subgraphs=(replace(model.main, tensors=tuple(tensors)),))


def shorter(model: s.Model, index: int) -> s.Model:
    tensor = model.main.tensors[index]
    return with_tensor(model, index, shape=(*tensor.dims[:-1], tensor.dims[-1] - 1))


def constant_of(model: s.Model) -> int:
    """The buffer of the block's constants, which are more bytes than any of its other operands."""
    return model.main.tensors[(block_of(model).inputs or ())[-1]].buffer


def without_constants(model: s.Model) -> s.Model:
    return with_tensor(model, (block_of(model).inputs or ())[-1], buffer=0)


DAMAGE: dict[str, tuple[Callable[[s.Model], s.Model], str]] = {
    "no options": (lambda m: with_block(m, custom_options=None), "TFLITE_FUSE: "),
    "short options": (
        lambda m: with_block(m, custom_options=(block_of(m).custom_options or b"")[:40]),
        "TFLITE_FUSE: ",
    ),
    "foreign options": (lambda m: with_block(m, custom_options=b"\x07" * 64), "TFLITE_FUSE: "),
    "other version": (
        lambda m: with_block(m, custom_options=with_version(options_of(m), 99)),
        "the options are of another version: rewrite the model with the tflite-fuse of this library",
    ),
    "short scratch": (lambda m: shorter(m, (block_of(m).outputs or ())[-1]), "scratch memory"),
    "short output": (lambda m: shorter(m, (block_of(m).outputs or ())[0]), "output 0 must be int8 of 5 bytes"),
    "other input": (lambda m: shorter(m, (block_of(m).inputs or ())[0]), "input 0 must be int8 of 429 bytes"),
    "uint8 input": (lambda m: with_tensor(m, (block_of(m).inputs or ())[0], type=3), "input 0 must be int8"),
    "constant output": (
        lambda m: with_tensor(m, (block_of(m).outputs or ())[0], buffer=constant_of(m)),
        "a tensor that is written or converted where it lies is a constant",
    ),
    "constant scratch": (
        lambda m: with_tensor(m, (block_of(m).outputs or ())[-1], buffer=constant_of(m)),
        "scratch memory",
    ),
    "constants are no constant": (without_constants, "must be a constant"),
    "no scratch": (lambda m: with_block(m, outputs=(block_of(m).outputs or ())[:-1]), "TFLITE_FUSE: "),
    "no constants": (lambda m: with_block(m, inputs=(block_of(m).inputs or ())[:-1]), "must be a constant"),
    "no operands": (lambda m: with_block(m, inputs=()), "TFLITE_FUSE: "),
    "absent input": (lambda m: with_block(m, inputs=(-1, (block_of(m).inputs or ())[-1])), "input 0 must be"),
    "one input more": (
        lambda m: with_block(m, inputs=((block_of(m).inputs or ())[0], *(block_of(m).inputs or ()))),
        "the options list 1 input tensors, but the operator has 2",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_tensors_that_do_not_fit_are_refused_in_prepare(damage: str) -> None:
    edit, message = DAMAGE[damage]
    with pytest.raises(ModelError, match=message) as caught:
        tflm.measure(changed(edit))
    assert "crashed" not in str(caught.value)
    assert f"Node {CUSTOM_CODE} (number 0) failed to prepare" in str(caught.value)


@pytest.fixture(scope="module")
def sanitized_workers() -> Iterator[list[Worker]]:
    """One worker at a time, replaced when it has to be."""
    workers = [Worker(kind_for("tflm", fused(), sanitize=True))]
    yield workers
    workers[0].close()


def test_an_arena_that_is_too_small_is_a_sentence(
    sanitized_workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From just enough for the runtime's own objects on; then the same process runs the model in a larger one."""
    used = tflm.measure(fused()).arena_used_bytes
    child = sanitized_workers[0]
    for size in (*range(1024, used, 208), used - 16):
        monkeypatch.setattr(worker_module, "_FIRST_ARENA", size)
        monkeypatch.setattr(worker_module, "_LARGEST_ARENA", size)
        with pytest.raises(ModelError) as caught:
            child.load(fused())
        assert child.healthy and "crashed" not in str(caught.value), f"{size}: {caught.value}"
    monkeypatch.undo()
    child.load(fused())
    (plain,) = tflm.run(network(), inputs_of(network(), 1)).outputs
    assert (child.infer(inputs_of(network(), 1)[0])[0] == plain[0]).all()


@pytest.mark.parametrize("part", ["options", "constants"])
def test_damaged_bytes_are_harmless(part: str, sanitized_workers: list[Worker]) -> None:
    """Whatever the bytes say, the operator refuses them or runs inside its memory: no sanitizer report, no crash."""
    randomness = np.random.default_rng(7 if part == "options" else 8)
    inputs = inputs_of(network(), 1)[0]
    accepted = 0
    for _ in range(120):
        child = sanitized_workers[0]
        try:
            child.load(changed(lambda model: mutated(model, part, randomness)))
            child.infer(inputs, timeout=20)
            accepted += 1
        except ModelError as error:
            assert "TFLITE_FUSE: " in str(error), error
            assert child.healthy, error
    assert accepted < 120 or part == "constants"


def mutated(model: s.Model, part: str, randomness: np.random.Generator) -> s.Model:
    """With a checksum that fits, or nothing would come past it."""
    buffer = model.main.tensors[(block_of(model).inputs or ())[-1]].buffer
    data, options = model.buffers[buffer].data or b"", options_of(model)
    if part == "options":
        options = flip(options, randomness)
    else:
        data = flip(data, randomness)
    with suppress(BlockError):
        options = sealed(options, data)
    model = with_block(model, custom_options=options)
    return replace(model, buffers=(*model.buffers[:buffer], s.Buffer(data), *model.buffers[buffer + 1 :]))


def flip(data: bytes, randomness: np.random.Generator) -> bytes:
    """One to three int32 replaced by small, huge or neighbouring numbers."""
    numbers = np.frombuffer(data[: len(data) // 4 * 4], "<i4").copy()
    for _ in range(int(randomness.integers(1, 4))):
        place = int(randomness.integers(len(numbers)))
        choices = (0, 1, -1, 2**31 - 1, -(2**31), int(randomness.integers(-50, 50)), int(numbers[place]) ^ 1)
        numbers[place] = choices[int(randomness.integers(len(choices)))]
    return numbers.tobytes() + data[len(data) // 4 * 4 :]


STRIPS = BlockConfig(7, 2)
ONE_TILE = BlockConfig(7, 6)


@pytest.mark.parametrize(
    ("storage", "config"), [(Storage.EXTERNAL, ONE_TILE), (Storage.EXTERNAL, STRIPS), (Storage.SCRATCH, ONE_TILE)]
)
def test_an_input_outside_the_arena(storage: Storage, config: BlockConfig) -> None:
    model = fuse_outside(network(), range(7), storage, config)
    inputs = inputs_of(network())
    assert compare(network(), model, inputs).bit_exact
    guarded = tflm.run(model, [[]] * 4, inputs[:4], sanitize=True).outputs
    for plain, other in zip(tflm.run(network(), inputs[:4]).outputs, guarded, strict=True):
        assert (plain[0] == other[0]).all()
    assert tflm.measure(model).head_bytes < tflm.measure(fuse(network(), range(7), config)).head_bytes


def test_a_camera_is_not_read_twice() -> None:
    """Strips look at the columns between them again: right for memory, wrong for a source; the next run works."""
    inputs = inputs_of(network(), 2)
    strips = fuse_outside(network(), range(7), Storage.SCRATCH, STRIPS)
    with pytest.raises(ModelError, match="TFLITE_FUSE: "):
        tflm.run(strips, [[]], inputs[:1])
    assert compare(network(), fuse_outside(network(), range(7), Storage.SCRATCH, ONE_TILE), inputs).bit_exact


def test_inputs_outside_the_arena_must_fit() -> None:
    model = fuse_outside(network(), range(7), Storage.EXTERNAL, ONE_TILE)
    with pytest.raises(ModelError, match="none of that size was given"):
        tflm.run(model, [[]], [[np.zeros((1, 13, 11, 2), np.int8)]])
    with tflm.session(model) as child, pytest.raises(ModelError, match="none of that size was given"):
        child.infer([], [np.zeros((1, 13, 11, 3), np.int8)])
        child.infer([])
    with pytest.raises(ModelError, match="none of that size was given"):
        tflm.run(model, [[]], [[np.zeros((1, 13, 11, 3), np.float32)]])


def test_inputs_outside_are_for_fused_models() -> None:
    with pytest.raises(ModelError, match="cannot be given"):
        tflm.run(network(), inputs_of(network(), 1), [[np.zeros(3, np.int8)]])


def test_without_a_compiler_the_message_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(RuntimeUnavailableError, match="fused models need one"):
        tflm.measure(fused())
    assert tflm.measure(network()).head_bytes > 0


PUBLIC = ["mlperf_tiny_vww96_int8", "mlperf_tiny_resnet8_int8", "mlperf_tiny_dscnn_kws_int8", "tflm_person_detect_int8"]


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.parametrize("strip", [None, 5])
def test_public_models_as_one_block(name: str, strip: int | None) -> None:
    path = SHARED / f"models/{name}.tflite"
    if not path.exists():
        pytest.skip("no models beside the project")
    content = path.read_bytes()
    reasons = fusability(load_model(content))
    prefix = next((i for i, reason in enumerate(reasons) if reason is not None), len(reasons))
    model = fuse(content, range(prefix), None if strip is None else BlockConfig(1 << 10, strip))
    assert compare(content, model, inputs_of(content, 6)).bit_exact


def test_a_tensor_with_the_name_of_the_operator_needs_no_library() -> None:
    model = load_model(network())
    tensors = tuple(replace(each, name=CUSTOM_CODE) for each in model.main.tensors)
    named = serialize_model(replace_main(model, replace(model.main, tensors=tensors)))
    assert not kind_for("tflm", named).libraries
    assert kind_for("tflm", fused()).libraries
