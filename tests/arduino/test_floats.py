"""The C library's float32 kernels against the numpy reference, damaged blocks with sanitizers, and -ffp-contract."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.arduino.test_executor import library as library
from tests.drawing.random_configs import one_tile, random_config
from tests.drawing.steps.floats import FloatMaker, float_block
from tests.drawing.witness import check
from tests.emit.test_fuzz_options import run_sanitized
from tflite_fuse.check.block.options import read_options
from tflite_fuse.check.block.regions import block_program
from tflite_fuse.check.block.replay import replay
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.emit.decode import decode
from tflite_fuse.emit.encode import encode
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, Stage, StageKind
from tflite_fuse.ops.floats.common import FloatWeights
from tflite_fuse.runtime.library.host import HostLibrary, host_library, load_library


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_blocks_equal_the_reference(library: HostLibrary, first: int) -> None:
    for seed in range(first, first + 50):
        rng = Random(seed)
        block = float_block(rng)
        check(library, block, random_config(rng, block), rng)


def test_random_blocks_stay_within_their_memory() -> None:
    assert run_sanitized("exercise-floats", 1000, 200) == "{'equal': 200}\n"


def test_damaged_blocks_are_refused_or_run_within_their_memory() -> None:
    outcome = run_sanitized("fuzz-floats", 0, 400)
    assert "ran" in outcome and "refused" in outcome


@pytest.mark.parametrize("seed", range(60))
def test_decoding_gives_the_block_back(seed: int) -> None:
    rng = Random(seed)
    block = float_block(rng)
    encoded = encode(block, schedule(block, one_tile(random_config(rng, block))))
    found = decode(encoded.options, encoded.constants).block
    assert [replace(t, name="") for t in found.tensors] == [replace(t, name="") for t in block.tensors]
    assert [replace(s, bias=None) for s in found.stages] == list(block.stages)


@pytest.mark.parametrize("seed", range(60))
def test_the_proof_follows_them_to_the_same_distances(seed: int) -> None:
    rng = Random(seed)
    block = float_block(rng)
    found = BlockPlan(block, one_tile(random_config(rng, block)))
    proven = replay(block_program(read_options(found.encoded.options)))
    assert list(proven.problems) == []
    assert proven.scratch == found.scratch_distances


def test_strips_of_a_sum_are_refused() -> None:
    """They would add in another order."""
    maker = FloatMaker(Random(3), plain_inputs=True)
    maker.newest = maker.add_input((6, 8, 2))
    maker.dense()
    block = maker.finish(extra_outputs=False)
    with pytest.raises(BlockError, match="whole rows"):
        schedule(block, BlockConfig(6, 4))
    encoded = encode(block, schedule(block, BlockConfig(2, 8)))
    options = read_options(encoded.options)
    narrow = options._replace(header=options.header._replace(tile_width=4))
    assert any("another order" in problem for problem in replay(block_program(narrow)).problems)


def joined(*flags: str) -> HostLibrary:
    """The library as a compiler makes it that may join product and sum, on a core that can; its kernels unaware."""
    cpu = Path("/proc/cpuinfo")
    if not cpu.exists() or " fma " not in cpu.read_text():
        pytest.skip("this machine has no instruction for product and sum in one")
    return load_library(host_library(flags=("-mfma", "-U__FMA__", "-ffp-contract=fast", *flags)))


def test_a_library_that_joins_product_and_sum_names_the_flag_it_needs() -> None:
    block = float_block(Random(5), plain_inputs=True)
    config = one_tile(random_config(Random(5), block))
    with pytest.raises(BlockError, match="-ffp-contract=off"):
        check(joined(), block, config, Random(5))
    check(joined("-ffp-contract=off"), block, config, Random(5))


def test_a_library_that_may_reorder_sums_names_the_flag_to_leave_out() -> None:
    """The macro stands for the flag, with which GCC links a start that flushes subnormals of the whole process."""
    block = float_block(Random(5), plain_inputs=True)
    config = one_tile(random_config(Random(5), block))
    with pytest.raises(BlockError, match="no -ffast-math"):
        check(load_library(host_library(flags=("-D__FAST_MATH__",))), block, config, Random(5))


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("kind", [StageKind.FLOAT_CONV, StageKind.FLOAT_DEPTHWISE])
def test_taps_outside_the_image_meet_no_weight(library: HostLibrary, kind: StageKind, odd: float) -> None:
    """Zero times a weight that is no finite number would be no number."""
    maker = FloatMaker(Random(1), plain_inputs=True)
    maker.newest = maker.add_input((3, 4, 4))
    weights = np.ones((4, 3, 3, 4) if kind is StageKind.FLOAT_CONV else (3, 3, 4), np.float32)
    weights[(slice(None), 0, 0) if kind is StageKind.FLOAT_CONV else (0, 0)] = odd
    constants = FloatWeights(-np.inf, np.inf, bytes(16), weights.tobytes())
    stage = Stage(kind, (maker.newest,), -1, kernel_size=(3, 3), padding=(1, 1), parameters=constants)
    maker.add_stage(stage, (3, 4, 4))
    block = maker.finish(extra_outputs=False)
    block = replace(
        block,
        tensors=block.tensors[1:],
        inputs=(0,),
        outputs=(1,),
        stages=(replace(block.stages[0], inputs=(0,), output=1),),
    )
    check(library, block, BlockConfig(8, 8), Random(2))


def float16_layer(weights: np.ndarray) -> Block:
    """A fully connected layer of one value and as many outputs as weights, which are float16."""
    maker = FloatMaker(Random(1), plain_inputs=True)
    maker.newest = maker.add_input((1, 1, 1))
    constants = FloatWeights(-np.inf, np.inf, bytes(4 * len(weights)), weights.astype("<f4").tobytes(), True)
    stage = Stage(StageKind.FLOAT_FULLY_CONNECTED, (maker.newest,), -1, parameters=constants)
    maker.add_stage(stage, (1, 1, len(weights)))
    block = maker.finish(extra_outputs=False)
    stages = (replace(block.stages[0], inputs=(0,), output=1),)
    return replace(block, tensors=block.tensors[1:], inputs=(0,), outputs=(1,), stages=stages)


FINITE = np.concatenate([np.arange(sign, sign + 0x7C00, dtype=np.uint16) for sign in (0, 0x8000)]).view(np.float16)


@pytest.mark.parametrize("flags", [(), ("-DTFLITE_FUSE_HAS_FPU=0",)], ids=["product", "integers"])
def test_every_float16_is_widened_to_the_float32_that_it_equals(flags: tuple[str, ...]) -> None:
    library, block = load_library(host_library(flags=flags)), float16_layer(FINITE)
    encoded = encode(block, schedule(block, BlockConfig(1, 1)))
    one = np.ones(1, np.float32)
    (output,) = library.run(encoded.options, encoded.constants, [one], [], [], None)
    np.testing.assert_array_equal(output.view(np.float32), FINITE.astype(np.float32))


@pytest.mark.parametrize("odd", [np.inf, np.nan])
def test_float16_that_are_no_finite_numbers_are_refused(odd: float) -> None:
    block = float16_layer(np.array([1, odd, 2], np.float16))
    encoded = encode(block, schedule(block, BlockConfig(1, 1)))
    with pytest.raises(BlockError, match="infinite or no numbers"):
        decode(encoded.options, encoded.constants)


def test_random_blocks_without_instructions_for_floats_equal_the_reference() -> None:
    library = load_library(host_library(flags=("-DTFLITE_FUSE_HAS_FPU=0",)))
    for seed in range(300, 340):
        rng = Random(seed)
        block = float_block(rng)
        check(library, block, random_config(rng, block), rng)
