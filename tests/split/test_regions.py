"""Regions are sets: every operation agrees with one on masks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tflite_fuse.split.cut.regions import (
    Box,
    Region,
    flat_range,
    hull,
    intersect,
    region_of,
    subtract,
    union,
    volume,
    whole,
)

SHAPE = (5, 4, 6)
Mask = npt.NDArray[np.int64]


def mask(region: Region) -> Mask:
    """How often each element is in a region."""
    counts = np.zeros(SHAPE, np.int64)
    for box in region:
        assert box.volume > 0
        counts[slice(*box.rows), slice(*box.columns), slice(*box.channels)] += 1
    return counts


def random_region(rng: np.random.Generator) -> Region:
    def box() -> Box:
        ranges = [sorted(rng.integers(0, size + 1, 2).tolist()) for size in SHAPE]
        return Box(*((low, high) for low, high in ranges))

    return region_of(*(box() for _ in range(rng.integers(0, 4))))


@pytest.mark.parametrize("seed", range(30))
def test_set_operations_are_those_of_masks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = random_region(rng), random_region(rng)
    a, b = mask(left), mask(right)
    assert a.max() <= 1 and volume(left) == a.sum()
    assert np.array_equal(mask(union(left, right)), np.maximum(a, b))
    assert np.array_equal(mask(intersect(left, right)), a * b)
    assert np.array_equal(mask(subtract(left, right)), a * (1 - b))


@pytest.mark.parametrize("seed", range(60))
def test_a_flat_range_counts_channels_first_then_rows_then_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(np.prod(SHAPE))
    start, end = sorted(rng.integers(0, size + 1, 2).tolist())
    flat = np.zeros(size, np.int64)
    flat[start:end] = 1
    region = flat_range(SHAPE, start, end)
    assert np.array_equal(mask(region), flat.reshape(SHAPE[2], SHAPE[0], SHAPE[1]).transpose(1, 2, 0))
    assert len(region) <= 7


def test_a_hull_holds_all_its_boxes() -> None:
    boxes = (Box((1, 2), (0, 1), (3, 4)), Box((4, 5), (2, 3), (0, 1)))
    assert hull(boxes) == Box((1, 5), (0, 3), (0, 4))
    assert not subtract(boxes, (hull(boxes),))


def test_a_box_is_counted_from_the_corner_of_another() -> None:
    assert whole(SHAPE).within(whole(SHAPE)) == whole(SHAPE)
    assert Box((2, 3), (1, 4), (5, 6)).within(Box((1, 5), (1, 4), (2, 6))) == Box((1, 2), (0, 3), (3, 4))
