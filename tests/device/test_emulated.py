"""The same C on emulated microcontrollers computes the bytes TensorFlow Lite Micro computes on this machine."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import networks
from scripts.zoo.float_twin import float_twin, with_float16_weights
from tests.conftest import SHARED, shared_models
from tests.device.program import Program, fusable_core, program_of
from tests.device.targets import OF_HALFWORDS, TARGETS, Target, build, execute, library_size, linked_size
from tflite_fuse.ir.block import StageKind
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.edit import prune
from tflite_fuse.model.schema import Model
from tflite_fuse.ops.weighted.sums import OF_SUMS
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.split.needs import LIBRARY_BYTES, SUMS_BYTES

THUMB_LIMIT = 37 * 1024 + 512
"""Bytes of flash that the library may take on a Cortex-M, constants included, beside the kernels of halfwords."""

HALFWORDS_LIMIT = 3 * 1024 + 768
"""Bytes of flash of the convolutions with weights of 16 bits or in pairs."""

FLOATS_LIMIT = 8 * 1024 + 256
"""Bytes of flash of the kernels on float32, those for weights in float16 included."""

FLOAT_KIND_LIMIT = 1024 + 512
"""Bytes of flash of one of them, with what all of them share."""

FIRST_LIMITS = {"-O2": 25 * 1024, "-Os": 22 * 1024 + 256}
"""Bytes of flash that the kinds of version 0.1 may take, by how they are compiled. arduino/README.md says them all."""

targets = pytest.mark.parametrize(
    "target",
    [
        pytest.param(
            target,
            id=target.name,
            marks=pytest.mark.skipif(bool(target.missing()), reason=f"{', '.join(target.missing())} not installed"),
        )
        for target in TARGETS.values()
    ],
)


def float32_network() -> Model:
    """Without its SOFTMAX, whose exponentials are those of each C library."""
    twin = float_twin(networks.one_dimensional_network())
    *kept, _ = twin.main.operators
    return prune(replace(twin, subgraphs=(replace(twin.main, operators=tuple(kept), outputs=kept[-1].outputs),)))


NETWORKS = {
    "inverted residuals": lambda: networks.inverted_residual_network(size=24, blocks=3),
    "cells": lambda: networks.cell_network(size=24),
    "one dimension": networks.one_dimensional_network,
    "pyramid": lambda: networks.pyramid_network(size=24),
    "larger again": lambda: networks.u_network(size=16, channels=(4, 6)),
    "a neck": lambda: networks.neck_network(size=32, channels=4, bilinear=True),
    "float32": float32_network,
    "float16": lambda: with_float16_weights(float_twin(networks.dense_network())),
}

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


@cache
def rewritten(name: str, inputs: int, input_mode: str = "resident", weights: str = "auto") -> tuple[Program, Any, Any]:
    """The part of a model that blocks can hold as blocks, its inputs, and the outputs that are needed."""
    core = fusable_core(NETWORKS[name]() if name in NETWORKS else load_model(SHARED / "models" / f"{name}.tflite"))
    written = tflite_fuse.rewrite(serialize_model(core), input_mode=input_mode, weights=weights, verify=False)
    found = load_model(written.model)
    samples = generate_inputs(core, inputs)
    return program_of(found), samples, tflm.run(serialize_model(core), samples).outputs


def check(
    name: str, target: Target, folder: Path, inputs: int, input_mode: str = "resident", weights: str = "auto"
) -> None:
    """Runs the blocks of a model on a target and compares all outputs."""
    program, samples, expected = rewritten(name, inputs, input_mode, weights)
    report = execute(target, build(target, program, samples, folder, "-O2", guarded=True), program)
    assert report.outputs == [[np.asarray(output).tobytes() for output in outputs] for outputs in expected]
    assert len({tuple(outputs) for outputs in report.outputs}) > 1


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(name, target, id=f"{name}-{target.name}")
        for target in TARGETS.values()
        for name in NETWORKS
        if not name.startswith("float") or "NO_FLOATS" not in target.flags
    ],
)
def test_small_networks(name: str, target: Target, tmp_path: Path) -> None:
    check(name, target, tmp_path, inputs=6)


@targets
@pytest.mark.parametrize("name", ["inverted residuals", "pyramid", "one dimension"])
def test_pictures_that_are_handed_out(name: str, target: Target, tmp_path: Path) -> None:
    check(name, target, tmp_path, inputs=3, input_mode="streamed")


@targets
@pytest.mark.parametrize("weights", ["paired", "16bit"])
@pytest.mark.parametrize("name", ["inverted residuals", "larger again", "one dimension"])
def test_weights_in_halfwords(name: str, weights: str, target: Target, tmp_path: Path) -> None:
    check(name, target, tmp_path, inputs=3, weights=weights)


STACK_LIMIT = 2432
"""Bytes of stack that checking or running a block may take, as arduino/README.md says."""


@targets
def test_the_measured_stack_equals_the_documented(target: Target, tmp_path: Path) -> None:
    program, samples, _ = rewritten("inverted residuals", inputs=6)
    report = execute(target, build(target, program, samples[:1], tmp_path, "-O2"), program)
    assert all(100 < used <= STACK_LIMIT for used in report.stack)


@targets
@shared_models(
    "mlperf_tiny_vww96_int8",
    "tflm_person_detect_int8",
    "mlperf_tiny_resnet8_int8",
    "mcunet_vww1_float_io_int8",
    "mlperf_tiny_dscnn_kws_int8",
    "mlperf_tiny_wakeword1d_int8",
    "mlperf_tiny_autoencoder_int8",
)
def test_public_models(path: Path, target: Target, tmp_path: Path) -> None:
    check(path.stem, target, tmp_path, inputs=4)


@pytest.mark.parametrize(("flags", "limit"), FIRST_LIMITS.items())
@pytest.mark.parametrize("name", ["cortex-m7", "cortex-m4", "cortex-m55"])
def test_the_kinds_of_version_0_1_take_little_flash(name: str, flags: str, limit: int, tmp_path: Path) -> None:
    if TARGETS[name].missing():
        pytest.skip(f"{', '.join(TARGETS[name].missing())} not installed")
    first = [kind for kind in StageKind if kind <= StageKind.SOURCE]
    assert linked_size(TARGETS[name], tmp_path, flags, first) <= limit


def test_every_other_kind_takes_at_most_one_kibibyte_and_is_left_out_where_it_is_not_used(tmp_path: Path) -> None:
    target = TARGETS["cortex-m7"]
    if target.missing():
        pytest.skip(f"{', '.join(target.missing())} not installed")
    least = linked_size(target, tmp_path, "-O2", [StageKind.CONV])
    for kind in [kind for kind in StageKind if kind > StageKind.SOURCE and kind not in OF_SUMS]:
        # The table of kinds is as long as the largest number in it: 4 bytes a number are not of this kind.
        table = 4 * (kind - StageKind.CONV)
        most = FLOAT_KIND_LIMIT if kind.name.startswith("FLOAT_") else 1024
        assert 0 < linked_size(target, tmp_path, "-O2", [StageKind.CONV, kind]) - least - table <= most, kind.name


@pytest.mark.parametrize("name", ["cortex-m7", "cortex-m4", "cortex-m55"])
def test_the_library_is_small(name: str, tmp_path: Path) -> None:
    if TARGETS[name].missing():
        pytest.skip(f"{', '.join(TARGETS[name].missing())} not installed")
    sizes = library_size(TARGETS[name], tmp_path, "-O2")
    of_halfwords = sum(size for file, size in sizes.items() if Path(file).stem in OF_HALFWORDS)
    assert of_halfwords <= HALFWORDS_LIMIT
    of_floats = sum(size for file, size in sizes.items() if file.startswith("tflite_fuse_float_"))
    assert of_floats <= FLOATS_LIMIT
    of_bytes = sum(sizes.values()) - of_halfwords - of_floats
    assert of_bytes <= THUMB_LIMIT
    worker = sum(library_size(TARGETS[name], tmp_path, "-O2", worker=True).values())
    # No fragment has a TRANSPOSE, and none is a whole model, so no worker links these.
    unused = sizes["tflite_fuse_transpose.c"] + sizes["tflite_fuse_model.c"]
    assert of_bytes - unused + worker <= LIBRARY_BYTES
    assert library_size(TARGETS[name], tmp_path, "-O2", worker=True, optional=True)["tflite_fuse_sums.c"] <= SUMS_BYTES
