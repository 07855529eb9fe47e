"""How much each of several workers gets."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import accumulate, pairwise

from tflite_fuse.split.cut.regions import Range


def by_ratings(total: int, ratings: Sequence[float]) -> tuple[Range, ...]:
    """``total`` things in ranges in proportion to ratings, each bound rounded down, as the published scheme does.

    Raises:
        ZeroDivisionError: no rating is above 0.
    """
    share = sum(ratings)
    bounds = [0, *(int(total * part / share + 1e-9) for part in accumulate(ratings))]
    return tuple(pairwise([*bounds[:-1], total]))


def evenly_loaded(total: int, speeds: Sequence[float]) -> tuple[Range, ...]:
    """``total`` equal things in ranges such that the last worker is done as early as possible.

    The next thing always goes to the worker that would be done first with one more, which is optimal for equal things;
    of workers equally early, the one with fewer. A worker may get none.
    """
    counts = [0] * len(speeds)
    queue = [(1 / speed, 0, index) for index, speed in enumerate(speeds) if speed > 0]
    heapq.heapify(queue)
    for _ in range(total):
        _, count, index = heapq.heappop(queue)
        counts[index] = count + 1
        heapq.heappush(queue, ((count + 2) / speeds[index], count + 1, index))
    return tuple(pairwise((0, *accumulate(counts))))
