"""Tilings that leave holes: the search's rule equals the schedule's, and the count of positions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tflite_fuse.cost.schedule.tiles import Tiles, split_block
from tflite_fuse.ir.axes import AxisWindow, Ranges, Tilings, covers, make_tilings, needed
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, Stage, StageKind, Storage

EMPTY = [(3, 3), (1 << 40, -(1 << 40)), (1 << 60, 0)]
"""Ways to say that a tile needs nothing."""


def no_gap(ranges: Sequence[tuple[int, int]], length: int) -> bool:
    """Whether the ranges visit every position of an axis, none of them before the positions above it."""
    visited: set[int] = set()
    for low, high in ranges:
        if low < high and not visited.issuperset(range(low)):
            return False
        visited |= set(range(low, high)) if low < high else set()
    return visited.issuperset(range(length))


@given(st.data())
def test_covering_is_counting_positions(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 8))
    some = st.tuples(st.integers(0, length), st.integers(0, length)).map(lambda pair: (min(pair), max(pair)))
    one = st.lists(st.one_of(some, st.just((0, length)), st.sampled_from(EMPTY)), min_size=1, max_size=5)
    options = data.draw(st.lists(one, min_size=1, max_size=4))
    low, high = np.array([pair for option in options for pair in option], dtype=np.int64).T
    first = np.array([0, *accumulate(len(option) for option in options)][:-1], dtype=np.int64)
    answers = covers(Ranges(low, high), Tilings(np.ones_like(first), first, low, high), length)
    assert answers.tolist() == [no_gap(option, length) for option in options]


@given(st.integers(1, 12), st.integers(0, 4), st.integers(1, 3), st.integers(1, 9))
def test_a_strip_of_padding_alone_is_no_hole(width: int, border: int, kernel: int, size: int) -> None:
    """A thin net with two outputs: a convolution's, and that of the PAD behind it, whose last tiles see nothing."""
    padding = kernel // 2
    inner = width + 2 * padding - kernel + 1
    tensors = (
        BlockTensor("input", 1, width, 1, 0, Storage.INPUT),
        BlockTensor("convolved", 1, inner, 1, 0, Storage.OUTPUT),
        BlockTensor("padded", 1, inner + 2 * border, 1, 0, Storage.OUTPUT),
    )
    window = Stage(StageKind.CONV, (0,), 1, kernel_size=(1, kernel), padding=(0, padding))
    stages = (window, Stage(StageKind.PAD, (1,), 2, padding=(0, border)))
    block = Block(tensors, stages, inputs=(0,), outputs=(1, 2))
    size = min(size, tensors[2].width)
    tiles = Tiles(block, split_block(block), BlockConfig(1, size, 1))
    assert sum(count for _, count in tiles.classes) == -(-tensors[2].width // size)
    tilings = make_tilings(tensors[2].width, (size,))
    asked = needed(Ranges(tilings.low, tilings.high), AxisWindow(1, border, 1), inner)
    assert covers(asked, tilings, inner).all()
