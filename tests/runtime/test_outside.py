"""Inputs outside the arena in the real runtime: arrays, functions, their failures, hostile metadata."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.drawing.host import run_block
from tests.drawing.raw_models import RawModel
from tests.runtime.fused_models import fuse, fuse_outside, whole
from tests.runtime.library.test_wheel_operator import ONE_TILE, inputs_of, network
from tests.runtime.small_models import dense_model
from tflite_fuse.api import rewrite
from tflite_fuse.emit.outside import move_outside
from tflite_fuse.errors import BlockError, ModelError, TfliteFuseError, UsageError, VerificationError
from tflite_fuse.ir.block import BlockConfig, StageKind, Storage
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.outside import InputMode, outside_inputs, set_outside_inputs
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.streams import Stream, make_feed

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

IMAGE = (13, 11, 3)
Reader = Callable[[int, int, int], object]


@cache
def streamed() -> bytes:
    return fuse_outside(network(), range(7), Storage.SCRATCH, ONE_TILE)


@cache
def external() -> bytes:
    return fuse_outside(network(), range(7), Storage.EXTERNAL, ONE_TILE)


def expected(image: np.ndarray) -> np.ndarray:
    return tflm.run(network(), [[image]]).outputs[0][0]


def reader(image: np.ndarray) -> Reader:
    return lambda y, x, count: image[0, y, x : x + count]


def outcome(read: Reader) -> np.ndarray:
    return tflm.run(streamed(), [[]], [[Stream(read, IMAGE)]]).outputs[0][0]


@pytest.mark.parametrize("form", [np.asarray, bytes, bytearray, memoryview, np.ndarray.tolist])
def test_a_function_hands_out_the_pixels(form: Callable[[np.ndarray], object]) -> None:
    ((image,), *_) = inputs_of(network(), 10)[-1:]
    read = reader(image)
    if form is np.ndarray.tolist:
        with pytest.raises(UsageError, match="int64 pixels"):
            outcome(lambda y, x, count: form(np.asarray(read(y, x, count))))
        return
    given = outcome(lambda y, x, count: form(np.ascontiguousarray(read(y, x, count))))
    assert (given == expected(image)).all()


def test_a_function_is_called_once_per_pixel_from_top_to_bottom() -> None:
    image = inputs_of(network(), 10)[-1][0]
    asked: list[tuple[int, int]] = []

    def read(y: int, x: int, count: int) -> np.ndarray:
        asked.extend((y, x + i) for i in range(count))
        return image[0, y, x : x + count]

    assert (outcome(read) == expected(image)).all()
    assert asked == [(y, x) for y in range(13) for x in range(11)]


def fails_in(row: int, how: Callable[[np.ndarray], object], image: np.ndarray) -> Reader:
    def read(y: int, x: int, count: int) -> object:
        pixels = image[0, y, x : x + count]
        return how(pixels) if y == row else pixels

    return read


def unplugged(pixels: np.ndarray) -> object:
    raise OSError("the camera is gone")


FAILURES: dict[str, tuple[Callable[[np.ndarray], object], type[Exception], str]] = {
    "raises": (unplugged, OSError, "the camera is gone"),
    "too few": (lambda pixels: pixels[:-1], UsageError, r"gave \d+ bytes for \d+ pixels of 3 channels \(row"),
    "none": (lambda pixels: b"", UsageError, "gave 0 bytes"),
    "too many": (lambda pixels: np.concatenate([pixels, pixels]), UsageError, "gave"),
    "unsigned": (lambda pixels: pixels.astype(np.uint8), UsageError, "uint8 pixels"),
    "nothing": (lambda pixels: None, UsageError, "object pixels"),
}


@pytest.mark.parametrize("row", [0, 6, 12])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_function_that_fails_ends_the_inference_and_the_next_one_works(failure: str, row: int) -> None:
    how, error, message = FAILURES[failure]
    image = inputs_of(network(), 10)[-1][0]
    with tflm.session(streamed()) as child:
        for _ in range(2):
            with pytest.raises(error, match=message):
                child.infer([], [Stream(fails_in(row, how, image), IMAGE)])
            assert child.healthy
            assert (child.infer([], [Stream(reader(image), IMAGE)])[0] == expected(image)).all()
        assert (child.infer([], [image])[0] == expected(image)).all()


def test_an_interrupt_leaves_the_child_usable() -> None:
    image = inputs_of(network(), 10)[-1][0]

    def interrupted(pixels: np.ndarray) -> object:
        raise KeyboardInterrupt

    with tflm.session(streamed()) as child:
        with pytest.raises(KeyboardInterrupt):
            child.infer([], [Stream(fails_in(3, interrupted, image), IMAGE)])
        assert (child.infer([], [Stream(reader(image), IMAGE)])[0] == expected(image)).all()


def test_under_sanitizers_a_function_writes_nothing_but_its_pixels() -> None:
    image = inputs_of(network(), 10)[-1][0]
    with tflm.session(streamed(), sanitize=True) as child:
        assert (child.infer([], [Stream(reader(image), IMAGE)])[0] == expected(image)).all()
        with pytest.raises(OSError, match="camera"):
            child.infer([], [Stream(fails_in(5, unplugged, image), IMAGE)])
        assert (child.infer([], [Stream(reader(image), IMAGE)])[0] == expected(image)).all()


def test_a_function_cannot_be_external_memory() -> None:
    with pytest.raises(ModelError, match="none of that size was given"):
        tflm.run(external(), [[]], [[Stream(lambda y, x, count: b"", IMAGE)]])
    with pytest.raises(UsageError, match="input_0 of mine is read in any order: give an array"):
        make_feed(load_model(external()), [lambda y, x, count: b""], "mine")


# ---- Sorting what the user gives ----


def test_a_feed_sends_every_input_where_the_model_reads_it() -> None:
    image = np.zeros((1, *IMAGE), np.int8)
    assert make_feed(load_model(network()), [image]).inputs[0] is image
    for model in (streamed(), external()):
        for given in (image, image[0]):
            feed = make_feed(load_model(model), [given])
            assert feed.inputs == () and isinstance(feed.outside[0], np.ndarray) and feed.outside[0].shape == IMAGE
    (stream,) = make_feed(load_model(streamed()), [reader(image)]).outside
    assert isinstance(stream, Stream) and stream.image == IMAGE


@pytest.mark.parametrize("model", [network, streamed, external])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "the model has 1 inputs but 0 were given"),
        ([np.zeros((1, *IMAGE), np.int8)] * 2, "but 2 were given"),
        ([np.zeros((1, 13, 11, 4), np.int8)], r"\[1, 13, 11, 4\]"),
        ([np.zeros((1, *IMAGE), np.uint8)], "uint8"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(model: Callable[[], bytes], given: list[np.ndarray], message: str) -> None:
    with pytest.raises(TfliteFuseError, match=message):
        feed = make_feed(load_model(model()), given)
        tflm.run(model(), [feed.inputs], [feed.outside])


def test_a_function_for_an_input_in_the_arena_is_refused() -> None:
    with pytest.raises(UsageError, match="only streamed ones may"):
        make_feed(load_model(network()), [lambda y, x, count: b""])


# ---- Comparing ----


def test_a_float32_input_may_follow_one_of_an_odd_number_of_bytes() -> None:
    raw = RawModel()
    bytes_first = raw.tensor((1, 3))
    source, output = (raw.tensor((1, 4, 4, 2), type_=TensorType.FLOAT32, quantization=None) for _ in range(2))
    raw.operator("RELU", [source], [output], None)
    model = serialize_model(raw.build([bytes_first, source], [output]))
    report = rewrite(model, input_mode="external", inputs=2).report
    assert report.outside and report.verified is not None and report.verified.bit_exact


@pytest.mark.parametrize("other", [streamed, external])
def test_models_are_compared_wherever_their_inputs_are(other: Callable[[], bytes]) -> None:
    inputs = inputs_of(network(), 6)
    for pair in ((network(), other()), (other(), network()), (other(), other()), (streamed(), external())):
        assert compare(*pair, inputs).bit_exact
    changed = fuse(dense_model(), [0])
    with pytest.raises(VerificationError, match="input 0 is input_0"):
        compare(other(), changed, inputs)


def test_generated_inputs_are_those_of_the_original() -> None:
    for original, same in zip(inputs_of(network()), inputs_of(streamed()), strict=True):
        assert (original[0] == same[0]).all()


# ---- Hostile metadata ----


def with_entry(model: bytes, **changes: object) -> bytes:
    found = load_model(model)
    (entry,) = outside_inputs(found)
    return serialize_model(set_outside_inputs(found, [replace(entry, **changes)]))  # type: ignore[arg-type]


LIES = [
    {"rows": 39, "columns": 11, "channels": 1},
    {"rows": 11, "columns": 13},
    {"rows": 1, "columns": 1, "channels": 429},
    {"shape": (1, 5, 5, 1), "rows": 5, "columns": 5, "channels": 1},
    {"shape": (1, 60, 60, 3), "rows": 60, "columns": 60},
    {"mode": InputMode.EXTERNAL},
]


@pytest.mark.parametrize("changes", LIES)
def test_metadata_that_lies_about_the_image_is_harmless(changes: dict[str, object]) -> None:
    """The operator checks sizes, the source its own extents: an error or wrong values, no wild access."""
    model = with_entry(streamed(), **changes)
    (entry,) = outside_inputs(load_model(model))
    image = np.arange(entry.nbytes, dtype=np.uint8).view(np.int8).reshape(entry.image)
    inputs: list[object] = [image]
    if entry.mode is InputMode.STREAMED:
        inputs.append(lambda y, x, count: image[y, x : x + count])
    for given in inputs:
        feed = make_feed(load_model(model), [given])  # type: ignore[list-item]
        try:
            tflm.run(model, [feed.inputs], [feed.outside], sanitize=True)
        except (ModelError, UsageError, IndexError) as error:
            assert "Sanitizer" not in str(error) and "crashed" not in str(error)


def test_without_metadata_the_operator_names_the_missing_input() -> None:
    model = serialize_model(set_outside_inputs(load_model(streamed()), []))
    assert outside_inputs(load_model(model)) == ()
    with pytest.raises(ModelError, match="reads memory outside the arena"):
        tflm.run(model, [[]])


# ---- Blocks ----


def test_the_same_block_reads_from_outside() -> None:
    model = load_model(network())
    extraction = extract(model, range(7))
    kept = move_outside(extraction, [999], InputMode.STREAMED, ONE_TILE)
    assert kept.extraction == extraction and kept.outside == {}
    resident = move_outside(extraction, model.main.inputs, InputMode.RESIDENT, ONE_TILE)
    assert resident.extraction == extraction
    for mode, storage in ((InputMode.EXTERNAL, Storage.EXTERNAL), (InputMode.STREAMED, Storage.SCRATCH)):
        moved = move_outside(extraction, model.main.inputs, mode, ONE_TILE)
        block = moved.extraction.block
        ((position, tensor),) = moved.outside.items()
        assert tensor == model.main.inputs[0] and block.tensors[position].storage is storage
        assert (block.inputs, moved.extraction.inputs) == ((), ())
        assert (block.stages[0].kind is StageKind.SOURCE) is (mode is InputMode.STREAMED)


def test_strips_of_a_streamed_input_are_refused() -> None:
    model = load_model(network())
    extraction = extract(model, range(7))
    assert move_outside(extraction, model.main.inputs, InputMode.EXTERNAL, BlockConfig(7, 2)).outside
    with pytest.raises(BlockError, match="tiles of 7 x 2 would read pixels of input_0 again"):
        move_outside(extraction, model.main.inputs, InputMode.STREAMED, BlockConfig(7, 2))


def test_the_library_alone_survives_a_failing_source_too() -> None:
    from tflite_fuse.cost.schedule.schedule import schedule
    from tflite_fuse.emit.encode import encode

    model, image = load_model(network()), inputs_of(network(), 10)[-1][0]
    extraction = extract(model, range(7))
    config = whole(extraction.block)
    block = move_outside(extraction, model.main.inputs, InputMode.STREAMED, config).extraction.block
    encoded = encode(block, schedule(block, config))
    for row in (0, 6, 12):
        with pytest.raises(OSError, match="the camera is gone"):
            run_block(encoded.options, encoded.constants, sources=[fails_in(row, unplugged, image)])
        (output,) = run_block(encoded.options, encoded.constants, sources=[reader(image)])
        assert (output == expected(image).ravel()).all()
