"""The C library, compiled for this machine, against the numpy reference, byte for byte."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawing.host import run_block
from tests.drawing.random_blocks import BlockMaker, random_block, random_operands
from tests.drawing.random_configs import one_tile, random_config
from tests.drawing.waiting_blocks import waiting_block
from tests.drawing.witness import array_source, check, check_random, plan, reference, run
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.cost.schedule.tile_order import window_pointers
from tflite_fuse.emit.encode import encode
from tflite_fuse.emit.options import read_options, write_options
from tflite_fuse.errors import BlockError, UsageError
from tflite_fuse.ir.block import Block, BlockConfig, Int8Array, Stage, StageKind, Storage
from tflite_fuse.ir.limits import MAX_PATCH_VALUES, STACK_POINTERS
from tflite_fuse.ops.kinds.pairs import add_parameters
from tflite_fuse.runtime.library.host import HostLibrary, host_library, load_library

WHOLE = BlockConfig(65535, 65535)


@pytest.fixture(scope="module")
def library() -> HostLibrary:
    return load_library(host_library())


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_random_blocks(library: HostLibrary, rng: Random) -> None:
    check_random(library, rng)


@pytest.mark.parametrize("first", range(0, 1200, 400))
def test_many_seeds(library: HostLibrary, first: int) -> None:
    for seed in range(first, first + 400):
        check_random(library, Random(seed))


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_stages_that_wait_for_other_branches(library: HostLibrary, rng: Random) -> None:
    check(library, *waiting_block(rng), rng)


# ---- Shapes that random blocks seldom have ----


def maker(seed: int, shape: tuple[int, int, int]) -> BlockMaker:
    made = BlockMaker(Random(seed), plain_inputs=True)
    made.tensors.clear()
    made.newest = made.add_input(shape)
    return made


def conv(made: BlockMaker, kernel: tuple[int, int], dilation: tuple[int, int], out: int) -> None:
    source = made.source
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    weights = made.weights(out, *kernel, source.channels)
    table = made.requantization(out, weights.size // out)
    padding = (extent[0] // 2, extent[1] // 2)
    stage = Stage(StageKind.CONV, (made.newest,), -1, -1, kernel, (1, 1), dilation, padding, weights=weights,
                  bias=made.bias(out), requantization=table)  # fmt: skip
    made.add_stage(stage, (source.height, source.width, out))


def pool(made: BlockMaker, kind: StageKind, kernel: tuple[int, int]) -> None:
    stage = Stage(kind, (made.newest,), -1, -1, kernel, (2, 3), padding=(kernel[0] // 2, kernel[1] // 2))
    rows, columns = -(-made.source.height // 2), -(-made.source.width // 3)
    made.add_stage(stage, (rows, columns, made.source.channels))


@pytest.mark.parametrize("config", [WHOLE, BlockConfig(65535, 5, 3), BlockConfig(4, 6, 8)])
@pytest.mark.parametrize("kernel", [(1, 120), (11, 11), (7, 7), (60, 2)])
def test_windows_too_large_for_the_stack(library: HostLibrary, kernel: tuple[int, int], config: BlockConfig) -> None:
    made = maker(kernel[1], (11, 23, 2))
    conv(made, kernel, (1, 3) if kernel == (7, 7) else (1, 1), 3)
    assert window_pointers(made.stages[-1]) > STACK_POINTERS
    conv(made, (3, 3), (1, 1), 4)
    check(library, made.finish(extra_outputs=False), config, Random(1))


@pytest.mark.parametrize("kind", [StageKind.AVERAGE_POOL, StageKind.MAX_POOL])
def test_pools_over_large_windows(library: HostLibrary, kind: StageKind) -> None:
    made = maker(3, (13, 17, 5))
    conv(made, (3, 3), (1, 1), 7)
    pool(made, kind, (12, 11))
    check(library, made.finish(extra_outputs=False), BlockConfig(3, 4, 5), Random(2))


@pytest.mark.parametrize("pixels", [(15, 17), (16, 16), (20, 31)])
@pytest.mark.parametrize("extreme", [-128, 127])
def test_sums_of_255_and_more_pixels(library: HostLibrary, pixels: tuple[int, int], extreme: int) -> None:
    made = maker(5, (*pixels, 3))
    made.add_stage(Stage(StageKind.GLOBAL_AVERAGE, (made.newest,), -1), (1, 1, 3))
    made.fully_connected()
    block = made.finish(extra_outputs=False)
    operands = ([np.full((*pixels, 3), extreme, np.int8)], [], [])
    encoded = encode(block, schedule(block, BlockConfig(65535, 4, 3)))
    np.testing.assert_array_equal(run(library, encoded, operands)[0], reference(block, operands)[0])


def test_a_fully_connected_layer_of_one_pixel_needs_no_sums(library: HostLibrary) -> None:
    made = maker(7, (1, 1, 50))
    made.fully_connected()
    made.fully_connected()
    block = made.finish(extra_outputs=False)
    assert schedule(block, WHOLE).accumulator_offsets == (-1, -1)
    check(library, block, WHOLE, Random(3))


def test_extreme_biases_wrap_as_they_do_on_a_device(library: HostLibrary) -> None:
    made = maker(9, (3, 4, 8))
    conv(made, (3, 3), (1, 1), 4)
    biases = np.array([2**31 - 1, -(2**31), 2**31 - 100, -(2**31) + 7], np.int32)
    made.stages[-1] = replace(made.stages[-1], bias=biases)
    check(library, made.finish(extra_outputs=False), WHOLE, Random(4))


@pytest.mark.parametrize("kind", [StageKind.MAXIMUM, StageKind.MINIMUM])
@pytest.mark.parametrize("channels", [16, 6, 1])
@pytest.mark.parametrize("clamp", [(-128, 127), (-100, 90)])
def test_the_larger_and_the_smaller_of_any_two_bytes(
    library: HostLibrary, kind: StageKind, channels: int, clamp: tuple[int, int]
) -> None:
    """Four at once where they can be, so that bytes beside each other must not meet."""
    pairs = np.arange(3 * 2**16)
    first, second = (values.astype(np.uint8).view(np.int8) for values in (pairs, pairs // 256))
    shape = (64, first.size // 64 // channels, channels)
    made = maker(1, shape)
    other = made.add_input(shape)
    made.newest = 0
    made.add_stage(Stage(kind, (0, other), -1), shape)
    made.stages[-1] = replace(made.stages[-1], activation_min=clamp[0], activation_max=clamp[1])
    block = made.finish(extra_outputs=False)
    operands = ([first.reshape(shape), second.reshape(shape)], [], [])
    encoded = encode(block, schedule(block, WHOLE))
    expected = np.clip((np.maximum if kind is StageKind.MAXIMUM else np.minimum)(first, second), *clamp)
    np.testing.assert_array_equal(run(library, encoded, operands)[0].ravel(), expected)


# ---- Output over input ----


def overlapping_cases(count: int) -> list[tuple[Block, BlockConfig, Random]]:
    """Blocks of one tile with one input and one output."""
    cases = []
    for seed in range(10_000):
        rng = Random(seed)
        block = random_block(rng, largest=10, plain_inputs=True)
        if len(block.inputs) == len(block.outputs) == 1:
            cases.append((block, one_tile(random_config(rng, block)), rng))
        if len(cases) == count:
            break
    return cases


def run_overlapping(library: HostLibrary, case: tuple[Block, BlockConfig, Random], short: int) -> bool:
    """Whether the output is right if it lies ``short`` bytes too far into the input."""
    block, config, rng = case
    operands = random_operands(rng, block)
    schedule_ = schedule(block, config)
    distance = schedule_.overlaps[block.inputs[0], block.outputs[0]] - short
    outputs = run(library, encode(block, schedule_), operands, distance)
    return bool(np.array_equal(outputs[0], reference(block, operands)[0]))


def test_the_output_may_lie_over_the_input_at_the_distance_of_the_schedule(library: HostLibrary) -> None:
    assert all(run_overlapping(library, case, short=0) for case in overlapping_cases(150))


def test_bands_of_strips_may_write_over_the_input_too(library: HostLibrary) -> None:
    tiled = []
    for block, config, rng in overlapping_cases(150):
        driven = block.tensors[schedule(block, config).driven]
        size = rng.randint(1, driven.height), rng.randint(1, driven.width)
        tiled.append((block, replace(config, tile_height=size[0], tile_width=size[1]), rng))
    assert all(run_overlapping(library, case, short=0) for case in tiled)


def test_a_distance_that_is_short_spoils_results(library: HostLibrary) -> None:
    """The distance is not simply generous: a few bytes less and consumed memory is still needed."""
    cases = overlapping_cases(150)
    wrong = [case for case in cases if not run_overlapping(library, case, short=8)]
    assert len(wrong) > len(cases) // 5


# ---- Sources ----


def streamed_block() -> tuple[Block, Int8Array]:
    made = maker(11, (9, 10, 3))
    made.tensors[0] = replace(made.tensors[0], storage=Storage.SCRATCH)
    made.stages.append(Stage(StageKind.SOURCE, (), 0))
    conv(made, (3, 3), (1, 1), 4)
    conv(made, (5, 3), (1, 1), 2)
    block = made.finish(extra_outputs=False)
    return block, random_operands(Random(5), block)[2][0]


def test_a_source_is_read_once_per_pixel_in_raster_order() -> None:
    block, image = streamed_block()
    asked: list[tuple[int, int]] = []

    def source(y: int, x: int, count: int) -> Int8Array:
        asked.extend((y, x + i) for i in range(count))
        return image[y, x : x + count]

    encoded = encode(block, schedule(block, WHOLE))
    (output,) = run_block(encoded.options, encoded.constants, sources=[source])
    assert asked == [(y, x) for y in range(9) for x in range(10)]
    np.testing.assert_array_equal(output, reference(block, ([], [], [image]))[0])


@pytest.mark.parametrize("failing_row", [0, 4, 8])
def test_a_source_that_fails_ends_the_run_and_the_next_run_works(failing_row: int) -> None:
    block, image = streamed_block()
    encoded = encode(block, schedule(block, WHOLE))

    def failing(y: int, x: int, count: int) -> Int8Array:
        if y == failing_row:
            raise OSError("no more rows")
        return image[y, x : x + count]

    with pytest.raises(OSError, match="no more rows"):
        run_block(encoded.options, encoded.constants, sources=[failing])
    (output,) = run_block(encoded.options, encoded.constants, sources=[array_source(image)])
    np.testing.assert_array_equal(output, reference(block, ([], [], [image]))[0])


def test_a_source_that_gives_too_few_pixels_ends_the_run() -> None:
    block, image = streamed_block()
    encoded = encode(block, schedule(block, WHOLE))
    with pytest.raises(UsageError, match="gave"):
        run_block(encoded.options, encoded.constants, sources=[lambda y, x, count: image[y, x : x + count - 1]])


# ---- The caller's memory ----


@pytest.mark.parametrize(("shift", "refused"), [(0, False), (4, True), (1, True)])
def test_misaligned_scratch_is_refused(library: HostLibrary, shift: int, refused: bool) -> None:
    assert (invoke_raw(library, lambda scratch, output: (scratch + shift, output)) != 0) is refused


@pytest.mark.parametrize(("offset", "refused"), [(0, True), (11, True), (24, False)])
def test_an_output_over_the_cursors_is_refused(library: HostLibrary, offset: int, refused: bool) -> None:
    """24 bytes are reserved for two spatial stages; behind them an output only spoils the result."""
    assert (invoke_raw(library, lambda scratch, output: (scratch, scratch + offset)) != 0) is refused


def invoke_raw(library: HostLibrary, place: Callable[[int, int], tuple[int, int]]) -> int:
    """Status of a run of two convolutions with scratch and output where ``place`` puts them."""
    made = maker(13, (6, 6, 2))
    conv(made, (3, 3), (1, 1), 2)
    conv(made, (3, 3), (1, 1), 2)
    block = made.finish(extra_outputs=False)
    data = encode(block, schedule(block, WHOLE))
    options, constants = (ctypes.create_string_buffer(part, len(part)) for part in (data.options, data.constants))
    memory = [(ctypes.c_uint64 * 512)() for _ in range(3)]
    scratch, output = place(ctypes.addressof(memory[0]), ctypes.addressof(memory[1]))
    inputs, outputs = (ctypes.c_void_p * 1)(ctypes.addressof(memory[2])), (ctypes.c_void_p * 1)(output)
    prepared = (ctypes.c_uint64 * 16)()
    status = library.functions.tflite_fuse_prepare(prepared, options, len(options), constants, len(constants))
    assert status == 0
    io = (ctypes.c_void_p * 5)(ctypes.addressof(inputs), ctypes.addressof(outputs), None, None, scratch)
    return int(library.functions.tflite_fuse_invoke(prepared, io))


@pytest.mark.parametrize(
    ("kernel", "channels", "refused"), [(1, MAX_PATCH_VALUES, False), (1, MAX_PATCH_VALUES + 4, True), (3, 24, True)]
)
def test_outputs_replace_no_pixels_that_kernels_do_not_copy(
    library: HostLibrary, kernel: int, channels: int, refused: bool
) -> None:
    made = maker(3, (3, 3, 4))
    for size in (1, kernel, 1):
        conv(made, (size, size), (1, 1), channels)
    block = made.finish(extra_outputs=False)
    data = encode(block, plan(block, WHOLE))
    options = read_options(data.options)
    tensors = [desc._replace(overwrites=2 * (index == 2)) for index, desc in enumerate(options.tensors)]
    damaged = write_options(options._replace(tensors=tuple(tensors)), data.constants)
    assert (library.prepare(damaged, data.constants) != library.prepare(data.options, data.constants)) is refused


def test_operands_that_do_not_fit_are_refused() -> None:
    made = maker(15, (4, 4, 2))
    conv(made, (3, 3), (1, 1), 2)
    block = made.finish(extra_outputs=False)
    encoded = encode(block, plan(block, WHOLE))
    with pytest.raises(BlockError, match="operands"):
        run_block(encoded.options, encoded.constants)
    with pytest.raises(BlockError, match="32"):
        run_block(encoded.options, encoded.constants, [np.zeros(31, np.int8)])
    with pytest.raises(BlockError, match="int8"):
        run_block(encoded.options, encoded.constants, [np.zeros(32, np.uint8)])


@pytest.mark.parametrize("thin", [(0,), (1,), (0, 1)])
def test_an_addition_by_factors_reads_no_channels_that_an_operand_lacks(
    library: HostLibrary, thin: tuple[int, ...]
) -> None:
    made = maker(1, (3, 3, 4))
    other = made.add_input((3, 3, 4))
    made.add_stage(Stage(StageKind.ADD, (0, other), -1, parameters=add_parameters(0.5, 0.5, 1.0)), (3, 3, 4))
    data = encode(block := made.finish(extra_outputs=False), plan(block, WHOLE))
    options = read_options(data.options)
    assert library.prepare(data.options, data.constants) == 0 and options.stages[0].weights_offset >= 0
    tensors = [desc._replace(channels=1 if index in thin else 4) for index, desc in enumerate(options.tensors)]
    damaged = write_options(options._replace(tensors=tuple(tensors)), data.constants)
    assert library.prepare(damaged, data.constants) != 0
