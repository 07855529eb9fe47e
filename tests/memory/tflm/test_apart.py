"""The arena in two arrays: sufficient for a real runtime, and no larger."""

from __future__ import annotations

from pathlib import Path

import pytest

import tflite_fuse
from tests.conftest import shared_models
from tests.export.exported import fused, network
from tflite_fuse.export.arena import arena_for
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.apart import Apart, arenas_apart
from tflite_fuse.memory.tflm.offline_plan import read_plan
from tflite_fuse.memory.tflm.runtimes import RUNTIMES, runtime_named
from tflite_fuse.model import Model, load_model

LEAST = {
    "mlperf_tiny_dscnn_kws_int8": (6848, 16000),
    "mlperf_tiny_resnet8_int8": (5296, 49728),
    "mlperf_tiny_vww96_int8": (27008, 73728),
    "tflm_person_detect_int8": (27040, 55296),
    "mlperf_tiny_autoencoder_int8": (1824, 1344),
    "mlperf_tiny_wakeword1d_int8": (8672, 7936),
    "mcunet_detection_fpn_int8": (42960, 337024),
    "mcunet_in3_int8": (86592, 416832),
    "mcunet_vww1_float_io_int8": (58352, 161472),
}
"""Least sizes in which tensorflow/tflite-micro of 2026-08-20 with CMSIS-NN ran, on an emulated Cortex-M7 with
the two arrays in two memories: 16 bytes less of either were refused."""


def apart(model: Model, runtime: str) -> Apart:
    build = runtime_named(runtime).build
    return arenas_apart(program_of(model), arena_for(model, build).head, build, read_plan(model))


@shared_models(*LEAST)
def test_sizes_are_the_least_that_the_runtime_takes(path: Path) -> None:
    found = apart(load_model(path), "cmsis-nn")
    assert (found.persistent, found.activations) == LEAST[path.stem]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_two_arrays_take_as_much_as_one_and_another_allocator(runtime: str) -> None:
    for data in (network(), fused(), tflite_fuse.rewrite(network(), verify=False).model):
        model = load_model(data)
        arena, found = arena_for(model, runtime_named(runtime).build), apart(model, runtime)
        assert found.persistent % 16 == found.activations % 16 == 0
        assert arena.tail < found.persistent <= arena.tail + 32
        assert arena.head <= found.activations
        assert arena.needed <= found.persistent + found.activations
