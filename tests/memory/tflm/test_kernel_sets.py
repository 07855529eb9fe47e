"""Scratch of optimised kernels in the arena: rules against a real runtime's needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.zoo import ModelBuilder
from tests.conftest import shared_models
from tflite_fuse.export.arena import arena_for
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.head_requests import arena_requests
from tflite_fuse.memory.tflm.kernel_sets import Kernels, variants
from tflite_fuse.memory.tflm.runtimes import FULL_STRUCTS
from tflite_fuse.memory.tflm.struct_sizes import ARM, of_2024
from tflite_fuse.model import Model, load_model

ARDUINO = replace(
    of_2024(replace(ARM, node=FULL_STRUCTS.node, edge_tensor=FULL_STRUCTS.edge_tensor)),
    kernels=Kernels("cmsis-nn", "2024", "dsp"),
)
"""The Arduino library of 2024, compiled for Arm as the Arduino IDE does."""

MEASURED = {
    "mlperf_tiny_dscnn_kws_int8": 24_176,
    "mlperf_tiny_resnet8_int8": 55_200,
    "mlperf_tiny_vww96_int8": 101_120,
}
"""Least arena with which that library allocated, on an emulated Cortex-M7."""


REAL = Path(__file__).resolve().parents[4] / "shared" / "real"


@pytest.mark.skipif(not REAL.exists(), reason="no models of shared/real beside the project")
def test_variables_and_concatenations_of_2024_are_counted_as_they_were() -> None:
    """It kept scales and zero points of each input; the least that allocates is 60 bytes above what is used then."""
    found = arena_for(load_model(REAL / "microwakeword_okay_nabu_v2.tflite"), ARDUINO)
    assert found.total == 20_276 and 0 <= found.needed - 20_336 < 32


@shared_models(*MEASURED)
def test_the_arduino_library_needs_its_measured_arena(path: Path) -> None:
    assert arena_for(load_model(path), ARDUINO).needed == MEASURED[path.stem]


def scratch(model: Model, kernels: Kernels) -> list[int]:
    """Bytes of the model's scratch buffers, in order, rounded up to 16."""
    return [
        buffer.size
        for buffer in arena_requests(program_of(model), kernels=kernels).buffers
        if buffer.operator is not None
    ]


def network() -> Model:
    """A convolution of 3x3, one of 1x1, two depthwise ones, an average and a SOFTMAX."""
    b = ModelBuilder(1)
    x = b.conv(b.input((1, 16, 16, 3)), 8, 3, 2)
    x = b.depthwise(b.depthwise(b.conv(x, 16), 3), 5)
    x = b.average_pool(x, 2)
    return b.build([b.softmax(b.fully_connected(b.mean(x), 10))])


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        (Kernels(), []),
        # unrolled columns: 2 x 27 (28) values of 16 bits; filters of 5x5 of 16 bits; sums of 16 channels
        (Kernels("cmsis-nn", "2026", "dsp"), [112, 800, 64]),
        # and filters of 3x3
        (Kernels("cmsis-nn", "2024", "dsp"), [112, 288, 800, 64]),
        # four columns of 32 values; 4 x 124 channels under each tap
        (Kernels("cmsis-nn", "2026", "helium"), [128, 4464, 12400]),
        # a number for each of the ten scores
        (Kernels("esp-nn", "2026", "generic"), [48]),
    ],
)
def test_each_kernel_set_has_its_own_scratch(kernels: Kernels, expected: list[int]) -> None:
    found = Counter(scratch(network(), kernels))
    found.subtract(scratch(network(), Kernels()))
    assert sorted(found.elements()) == sorted(expected)


@pytest.mark.parametrize(("name", "generation"), [("cmsis-nn", "2024"), ("cmsis-nn", "2026"), ("esp-nn", "2026")])
def test_no_set_needs_less_than_the_reference_kernels(name: str, generation: str) -> None:
    plain = arena_for(network(), ARM)
    for kernels in variants(name, generation):
        found = arena_for(network(), replace(ARM, kernels=kernels))
        assert found.head >= plain.head and found.tail >= plain.tail and not found.unknown


def test_vector_kernels_of_espressif_copy_weights_and_inputs() -> None:
    """An ESP32-S3: the 1x1 convolution copies its 8 x 16 weights and turns eight pixels round."""
    generic, s3 = (scratch(network(), Kernels("esp-nn", "2026", core)) for core in ("generic", "esp32s3"))
    assert sum(s3) > sum(generic) and 8 * 16 + 16 * 8 + 64 in s3
