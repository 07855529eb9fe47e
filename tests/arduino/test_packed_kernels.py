"""The kernels for packed weights against the numpy reference: in plain C, for the DSP extension and for Helium."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawing.packed_blocks import BUILDS, PackedMaker, deep_block, one_column_block, packed_block
from tests.drawing.random_blocks import random_operands
from tests.drawing.random_configs import random_config
from tests.drawing.witness import check, check_random, plan, reference, run
from tests.emit.test_fuzz_options import run_sanitized
from tflite_fuse.emit.encode import encode
from tflite_fuse.emit.options import read_options
from tflite_fuse.ir.block import Int8Array, StageKind
from tflite_fuse.ir.enums import WeightLayout
from tflite_fuse.runtime.library.host import HostLibrary, host_library, load_library

builds = pytest.mark.parametrize("flags", BUILDS.values(), ids=BUILDS)


@pytest.fixture(params=BUILDS.values(), ids=BUILDS)
def library(request: pytest.FixtureRequest) -> HostLibrary:
    return load_library(host_library(flags=request.param))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_packed_blocks(library: HostLibrary, rng: Random) -> None:
    block = packed_block(rng)
    check(library, block, random_config(rng, block), rng)


def test_many_packed_blocks(library: HostLibrary) -> None:
    for seed in range(250):
        rng = Random(seed)
        block = packed_block(rng)
        check(library, block, random_config(rng, block), rng)


def test_deep_blocks(library: HostLibrary) -> None:
    for seed in range(60):
        rng = Random(seed)
        block = deep_block(rng)
        check(library, block, random_config(rng, block), rng)


def test_dilated_windows_of_one_column(library: HostLibrary) -> None:
    """A row of one tap lies in one piece whatever its dilation; the memory for copies of rows is too short for it."""
    for seed in range(20):
        rng = Random(seed)
        block = one_column_block(rng)
        check(library, block, random_config(rng, block), rng)


def test_products_at_the_ends_of_their_range(library: HostLibrary) -> None:
    """In plain C two products share a word: the largest, of -128 and -128 twice, is the only one of 2^15."""
    for seed in range(60):
        rng, noise = Random(seed), np.random.default_rng(seed)
        maker = PackedMaker(rng)
        maker.conv()
        block = maker.finish(extra_outputs=False)

        def at_the_ends(values: Int8Array, share: float, noise: np.random.Generator = noise) -> Int8Array:
            return np.where(noise.random(values.shape) < share, -128, 127).astype(np.int8)

        full = rng.choice([0.0, 0.5, 1.0])
        stages = tuple(
            stage if stage.weights is None else replace(stage, weights=at_the_ends(stage.weights, full))
            for stage in block.stages
        )
        block = replace(block, stages=stages)
        share = rng.choice([0.5, 1.0])
        inputs, externals, sources = (
            [at_the_ends(values, share) for values in operands] for operands in random_operands(rng, block)
        )
        encoded = encode(block, plan(block, random_config(rng, block)))
        found = run(library, encoded, (inputs, externals, sources))
        expected = reference(block, (inputs, externals, sources))
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_any_blocks(library: HostLibrary) -> None:
    for seed in range(100):
        check_random(library, Random(seed))


def test_packed_blocks_have_the_layout_of_their_name() -> None:
    """Every kernel and layout is met by the tests above."""
    met: Counter[tuple[StageKind, int, bool]] = Counter()
    for seed in range(600):
        rng = Random(seed)
        block = packed_block(rng)
        options = read_options(encode(block, plan(block, random_config(rng, block))).options)
        for desc, stage in zip(options.stages, block.stages, strict=True):
            if stage.weights is not None:
                met[stage.kind, desc.weight_layout, block.tensors[stage.inputs[0]].channels % 4 == 0] += 1
    for kind in (StageKind.CONV, StageKind.DEPTHWISE):
        for layout in (WeightLayout.INT16_DOWN, WeightLayout.PAIRED_DOWN):
            assert met[kind, layout, False] > 5
        for layout in (1, 2):
            assert met[kind, layout, True] > 10
            assert met[kind, layout, False] > 10
    for layout in (WeightLayout.INT16_DOWN, WeightLayout.PAIRED_DOWN):
        assert met[StageKind.CONV, layout, True] > 10
    assert met[StageKind.FULLY_CONNECTED, 1, True] + met[StageKind.FULLY_CONNECTED, 1, False] > 3
    assert met[StageKind.FULLY_CONNECTED, WeightLayout.PACKED, True] > 10  # nearly all of several pixels


@builds
def test_packed_blocks_under_sanitizers(flags: tuple[str, ...]) -> None:
    assert run_sanitized("exercise-packed", 60_000, 100, *flags) == "{'equal': 100}\n"


@builds
def test_damaged_packed_blocks_under_sanitizers(flags: tuple[str, ...]) -> None:
    outcome = run_sanitized("fuzz-packed", 0, 300, *flags)
    assert "'ran'" in outcome
    assert "'refused'" in outcome
