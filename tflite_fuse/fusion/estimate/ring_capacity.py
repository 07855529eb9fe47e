"""How many pixels a block's ring holds, from windows alone.

One consumer: a k x k window sliding over rows of w pixels needs the last ``(k − 1) * w + k`` of them, more by the
chunk.

Several consumers (a residual's skip) keep pixels until the slowest has read them. How far apart they are follows from
the windows too. While the driven tensor is computed at row p, a tensor reaches from row ``p * scale − behind``, where
the first window of a tile begins, to row ``p * scale + ahead``, up to which it is filled. What separates two consumers
then does not depend on p. It is largest in one of two moments: in mid-tile, when one is about to catch up with what
another has pulled; or at the start of a tile, when one has pulled all it needs and another has not begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from math import floor, lcm

import numpy as np

from tflite_fuse.fusion.block.axes import IntArray, Windows
from tflite_fuse.fusion.estimate.demands import Consumer, Demand, Grid, Reach, Reaches
from tflite_fuse.fusion.schedule.scratch_layout import ring_bytes


class Rings:
    """The rings of a growing block: how far every layer reaches, and where the paths from it meet again."""

    def __init__(self, grid: Grid, chunks: IntArray, last: int) -> None:
        """Args: chunks: output pixels a stage computes per step, [chunks, 1, 1]."""
        self.grid, self.chunks = grid, chunks
        self._chunks = tuple(chunks.ravel().tolist())
        self.reaches: dict[int, Reaches] = {last: (Reach(), Reach())}
        self._meets: dict[int, int] = {last: last}

    def follow(self, layer: int, consumers: Sequence[Consumer]) -> None:
        """Notes who reads what a layer writes."""
        self.reaches[layer] = joint_reaches(consumers)
        self._meets[layer] = self._meeting(consumers)

    def bytes(self, demand: Demand) -> IntArray:
        """Of a tensor's ring, [chunks, heights, widths]."""
        if demand.extent.pixels == 1:
            return ring_bytes(np.ones_like(self.chunks), demand.extent.channels)
        if len(demand.consumers) == 1 and self.grid.shape == (1, 1):
            height, width = demand.largest(self.grid)
            region = int(height[0, 0]), int(width[0])
            return _in_one_tile(demand.consumers[0].windows, region, demand.extent.pixel_bytes, self._chunks)
        join = self.reaches[self._meeting(demand.consumers)]
        pixels = ring_pixels(demand.consumers, join, *demand.largest(self.grid), self.chunks)
        # A ring nobody ever fills, as all that is read lies in padding, still has room for a pixel.
        return ring_bytes(np.maximum(pixels, 1), demand.extent.pixel_bytes)

    def _meeting(self, consumers: Sequence[Consumer]) -> int:
        """The layer where the paths through all consumers meet."""
        meeting = consumers[0].layer
        for consumer in consumers[1:]:
            other = consumer.layer
            while meeting != other:
                if meeting < other:
                    meeting = self._meets[meeting]
                else:
                    other = self._meets[other]
        return meeting


@lru_cache(maxsize=1 << 14)
def _in_one_tile(windows: Windows, region: tuple[int, int], pixel_bytes: int, chunks: tuple[int, ...]) -> IntArray:
    """Bytes of a ring that one stage reads: blocks that end at different layers have mostly the same."""
    (height, width), anywhere = region, (Reach(), Reach())
    chunk = np.array(chunks, dtype=np.int64)[:, None, None]
    pixels = ring_pixels((Consumer(0, windows),), anywhere, np.array([[height]]), np.array([width]), chunk)
    return ring_bytes(np.maximum(pixels, 1), pixel_bytes)


def joint_reaches(consumers: Sequence[Consumer]) -> Reaches:
    """The reaches of a tensor: what all its consumers need."""
    if len(consumers) == 1:
        return consumers[0].asked
    rows, columns = (_joint(asked) for asked in zip(*(consumer.asked for consumer in consumers), strict=True))
    return rows, columns


def _joint(asked: Sequence[Reach]) -> Reach:
    per = lcm(*(each.per for each in asked))
    alike = [each.in_units(per) for each in asked]
    return Reach(alike[0].scale, max(each.behind for each in alike), max(each.ahead for each in alike), per)


