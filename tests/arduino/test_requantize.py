"""The C arithmetic, compiled for this machine, against the reference's, including edge values."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tflite_fuse.ops.arithmetic import multiply_by_quantized_multiplier, rounding_divide
from tflite_fuse.runtime.library.compiler import build_library
from tflite_fuse.runtime.library.sources import library_directory

EDGES = [0, 1, 2, 3, 2**15, 2**30 - 1, 2**30, 2**30 + 1, 2**31 - 2, 2**31 - 1]


@pytest.fixture(scope="module")
def probe() -> ctypes.CDLL:
    source = Path(__file__).with_name("requantize_probe.c")
    return ctypes.CDLL(str(build_library("requantize_probe", [source], [library_directory()])))


def call(function: object, *columns: np.ndarray) -> np.ndarray:
    arrays = [np.ascontiguousarray(column, np.int32) for column in columns]
    result = np.empty_like(arrays[0])
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (*arrays, result)]
    function(*pointers, ctypes.c_size_t(result.size))  # type: ignore[operator]
    return result


def test_scaling_rounds_twice_like_the_reference(probe: ctypes.CDLL) -> None:
    rng = np.random.default_rng(0)
    edges = np.array([*EDGES, *(-edge for edge in EDGES)])
    values = np.concatenate([edges, [-(2**31)], rng.integers(-(2**31), 2**31, 40), rng.integers(-5000, 5000, 40)])
    multipliers = np.concatenate([edges, rng.integers(-(2**31) + 1, 2**31, 40)])
    shifts = np.arange(-31, 31)
    grid = [axis.ravel() for axis in np.meshgrid(values, multipliers, shifts, indexing="ij")]
    expected = multiply_by_quantized_multiplier(*(axis.astype(np.int64) for axis in grid))
    np.testing.assert_array_equal(call(probe.probe_multiply, *grid), expected)


def test_halves_of_the_second_rounding(probe: ctypes.CDLL) -> None:
    """Every value around multiples of half the divisor, where the sign decides."""
    for shift in range(1, 12):
        values = np.arange(-(3 << shift), (3 << shift) + 1) * 2
        multipliers, shifts = np.full_like(values, 2**30), np.full_like(values, -shift)
        expected = multiply_by_quantized_multiplier(values, multipliers, shifts)
        np.testing.assert_array_equal(call(probe.probe_multiply, values, multipliers, shifts), expected)


def test_averages_round_halves_away_from_zero(probe: ctypes.CDLL) -> None:
    sums, counts = (axis.ravel() for axis in np.meshgrid(np.arange(-400, 401), np.arange(1, 60)))
    np.testing.assert_array_equal(call(probe.probe_divide, sums, counts), rounding_divide(sums, counts))