def ring_pixels(
    consumers: Sequence[Consumer], join: Reaches, height: IntArray, width: IntArray, chunk: IntArray
) -> IntArray:
    """Capacity of a ring in pixels.

    Args:
        consumers: every stage that reads it.
        join: reaches of the tensor where all consumers' paths meet again, rows and columns (one consumer: unused).
        height, width, chunk: extent of its region and output pixels a stage computes per step, arrays that broadcast
            against each other.
    """
    region = height * width
    if len(consumers) == 1:
        rows, columns = consumers[0].windows
        across = width if rows.returns else columns.most(chunk)
        separations: list[tuple[IntArray | int, IntArray]] = [(rows.most(1) - 1, across)]
    elif any(len({consumer.asked[axis].rate for consumer in consumers}) > 1 for axis in (0, 1)):
        return np.broadcast_to(region, np.broadcast_shapes(region.shape, chunk.shape))
    elif any(_is_made_larger(consumer) for consumer in consumers):
        separations = [(_rows_between(consumers, join), width)]
    else:
        separations = [_in_mid_tile(consumers, join, chunk), _at_the_start(consumers, join, chunk)]
    held = [lag * width + np.minimum(width, span) for lag, span in separations]
    pixels: IntArray = np.minimum(region, reduce(np.maximum, held))
    return pixels


def _is_made_larger(consumer: Consumer) -> bool:
    """Whether images are made larger by a stage that reads a tensor, or between it and where its paths meet."""
    return any(window.spread > 1 for window in consumer.windows) or any(
        reach.per > 1 for reach in (*consumer.asked, *consumer.reaches)
    )


def _rows_between(consumers: Sequence[Consumer], join: Reaches) -> int:
    """Full rows between the slowest consumer and the newest pixel, at most, in both of these moments.

    Where images are made larger, positions lie anywhere within the bounds of reaches, and a row may be needed again for
    the next one: rows count whole.
    """
    meeting = join[0]
    newest = max(Fraction(consumer.asked[0].ahead, consumer.asked[0].per) for consumer in consumers)
    oldest = []
    for consumer in consumers:
        reach, window = consumer.reaches[0], consumer.windows[0]
        filled = Fraction(reach.ahead, reach.per) - Fraction(reach.scale * meeting.per, reach.per * meeting.scale)
        oldest.append((filled * window.stride - window.padding) / window.spread)
    asked = consumers[0].asked[0]
    first = Fraction(meeting.ahead + meeting.behind, meeting.per) * asked.scale * meeting.per
    first /= asked.per * meeting.scale
    begun = max(
        Fraction(quick.asked[0].ahead, quick.asked[0].per) + Fraction(slow.asked[0].behind, slow.asked[0].per)
        for quick in consumers
        for slow in consumers
        if quick is not slow
    )
    return max(0, floor(newest - min(oldest)), floor(begun - first))


def _in_mid_tile(consumers: Sequence[Consumer], join: Reaches, chunk: IntArray) -> tuple[IntArray, IntArray]:
    """Full rows between the slowest consumer and the newest pixel, and pixels in the row.

    The stage where all paths meet moves on by a row or a chunk; the consumers' outputs are about to.
    """

    def behind(axis: int, step: IntArray) -> IntArray:
        moving = [(consumer.windows[axis], consumer.reaches[axis]) for consumer in consumers]
        oldest = [window.first(reach.ahead - step * (reach.scale // join[axis].scale) + 1) for window, reach in moving]
        separation: IntArray = max(consumer.asked[axis].ahead for consumer in consumers) - np.minimum.reduce(oldest)
        return separation

    return behind(0, np.ones_like(chunk)), behind(1, chunk) + 1


def _at_the_start(consumers: Sequence[Consumer], join: Reaches, chunk: IntArray) -> tuple[int, IntArray]:
    """The same when one consumer has pulled all it needs for the first step and another has not begun."""
    pairs = [(quick, slow) for quick in consumers for slow in consumers if quick is not slow]
    scales = [consumers[0].asked[axis].scale // join[axis].scale for axis in (0, 1)]
    lag, span = (
        max(quick.asked[axis].ahead + slow.asked[axis].behind for quick, slow in pairs)
        - (join[axis].ahead + join[axis].behind) * scales[axis]
        for axis in (0, 1)
    )
    return lag, span + (chunk - 1) * scales[1] + 1
